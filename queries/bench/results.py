"""Result files: reading, checking, choosing and merging them. Standard library only.

A result file holds one run: `{"format": 1, "run": {…}, SECTION: …}`. `run` is the block of `run_info.py`. Sections:

- `queries`    lines and targets of `measure.py`
- `duckdb`     a list of comparisons of `compare_duckdb.py`
- `on_demand`  a list of reports of the `on_demand` benchmark
- `io`         the report of `grampus bench io`

`current.json` beside them, `{"runs": [NAME, …]}`, names the runs that pages show: a page takes each section from the
first run that has it.
"""

import json
import os

SECTIONS = ("queries", "duckdb", "on_demand", "io")
CURRENT = "current.json"


class ResultError(Exception):
    """A result file that cannot be used; the text names the file."""


def read_json(path):
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except OSError as error:
        raise ResultError(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise ResultError(f"{path}: not JSON: {error}") from error


def write_json(path, value):
    with open(path, "w", encoding="utf-8") as out:
        json.dump(value, out, indent=1, ensure_ascii=False)
        out.write("\n")


class Run:
    """One result file."""

    def __init__(self, path, data=None):
        self.path = path
        self.name = os.path.basename(path).removesuffix(".json")
        self.data = read_json(path) if data is None else data
        self.check()

    def fail(self, text):
        raise ResultError(f"{self.path}: {text}")

    def check(self):
        if not isinstance(self.data, dict) or self.data.get("format") != 1:
            self.fail("no result file of format 1")
        run = self.data.get("run")
        if not isinstance(run, dict):
            self.fail("no block 'run'")
        for name in ("date", "commit", "committed", "machine", "settings", "commands", "checks"):
            if name not in run:
                self.fail(f"the block 'run' lacks '{name}'")
        if not isinstance(run["machine"], dict) or "name" not in run["machine"]:
            self.fail("the machine has no name")
        for section, kind, wanted in (("queries", dict, "lines"), ("duckdb", list, "queries"),
                                      ("on_demand", list, "measurements"), ("io", dict, "figures")):
            value = self.data.get(section)
            if value is None:
                continue
            parts = value if kind is list else [value]
            if not isinstance(value, kind) or not all(isinstance(part, dict) and wanted in part for part in parts):
                self.fail(f"the section '{section}' lacks '{wanted}'")

    def section(self, name):
        return self.data.get(name)

    @property
    def date(self):
        return self.data["run"]["date"]

    @property
    def commit(self):
        return self.data["run"]["commit"]

    @property
    def machine(self):
        return self.data["run"]["machine"]

    @property
    def order(self):
        """Runs are sorted by the time of their commits."""
        return self.data["run"]["committed"], self.name


class Results:
    """All runs of a folder, and the chosen ones."""

    def __init__(self, folder):
        self.folder = folder
        try:
            names = sorted(name for name in os.listdir(folder) if name.endswith(".json") and name != CURRENT)
        except OSError as error:
            raise ResultError(f"{folder}: {error.strerror}") from error
        self.runs = sorted((Run(os.path.join(folder, name)) for name in names), key=lambda run: run.order)
        path = os.path.join(folder, CURRENT)
        wanted = read_json(path).get("runs", [])
        known = {run.name: run for run in self.runs}
        unknown = [name for name in wanted if name not in known]
        if unknown or not wanted:
            raise ResultError(f"{path}: no result file {', '.join(unknown) or 'is named'}")
        self.chosen = [known[name] for name in wanted]

    def first(self, section, condition=lambda part: True):
        """(run, section's value) of the first chosen run that has the section; for a list, its first fitting part."""
        for run in self.chosen:
            value = run.section(section)
            for part in value if isinstance(value, list) else [value]:
                if part is not None and condition(part):
                    return run, part
        return None, None


def find(folder, name):
    """A run by the path of its file, by its name, or by the only name that begins so."""
    if os.path.exists(name):
        return Run(name)
    names = [file for file in sorted(os.listdir(folder)) if file.endswith(".json") and file != CURRENT]
    fitting = [file for file in names if file == f"{name}.json"] or [file for file in names if name in file]
    if len(fitting) != 1:
        raise ResultError(f"{name}: {len(fitting)} result files of {folder} have that name")
    return Run(os.path.join(folder, fitting[0]))


def part_of(path):
    """A tool's JSON as a partial result file: a section, with or without a block `run`."""
    data = read_json(path)
    if isinstance(data, dict) and data.get("format") == 1:
        return Run(path, data).data
    if isinstance(data, dict) and "measurements" in data:
        return {"on_demand": [data]}
    if isinstance(data, dict) and "figures" in data:
        return {"io": data}
    raise ResultError(f"{path}: no result of measure.py, compare_duckdb.py, on_demand or bench io")


def merge(paths, run=None):
    """One run's result file from its tools' files. `run` is the block for files that have none."""
    merged = {"format": 1, "run": None}
    for path in paths:
        part = part_of(path)
        own = part.get("run")
        if own and merged["run"]:
            both = [(block["commit"], block["machine"]["name"]) for block in (merged["run"], own)]
            if both[0] != both[1]:
                raise ResultError(f"{path}: of {both[1]}, the files before of {both[0]}")
            merged["run"]["settings"].update(own["settings"])
            merged["run"]["commands"] += own["commands"]
            merged["run"]["checks"] += own["checks"]
        elif own:
            merged["run"] = own
        for section in SECTIONS:
            if section not in part:
                continue
            if isinstance(part[section], list):
                merged.setdefault(section, []).extend(part[section])
            elif section in merged:
                raise ResultError(f"{path}: a second section '{section}'")
            else:
                merged[section] = part[section]
    merged["run"] = merged["run"] or run
    if merged["run"] is None:
        raise ResultError(f"{paths[0]}: no file has a block 'run'; on the measured machine, give --here")
    return merged


def file_name(data):
    run = data["run"]
    return f"{run['date']}_{run['commit']}_{run['machine']['name']}.json"
