#!/usr/bin/env python3
"""q0 and q5 through `grampus bench sql` in every mode, each answer checked against numpy's first.

    measure.py GRAMPUS DATA [--warm DATA] [--only MODE,...] [--runs 7] [--out FILE]

DATA: a folder of make_data.py. WARM: a small one of the same kind, for first touches in a session that is already running.
Prints a table and writes everything measured as JSON. Exit status 1 if an answer was wrong.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
QUERIES = ("q0_30", "q0_20", "q5_30", "q5_20")
GPU = ["grampus.device=gpu"]
# Name: settings, and whether each query is measured in a session of its own, where it touches the files first.
MODES = {
    "cpu": (["grampus.device=cpu"], False),
    "mapped": (GPU + ["grampus.gpu_backing=mapped", "grampus.prune=false"], False),
    "resident": (GPU + ["grampus.gpu_backing=resident", "grampus.prune=false"], True),
    "auto": (GPU + ["grampus.gpu_backing=auto", "grampus.prune=false"], True),
    "paged": (GPU + ["grampus.gpu_backing=paged", "grampus.prune=false"], True),
    "queued": (GPU + ["grampus.gpu_backing=queued", "grampus.prune=false"], True),
    "queued-small": (GPU + ["grampus.gpu_backing=queued", "grampus.prune=false", "grampus.gpu_cache_bytes={tenth}"], False),
    "device-auto": ([], True),
}


def stage(one, name):
    """Milliseconds of a stage of the last run, from the plan's metrics; None: there is none."""
    found = re.search(rf"\b{name}=([0-9.]+)(ns|µs|ms|s)\b", " ".join(one["plan"]))
    return float(found[1]) * {"ns": 1e-6, "µs": 1e-3, "ms": 1, "s": 1e3}[found[2]] if found else None


def shown(ms):
    return "–" if ms is None else f"{ms:.2f} ms"


def sql_of(query):
    with open(os.path.join(HERE, "..", f"{query}.sql"), encoding="utf-8") as file:
        return file.read()


def close(got, wanted):
    return abs(got - wanted) <= 1e-9 * max(1.0, abs(wanted))


def bench(arguments, settings, queries, folder):
    """Runs statements in one session; gives what `bench sql` measured by name."""
    files = []
    tables = ["-t", f"trips={arguments.data}"]
    if arguments.warm:
        tables += ["-t", f"warm={arguments.warm}"]
        for query in queries:
            path = os.path.join(folder, f"warm_{query}.sql")
            with open(path, "w", encoding="utf-8") as out:
                out.write(sql_of(query).replace("FROM trips", "FROM warm"))
            files.append(path)
    files += [os.path.join(HERE, "..", f"{query}.sql") for query in queries]
    out = os.path.join(folder, "out.json")
    command = [arguments.grampus, "bench", "sql", *files, *tables, "--runs", str(arguments.runs), "--json", out]
    for setting in settings:
        command += ["--set", setting]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=arguments.timeout, check=False)
    if done.returncode != 0:
        return {}, done.stderr.strip()
    with open(out, encoding="utf-8") as file:
        return {one["name"]: one for one in json.load(file)["statements"]}, ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("grampus")
    parser.add_argument("data")
    parser.add_argument("--warm")
    parser.add_argument("--only", default=",".join(MODES))
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--timeout", type=float, default=120)
    parser.add_argument("--out")
    arguments = parser.parse_args()
    with open(os.path.join(arguments.data, "answers.json"), encoding="utf-8") as file:
        answers = json.load(file)
    total = sum(entry.stat().st_size for entry in os.scandir(arguments.data) if entry.name.endswith(".orc"))
    measured, wrong = {}, 0
    print(f"| mode | query | first | median of {arguments.runs} | kernel | needed | moved | amplification |\n| --- | --- | --- | --- | --- | --- | --- | --- |")
    for mode in arguments.only.split(","):
        settings, alone = MODES[mode]
        settings = [setting.format(tenth=total // 10) for setting in settings]
        for queries in [(query,) for query in QUERIES] if alone else [QUERIES]:
            with tempfile.TemporaryDirectory() as folder:
                found, error = bench(arguments, settings, queries, folder)
            if error:
                print(f"{mode}: {error}", file=sys.stderr)
                wrong += 1
            for query in queries:
                one = found.get(query)
                if one is None:
                    continue
                good = all(close(float(one["rows"][0][name]), value) for name, value in answers[query].items())
                if not good:
                    wrong += 1
                    print(f"{mode}: {query} answered {one['rows']}, not {answers[query]}", file=sys.stderr)
                measured.setdefault(mode, {})[query] = one
                share = one["moved_bytes"] / max(1, one["needed_bytes"])
                print(
                    f"| {mode} | {query} | {one['first_ms']:.2f} ms | {one['median_ms']:.2f} ms | {shown(stage(one, 'kernel_time'))} | {one['needed_bytes'] / 1e6:.1f} MB "
                    f"| {one['moved_bytes'] / 1e6:.1f} MB | {share:.3f}{'' if good else ' WRONG'} |",
                    flush=True,
                )
    if arguments.out:
        with open(arguments.out, "w", encoding="utf-8") as out:
            json.dump(measured, out, indent=1)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
