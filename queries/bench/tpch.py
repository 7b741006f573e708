#!/usr/bin/env python3
"""TPC-H through `grampus bench sql`, next to DuckDB over the same rows as Parquet.

    tpchgen-cli parquet -s 1 --output-dir=FOLDER
    tpch.py GRAMPUS FOLDER [--runs 5] [--queries 1,12] [--threads 2] [--device cpu] [--set KEY=VALUE] [--against K=V]

FOLDER holds the eight Parquet files; `grampus convert` writes ORC files beside them, if they are absent. Each engine
runs a query once unmeasured and then --runs times, all in one process. Prints the least of these times, and compares
answers: fractions to 1e-6, all else exactly.
--against runs Grampus once more with other settings. Needs duckdb. Exit status 1 if answers differ.
"""

import argparse
import datetime
import decimal
import glob
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import duckdb

HERE = os.path.dirname(os.path.abspath(__file__))
TABLES = ("customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier")


def files(numbers):
    """{name: path} of the queries."""
    paths = sorted(glob.glob(os.path.join(HERE, "..", "tpch", "q*.sql")))
    named = {os.path.basename(path)[:-4]: path for path in paths}
    return {name: path for name, path in named.items() if not numbers or int(name[1:]) in numbers}


def convert(grampus, folder):
    for table in TABLES:
        out = os.path.join(folder, f"{table}.orc")
        if not os.path.exists(out):
            parquet = os.path.join(folder, f"{table}.parquet")
            subprocess.run([grampus, "convert", "-q", parquet, "--out", out], check=True)


def run_duckdb(arguments, queries):
    """{name: (names, rows, least ms)}"""
    database = duckdb.connect()
    database.execute(f"SET threads = {arguments.threads}")
    for table in TABLES:
        path = os.path.join(arguments.folder, f"{table}.parquet")
        database.execute(f"CREATE VIEW {table} AS SELECT * FROM '{path}'")
    measured = {}
    for name, path in queries.items():
        with open(path, encoding="utf-8") as file:
            sql = file.read()
        times = []
        for _ in range(1 + arguments.runs):  # `bench sql` has a first run too, which is not among its `runs_ms`
            began = time.monotonic()
            result = database.execute(sql)
            rows = result.fetchall()
            times.append((time.monotonic() - began) * 1e3)
        measured[name] = ([column[0] for column in result.description], rows, min(times[1:]))
    return measured


def run_grampus(arguments, queries, settings):
    """{name: figures of `bench sql`}"""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out.json")
        command = [arguments.grampus, "bench", "sql", *queries.values(), "--runs", str(arguments.runs), "--json", out]
        command += ["-p", str(arguments.threads), "--device", arguments.device]
        for table in TABLES:
            command += ["-t", f"{table}={os.path.join(arguments.folder, table)}.orc"]
        for setting in settings:
            command += ["--set", setting]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True, timeout=1200)
        with open(out, encoding="utf-8") as file:
            return {one["name"]: one for one in json.load(file)["statements"]}


def number(value):
    if isinstance(value, (int, float, decimal.Decimal)):
        return float(value)
    try:
        return float(value) if isinstance(value, str) else None
    except ValueError:
        return None


def same(got, wanted):
    """Two values of answers. DuckDB's mean of decimals is a double, DataFusion's a decimal."""
    if isinstance(wanted, (datetime.date, datetime.datetime)):
        return str(got) == wanted.isoformat()
    one, other = number(got), number(wanted)
    if one is not None and other is not None:
        return abs(one - other) <= 1e-6 * max(1.0, abs(other))
    return got == wanted or (got is None and wanted is None)


def rows_match(one, names, rows):
    """Whether both have the same rows. `bench sql` reports them in any order."""
    # Fractions may differ in their last digits, integers may not: rounded, years would be alike.
    is_exact = lambda value: isinstance(value, int) or number(value) is None
    key = lambda row: [str(value) if is_exact(value) else f"{number(value):.3g}" for value in row]
    got = sorted(([row.get(name) for name in names] for row in one["rows"]), key=key)
    rows = sorted(rows, key=key)
    return len(got) == len(rows) and all(len(g) == len(w) and all(map(same, g, w)) for g, w in zip(got, rows))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("grampus")
    parser.add_argument("folder")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--queries", type=lambda text: {int(part) for part in text.split(",")}, default=set())
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--against", action="append", default=[])
    arguments = parser.parse_args()
    convert(arguments.grampus, arguments.folder)
    queries = files(arguments.queries)
    duck = run_duckdb(arguments, queries)
    ways = [run_grampus(arguments, queries, arguments.set)]
    if arguments.against:
        ways.append(run_grampus(arguments, queries, arguments.against))
    against = f" {' '.join(arguments.against)} |" if arguments.against else ""
    print(f"| query | DuckDB | Grampus | ÷ DuckDB |{against}")
    print("| --- " * (4 + bool(arguments.against)) + "|")
    ratios, wrong = [], []
    for name, (names, rows, least) in duck.items():
        times = [min(way[name]["runs_ms"]) for way in ways]
        ratios.append(times[0] / least)
        if not all(rows_match(way[name], names, rows) for way in ways):
            wrong.append(name)
        more = "".join(f" {ms:.0f} ms |" for ms in times[1:])
        print(f"| {name} | {least:.0f} ms | {times[0]:.0f} ms | {ratios[-1]:.2f} |{more}")
    print(f"\nGrampus ÷ DuckDB {duckdb.__version__}: median {statistics.median(ratios):.2f}, most {max(ratios):.2f}")
    print(f"answers of {len(duck)} queries compared, {len(wrong)} differ: {' '.join(wrong) or 'none'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
