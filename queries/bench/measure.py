#!/usr/bin/env python3
"""q0 and q5 on a GPU, every way, against plain kernels of the same run; and what was aimed at.

    measure.py GRAMPUS FOLDER [--scan SCAN] [--disk FOLDER] [--rows 200000000] [--files 16] [--runs 7] [--sessions 5]
               [--only STEP,…] [--tables pyarrow,ours] [--set KEY=VALUE] [--out FILE]

FOLDER (a tmpfs) gets a table of six doubles by `grampus taxi generate`, and the same trips written by pyarrow, whose streams begin at any byte;
those that are there are used again. Every answer is compared with numpy's (1e-9) before its time counts. Steps:

    plain    kernels that sum a column's bytes and do nothing else (gpu-exec's example `scan`, given with --scan)
    cpu      every core
    mapped   files registered
    first    each query in sessions of its own (after one of its shape over a small table), at its first touch of the files: by the GPU, and by
             whichever device the planner chooses
    hot      what was first brought is on the device: auto, and every column resident
    queued   by commands: first touch, then from the cache; and with device memory for 10 % of the bytes
    cold     files on --disk, their pages dropped, against reading past the page cache
    compile  a query shape's compilation: never seen, kept in the folder, seen in the session (in which another shape has run, unless said)
    start    `grampus -c`, start to exit

Times are milliseconds, medians; "kernel" is the device's own. Exit status 1 if an answer was wrong or a step failed.
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

    def folder(self, table):
        return os.path.join(self.arguments.disk if table == "cold" else self.arguments.folder, table)

    def fail(self, text):
        self.failed += 1
        print(f"FAILED: {text}", file=sys.stderr, flush=True)

    def session(self, data, queries, settings, runs, environment=None, warm=True):
        """What `bench sql` measured of each query, in one session; wrong answers are left out."""
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
            done = subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=self.arguments.timeout, check=False, env=environment)
            if done.returncode != 0:
                self.fail(f"{' '.join(settings)}: {done.stderr.strip()}")
                return {}
            with open(out, encoding="utf-8") as file:
                found = {one["name"]: one for one in json.load(file)["statements"]}
        with open(os.path.join(data, "answers.json"), encoding="utf-8") as file:
            answers = json.load(file)
        for query in (query for query in queries if query in answers):
            row, wanted = found[query]["rows"][0], answers[query]
            if not all(abs(float(row[name]) - value) <= 1e-9 * max(1.0, abs(value)) for name, value in wanted.items()):
                self.fail(f"{' '.join(settings)}: {query} answered {row}, not {wanted}")
                del found[query]
        return found

    def add(self, table, way, query, ms, kernel=None, needed=None, moved=None, plan=()):
        line = {"table": table, "way": way, "query": query, "ms": ms, "kernel": kernel, "needed": needed, "moved": moved, "plan": list(plan)}
        self.lines.append(line)
        cells = [table, way, query, f"{ms:.2f} ms", "–" if kernel is None else f"{kernel:.3f} ms"]
        cells.append("–" if moved is None else f"{moved / 1e6:,.1f} MB")
        cells.append("–" if not needed or moved is None else f"{moved / needed:.3f}")
        print(f"| {' | '.join(cells)} |", flush=True)

    def again(self, table, way, queries, settings, runs=None):
        """Medians of a session's later runs."""
        for query, one in self.session(self.folder(table), queries, settings, runs or self.arguments.runs).items():
            if query in queries:
                kernel = median(stage(plan, "kernel_time") for plan in one["plans"])
                self.add(table, way, query, one["median_ms"], kernel, one["needed_bytes"], one["moved_bytes"], one["plans"][-1])

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
        self.add(table, way, query, one["first_ms"], kernel, one["first_needed_bytes"], one["first_moved_bytes"], one["first_plan"])

    def figure(self, table, way, query, name="ms"):
        for line in self.lines:
            if (line["table"], line["way"], line["query"]) == (table, way, query):
                if name == "amplification":
                    return line["moved"] / line["needed"] if line["needed"] else None
                return line[name]
        return None


# ---- steps ------------------------------------------------------------------------------------------------


def make_tables(bench):
    arguments = bench.arguments
    # The others are written from it.
    tables = ["ours"] + [table for table in arguments.tables if table != "ours"] + ["warm"] + (["cold"] if arguments.disk else [])
    for table in tables:
        folder = bench.folder(table)
        if os.path.exists(os.path.join(folder, "answers.json")):
            continue
        began = time.monotonic()
        if table == "ours":
            command = [arguments.grampus, "taxi", "generate", "--columns", "six", "--rows", str(arguments.rows), "--files", str(arguments.files)]
            subprocess.run([*command, "--out", folder, "--overwrite", "--quiet"], check=True)
            make_data.answer(folder)
        else:
            files = {"warm": 1, "cold": max(1, arguments.files // 4)}.get(table)
            make_data.make(folder, bench.folder("ours"), files)
        print(f"table {table}: {time.monotonic() - began:.1f} s", file=sys.stderr, flush=True)


def plain(bench):
    arguments = bench.arguments
    if not arguments.scan:
        return
    folder = bench.folder("scan")
    with tempfile.TemporaryDirectory() as out:
        path = os.path.join(out, "plain.json")
        command = [arguments.scan, folder, "--rows", str(arguments.rows), "--files", str(arguments.files), "--runs", str(arguments.runs)]
        subprocess.run([*command, "--only", "nothing else", "--json", path], check=True, timeout=arguments.timeout)
        with open(path, encoding="utf-8") as file:
            for one in json.load(file)["plain"]:
                bench.add("plain", one["name"], "", one["ms"], one["ms"])
    shutil.rmtree(folder)


def cpu(bench):
    for table in bench.arguments.tables:
        bench.again(table, "cpu", QUERIES, ["grampus.device=cpu"])


def mapped(bench):
    for table in bench.arguments.tables:
        bench.again(table, "mapped", QUERIES, [*GPU, "grampus.gpu_backing=mapped"])


def first(bench):
    for table in bench.arguments.tables:
        for query in FIRST:
            bench.first(table, "first touch, auto", query, [*GPU, "grampus.gpu_backing=auto"])
            # Whichever of both the planner chooses, every row looked at as above.
            bench.first(table, "first touch, either device", query, ["grampus.device=auto", "grampus.prune=false"])


def hot(bench):
    for table in bench.arguments.tables:
        for backing in ("resident", "auto"):
            for query in FIRST:
                bench.again(table, f"hot, {backing}", (query,), [*GPU, f"grampus.gpu_backing={backing}"])


def queued(bench):
    table = bench.arguments.tables[0]
    settings = [*GPU, "grampus.gpu_backing=queued"]
    for query in ("q0_30", "q5_30"):
        bench.first(table, "first touch, queued", query, settings)
    folder = bench.folder(table)
    tenth = sum(entry.stat().st_size for entry in os.scandir(folder) if entry.name.endswith(".orc")) // 10
    for backing in ("queued", "auto"):
        small = [*GPU, f"grampus.gpu_backing={backing}", f"grampus.gpu_cache_bytes={tenth}"]
        bench.again(table, f"10 % of the bytes, {backing}", QUERIES[2:], small, 5)


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
        bench.first("cold", "first touch, auto", query, [*GPU, "grampus.gpu_backing=auto"], before)
    column = bench.arguments.rows // 4 * 8
    bench.add("plain", "the cold column's bytes past the page cache", "", column / median(rates) * 1e3)


def compile_shapes(bench):
    table = bench.arguments.tables[0]
    settings = [*GPU, "grampus.gpu_backing=auto"]
    for query in ("q0_30", "q5_30"):
        times = {"first ever": [], "from the folder, a session's first": [], "new shape": [], "from the folder": [], "seen in the session": []}
        for _ in range(bench.arguments.sessions):
            with tempfile.TemporaryDirectory() as cache:
                # The driver has a cache of its own, which knows a shape's machine code as long as the text is short.
                uncached = {"XDG_CACHE_HOME": cache, "CUDA_CACHE_DISABLE": "1"}
                session = lambda *queries: bench.session(bench.folder(table), queries, settings, 1, uncached, False)
                new, kept = session("q1_30", query), session("q1_30", query)
            if query not in new or query not in kept:
                return
            times["first ever"].append(stage(new["q1_30"]["first_plan"], "compile_time"))
            times["from the folder, a session's first"].append(stage(kept["q1_30"]["first_plan"], "compile_time"))
            times["new shape"].append(stage(new[query]["first_plan"], "compile_time"))
            times["from the folder"].append(stage(kept[query]["first_plan"], "compile_time"))
            times["seen in the session"].append(stage(kept[query]["plans"][0], "compile_time") or 0.0)
        for way, ms in times.items():
            if median(ms) is not None:
                bench.add(table, f"compile: {way}", "q1_30" if "first" in way else query, median(ms))


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
            done = subprocess.run([*command, "-c", sql_of(query)], capture_output=True, text=True, timeout=arguments.timeout, check=False)
            taken.append((time.monotonic() - began) * 1e3)
            if done.returncode != 0:
                bench.fail(f"-c {query}: {done.stderr.strip()}")
                return
        bench.add(table, "start to exit", query, median(taken[1:]))


STEPS = {
    "plain": plain,
    "cpu": cpu,
    "mapped": mapped,
    "first": first,
    "hot": hot,
    "queued": queued,
    "cold": cold,
    "compile": compile_shapes,
    "start": start,
}


# ---- what was aimed at ------------------------------------------------------------------------------------

PCIE, DEVICE = "sum over PCIe from registered files", "sum from device memory"


def ratio(a, b):
    return None if a is None or not b else a / b


def aims(bench):
    """(what, figure, bound, whether it is an upper bound)"""
    of = bench.figure
    for table in bench.arguments.tables:
        kernel = lambda way, query: of(table, way, query, "kernel")
        yield f"{table}: q0_30 mapped, speed of a plain sum", ratio(of("plain", PCIE, ""), kernel("mapped", "q0_30")), 0.95, False
        yield f"{table}: q5_30 / q0_30 mapped, kernels", ratio(kernel("mapped", "q5_30"), kernel("mapped", "q0_30")), 1.03, True
        yield f"{table}: q5_20 / q0_20 mapped, kernels", ratio(kernel("mapped", "q5_20"), kernel("mapped", "q0_20")), 1.18, True
        yield f"{table}: q5_30 / q0_30 mapped, whole queries", ratio(of(table, "mapped", "q5_30"), of(table, "mapped", "q0_30")), 1.03, True
        yield f"{table}: q5_30 amplification mapped", of(table, "mapped", "q5_30", "amplification"), 1.02, True
        yield f"{table}: q5_20 amplification mapped", of(table, "mapped", "q5_20", "amplification"), 1.10, True
        for query, bound in (("q0_30", 1.15), ("q5_30", 1.5), ("q5_20", None)):
            for way in ("first touch, auto", "first touch, either device"):
                yield f"{table}: {query} {way} / mapped", ratio(of(table, way, query), of(table, "mapped", query)), bound, True
        for query in ("q0_30", "q5_30"):
            for backing in ("resident", "auto"):
                way = f"hot, {backing}"
                yield f"{table}: {query} {way}, speed of a plain sum", ratio(of("plain", DEVICE, ""), kernel(way, query)), 0.8, False
                whole, device = of(table, way, query), kernel(way, query)
                yield f"{table}: {query} {way}, ms above the kernel", None if whole is None or device is None else whole - device, 5, True
    table = bench.arguments.tables[0]
    yield "q5_30 amplification queued", of(table, "first touch, queued", "q5_30", "amplification"), 1.12, True
    yield "q0_30 cold / the column past the page cache", ratio(of("cold", "first touch, auto", "q0_30"), of("plain", "the cold column's bytes past the page cache", "")), 1.10, True
    for query in ("q0_30", "q5_30"):
        yield f"{query} compile, new shape, ms", of(table, "compile: new shape", query), 150, True
        yield f"{query} compile, from the folder, ms", of(table, "compile: from the folder", query), 5, True
        yield f"{query} compile, seen in the session, ms", of(table, "compile: seen in the session", query), 5, True
        whole, itself = of(table, "start to exit", query), of(table, "first touch, auto", query)
        yield f"{query} with -c, ms above the query at first touch", None if whole is None or itself is None else whole - itself, 800, True


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
    parser.add_argument("--tables", default="pyarrow,ours", type=lambda names: names.split(","))
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--timeout", type=float, default=120)
    parser.add_argument("--out")
    arguments = parser.parse_args()
    bench = Bench(arguments)
    make_tables(bench)
    print("| table | way | query | time | kernel | moved | amplification |\n| --- | --- | --- | --- | --- | --- | --- |")
    for name in arguments.only.split(","):
        try:
            STEPS[name](bench)
        except (subprocess.SubprocessError, OSError, ValueError) as error:
            bench.fail(f"{name}: {error}")
    print("\n| aim | figure | bound | |\n| --- | --- | --- | --- |")
    for what, figure, bound, upper in aims(bench):
        if figure is None:
            continue
        said = "" if bound is None else "reached" if (figure <= bound if upper else figure >= bound) else "missed"
        limit = "as it is" if bound is None else f"{'at most' if upper else 'at least'} {bound}"
        print(f"| {what} | {figure:.3f} | {limit} | {said} |")
    if arguments.out:
        with open(arguments.out, "w", encoding="utf-8") as out:
            json.dump(bench.lines, out, indent=1)
    return 1 if bench.failed else 0


if __name__ == "__main__":
    sys.exit(main())
