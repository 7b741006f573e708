#!/usr/bin/env python3
"""q0 and q5 on a GPU, in every way, against plain kernels of the same run; and the targets.

    measure.py GRAMPUS FOLDER [--scan SCAN] [--disk FOLDER] [--rows 200000000] [--files 16] [--runs 7] [--sessions 5]
               [--only STEP,…] [--tables unaligned,aligned] [--set KEY=VALUE] [--out FILE] [--commit C] [--machine NAME]

FOLDER (a tmpfs) gets two tables of six doubles with the same trips. `grampus taxi generate` writes `aligned`; pyarrow
writes `unaligned`, whose streams begin at any byte. Tables that exist are used again. A time counts only if the answer
agrees with numpy's (1e-9). Steps:

    plain    kernels that sum a column's bytes and do nothing else (gpu-exec's example `scan`, given with --scan)
    cpu      every core
    mapped   files registered
    first    first touch: each query in sessions of its own, after a query of its shape over a small table; by the GPU,
             and by the device that the planner chooses
    resident data of the first run is on the device: whole columns, and pages
    queued   by commands: first touch; then with device memory for 10 % of the bytes
    cold     files on --disk, page cache cold, against direct reads
    compile  compiling a query shape: new, kept in the folder, seen in the session (in which another shape has run,
             unless the line says otherwise)
    start    `grampus -c`, start to exit

Times are milliseconds, medians; "kernel" is the device's own time. Exit status 1 if an answer was wrong or a step
failed.
"""

import argparse
import concurrent.futures
import json
import mmap
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import make_data
import run_info
import targets
from targets import CPU, DIRECT, FIRST_CHOSEN, FIRST_GPU, FIRST_QUEUED, FROM_FOLDER, IN_SESSION, MAPPED, NEW_SHAPE
from targets import PAGES, PLAIN, RESIDENT, START, TENTH_AUTO, TENTH_QUEUED

HERE = os.path.dirname(os.path.abspath(__file__))
QUERIES = ("q0_30", "q0_20", "q5_30", "q5_20")
FIRST = ("q0_30", "q5_30", "q5_20")
GPU = ["grampus.device=gpu", "grampus.prune=false"]
UNITS = {"ns": 1e-6, "µs": 1e-3, "ms": 1, "s": 1e3}


def stage(plan, name):
    """Milliseconds of a stage, from a plan's metrics; None: there is none."""
    found = re.search(rf"\b{name}=([0-9.]+)(ns|µs|ms|s)\b", " ".join(plan))
    return float(found[1]) * UNITS[found[2]] if found else None


def median(values):
    values = [value for value in values if value is not None]
    return statistics.median(values) if values else None


def sql_of(query):
    with open(os.path.join(HERE, "..", f"{query}.sql"), encoding="utf-8") as file:
        return file.read()


class Bench:
    """Sessions of `grampus bench sql`, their answers checked."""

    def __init__(self, arguments):
        self.arguments = arguments
        self.lines = []  # (table, way, query) and figures
        self.failed = 0
        self.checked = 0  # answers that agreed with numpy's

    def folder(self, table):
        return os.path.join(self.arguments.disk if table == "cold" else self.arguments.folder, table)

    def fail(self, text):
        self.failed += 1
        print(f"FAILED: {text}", file=sys.stderr, flush=True)

    def session(self, data, queries, settings, runs, environment=None, warm=True):
        """Figures of `bench sql` for each query of one session; wrong answers are left out."""
        with tempfile.TemporaryDirectory() as folder:
            files = []
            tables = ["-t", f"trips={data}"]
            if warm:
                tables += ["-t", f"warm={self.folder('warm')}"]
                for query in queries:
                    path = os.path.join(folder, f"warm_{query}.sql")
                    with open(path, "w", encoding="utf-8") as out:
                        out.write(sql_of(query).replace("FROM trips", "FROM warm"))
                    files.append(path)
            files += [os.path.join(HERE, "..", f"{query}.sql") for query in queries]
            out = os.path.join(folder, "out.json")
            command = [self.arguments.grampus, "bench", "sql", *files, *tables, "--runs", str(runs), "--json", out]
            for setting in settings + self.arguments.set:
                command += ["--set", setting]
            environment = {**os.environ, **(environment or {})}
            limit = self.arguments.timeout
            done = subprocess.run(
                command, stderr=subprocess.PIPE, text=True, timeout=limit, check=False, env=environment
            )
            if done.returncode != 0:
                self.fail(f"{' '.join(settings)}: {done.stderr.strip()}")
                return {}
            with open(out, encoding="utf-8") as file:
                found = {one["name"]: one for one in json.load(file)["statements"]}
        with open(os.path.join(data, "_answers.json"), encoding="utf-8") as file:
            answers = json.load(file)
        for query in (query for query in queries if query in answers):
            row, wanted = found[query]["rows"][0], answers[query]
            if not all(abs(float(row[name]) - value) <= 1e-9 * max(1.0, abs(value)) for name, value in wanted.items()):
                self.fail(f"{' '.join(settings)}: {query} answered {row}, not {wanted}")
                del found[query]
            else:
                self.checked += 1
        return found

    def add(self, table, way, query, ms, kernel=None, needed=None, moved=None, runs=()):
        line = {"table": table, "way": way, "query": query, "ms": ms, "kernel": kernel, "needed": needed}
        self.lines.append({**line, "moved": moved, "runs_ms": list(runs)})
        cells = [table, way, query, f"{ms:.2f} ms", "–" if kernel is None else f"{kernel:.3f} ms"]
        cells.append("–" if moved is None else f"{moved / 1e6:,.1f} MB")
        cells.append("–" if not needed or moved is None else f"{moved / needed:.3f}")
        print(f"| {' | '.join(cells)} |", flush=True)

    def again(self, table, way, queries, settings, runs=None):
        """Medians of a session's later runs."""
        for query, one in self.session(self.folder(table), queries, settings, runs or self.arguments.runs).items():
            if query in queries:
                kernel = median(stage(plan, "kernel_time") for plan in one["plans"])
                moved = one["moved_bytes"]
                self.add(table, way, query, one["median_ms"], kernel, one["needed_bytes"], moved, one["runs_ms"])

    def first(self, table, way, query, settings, before=lambda: None):
        """The median of first runs, each in a session of its own."""
        found = []
        for _ in range(self.arguments.sessions):
            before()
            one = self.session(self.folder(table), (query,), settings, 1).get(query)
            if one is None:
                return
            found.append(one)
        one = sorted(found, key=lambda one: one["first_ms"])[len(found) // 2]
        kernel = median(stage(one["first_plan"], "kernel_time") for one in found)
        runs = [one["first_ms"] for one in found]
        needed, moved = one["first_needed_bytes"], one["first_moved_bytes"]
        self.add(table, way, query, one["first_ms"], kernel, needed, moved, runs)


# ---- steps ------------------------------------------------------------------------------------------------


def make_tables(bench):
    arguments = bench.arguments
    # The other tables are written from `aligned`.
    tables = ["aligned"] + [table for table in arguments.tables if table != "aligned"] + ["warm"]
    tables += ["cold"] if arguments.disk else []
    for table in tables:
        folder = bench.folder(table)
        if os.path.exists(os.path.join(folder, "_answers.json")):
            continue
        began = time.monotonic()
        if table == "aligned":
            command = [arguments.grampus, "taxi", "generate", "--columns", "six", "--rows", str(arguments.rows)]
            command += ["--files", str(arguments.files), "--out", folder]
            subprocess.run([*command, "--overwrite", "--quiet"], check=True)
            make_data.answer(folder)
        else:
            files = {"warm": 1, "cold": max(1, arguments.files // 4)}.get(table)
            make_data.make(folder, bench.folder("aligned"), files)
        print(f"table {table}: {time.monotonic() - began:.1f} s", file=sys.stderr, flush=True)


def plain(bench):
    arguments = bench.arguments
    if not arguments.scan:
        return
    folder = bench.folder("scan")
    with tempfile.TemporaryDirectory() as out:
        path = os.path.join(out, "plain.json")
        command = [arguments.scan, folder, "--rows", str(arguments.rows), "--files", str(arguments.files)]
        command += ["--runs", str(arguments.runs)]
        subprocess.run([*command, "--only", "nothing else", "--json", path], check=True, timeout=arguments.timeout)
        with open(path, encoding="utf-8") as file:
            for one in json.load(file)["plain"]:
                bench.add(PLAIN, one["name"], "", one["ms"], one["ms"])
    shutil.rmtree(folder)


def cpu(bench):
    for table in bench.arguments.tables:
        bench.again(table, CPU, QUERIES, ["grampus.device=cpu"])


def mapped(bench):
    for table in bench.arguments.tables:
        bench.again(table, MAPPED, QUERIES, [*GPU, "grampus.gpu_backing=mapped"])


def first(bench):
    for table in bench.arguments.tables:
        for query in FIRST:
            bench.first(table, FIRST_GPU, query, [*GPU, "grampus.gpu_backing=auto"])
            # The planner chooses the device; every row is read, as above.
            bench.first(table, FIRST_CHOSEN, query, ["grampus.device=auto", "grampus.prune=false"])


def resident(bench):
    for table in bench.arguments.tables:
        for way, backing in ((RESIDENT, "resident"), (PAGES, "auto")):
            for query in FIRST:
                bench.again(table, way, (query,), [*GPU, f"grampus.gpu_backing={backing}"])


def queued(bench):
    table = bench.arguments.tables[0]
    settings = [*GPU, "grampus.gpu_backing=queued"]
    for query in ("q0_30", "q5_30"):
        bench.first(table, FIRST_QUEUED, query, settings)
    folder = bench.folder(table)
    tenth = sum(entry.stat().st_size for entry in os.scandir(folder) if entry.name.endswith(".orc")) // 10
    for way, backing in ((TENTH_QUEUED, "queued"), (TENTH_AUTO, "auto")):
        small = [*GPU, f"grampus.gpu_backing={backing}", f"grampus.gpu_cache_bytes={tenth}"]
        bench.again(table, way, QUERIES[2:], small, 5)


def drop_pages(paths):
    for path in paths:
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def direct_rate(paths, depth=32, piece=1 << 20):
    """Bytes a second of sequential reads past the page cache, `depth` at a time."""
    files = [os.open(path, os.O_RDONLY | os.O_DIRECT) for path in paths]
    pieces = [(file, at) for file in files for at in range(0, os.fstat(file).st_size // piece * piece, piece)]

    def read(share):
        buffer = mmap.mmap(-1, piece)
        return sum(os.preadv(file, [buffer], at) for file, at in share)

    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(depth) as pool:
        total = sum(pool.map(read, [pieces[i::depth] for i in range(depth)]))
    seconds = time.monotonic() - began
    for file in files:
        os.close(file)
    return total / seconds


def cold(bench):
    if not bench.arguments.disk:
        return
    paths = sorted(entry.path for entry in os.scandir(bench.folder("cold")) if entry.name.endswith(".orc"))
    rates = []

    def before():
        drop_pages(paths)
        rates.append(direct_rate(paths))

    for query in ("q0_30", "q5_30"):
        bench.first("cold", FIRST_GPU, query, [*GPU, "grampus.gpu_backing=auto"], before)
    column = bench.arguments.rows // 4 * 8
    bench.add(PLAIN, DIRECT, "", column / median(rates) * 1e3)


def compile_shapes(bench):
    table = bench.arguments.tables[0]
    settings = [*GPU, "grampus.gpu_backing=auto"]
    first_ever, first_loaded = "compile: first ever", "compile: from the folder, a session's first"
    for query in ("q0_30", "q5_30"):
        times = {way: [] for way in (first_ever, first_loaded, NEW_SHAPE, FROM_FOLDER, IN_SESSION)}
        for _ in range(bench.arguments.sessions):
            with tempfile.TemporaryDirectory() as cache:
                # The driver has a cache of its own, which knows a shape's machine code as long as the source is short.
                uncached = {"XDG_CACHE_HOME": cache, "CUDA_CACHE_DISABLE": "1"}
                session = lambda *queries: bench.session(bench.folder(table), queries, settings, 1, uncached, False)
                new, kept = session("q1_30", query), session("q1_30", query)
            if query not in new or query not in kept:
                return
            times[first_ever].append(stage(new["q1_30"]["first_plan"], "compile_time"))
            times[first_loaded].append(stage(kept["q1_30"]["first_plan"], "compile_time"))
            times[NEW_SHAPE].append(stage(new[query]["first_plan"], "compile_time"))
            times[FROM_FOLDER].append(stage(kept[query]["first_plan"], "compile_time"))
            times[IN_SESSION].append(stage(kept[query]["plans"][0], "compile_time") or 0.0)
        for way, ms in times.items():
            if median(ms) is not None:
                shape = "q1_30" if way in (first_ever, first_loaded) else query
                bench.add(table, way, shape, median(ms), runs=[one for one in ms if one is not None])


def start(bench):
    arguments = bench.arguments
    table = arguments.tables[0]
    command = [arguments.grampus, "-t", f"trips={bench.folder(table)}"]
    for setting in ["grampus.device=gpu", *arguments.set]:
        command += ["-c", "SET {} = '{}'".format(*setting.split("=", 1))]
    for query in ("q0_30", "q5_30"):
        taken = []
        for _ in range(arguments.sessions + 1):  # the first may compile
            began = time.monotonic()
            whole = [*command, "-c", sql_of(query)]
            done = subprocess.run(whole, capture_output=True, text=True, timeout=arguments.timeout, check=False)
            taken.append((time.monotonic() - began) * 1e3)
            if done.returncode != 0:
                bench.fail(f"-c {query}: {done.stderr.strip()}")
                return
        bench.add(table, START, query, median(taken[1:]), runs=taken[1:])


STEPS = {
    "plain": plain,
    "cpu": cpu,
    "mapped": mapped,
    "first": first,
    "resident": resident,
    "queued": queued,
    "cold": cold,
    "compile": compile_shapes,
    "start": start,
}


# ---- targets ----------------------------------------------------------------------------------------------


def print_targets(found):
    print("\n| target | table | figure | bound | |\n| --- | --- | --- | --- | --- |")
    for target in targets.TARGETS:
        for table, value in found.get(target.key, {}).items():
            bound = f"{'at most' if target.is_upper else 'at least'} {target.bound}"
            verdict = "met" if target.is_met(value) else "missed"
            print(f"| {target.text} | {table} | {value:.3f} | {bound} | {verdict} |")


def write(bench, found):
    """The result file: the block `run`, lines and targets."""
    arguments = bench.arguments
    names = ("rows", "files", "runs", "sessions", "only", "tables", "set")
    settings = {"queries": {name: getattr(arguments, name) for name in names}}
    checks = [f"{bench.checked} answers of q0 and q5 compared with numpy's (1e-9), {bench.failed} failures"]
    command = " ".join(["measure.py", *sys.argv[1:]])
    run = run_info.run_info(arguments, settings, command, checks, arguments.grampus)
    with open(arguments.out, "w", encoding="utf-8") as out:
        json.dump({"format": 1, "run": run, "queries": {"lines": bench.lines, "targets": found}}, out, indent=1)
        out.write("\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("grampus")
    parser.add_argument("folder")
    parser.add_argument("--scan")
    parser.add_argument("--disk")
    parser.add_argument("--rows", type=int, default=200_000_000)
    parser.add_argument("--files", type=int, default=16)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--sessions", type=int, default=5)
    parser.add_argument("--only", default=",".join(STEPS))
    parser.add_argument("--tables", default=",".join(targets.TABLES), type=lambda names: names.split(","))
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--timeout", type=float, default=120)
    parser.add_argument("--out")
    run_info.add_arguments(parser)
    arguments = parser.parse_args()
    bench = Bench(arguments)
    make_tables(bench)
    print("| table | way | query | time | kernel | moved | amplification |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name in arguments.only.split(","):
        try:
            STEPS[name](bench)
        except (subprocess.SubprocessError, OSError, ValueError) as error:
            bench.fail(f"{name}: {error}")
    found = targets.figures(bench.lines, arguments.tables)
    print_targets(found)
    if arguments.out:
        write(bench, found)
    return 1 if bench.failed else 0


if __name__ == "__main__":
    sys.exit(main())
