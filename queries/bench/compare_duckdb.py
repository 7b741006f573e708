#!/usr/bin/env python3
"""t1–t4 and x1–x3 through `grampus bench sql` on each device, next to DuckDB's own table of the same rows.

    compare_duckdb.py GRAMPUS ORC_FOLDER [--data generated] [--runs 5] [--set KEY=VALUE] [--out FILE] [--commit C]
                      [--machine NAME]

pyarrow reads the ORC files (`grampus taxi generate --columns core`) into a DuckDB table in memory. The script compares
answers: integers and strings exactly, floats to 1e-9. --data names the data in the result file. Needs pyarrow and
duckdb. Exit status 1 if answers differ.
"""

import argparse
import concurrent.futures
import datetime
import glob
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import duckdb
from pyarrow import orc

import run_info

HERE = os.path.dirname(os.path.abspath(__file__))
QUERIES = ("t1", "t2", "t3", "t4", "x1", "x2", "x3")
COLUMNS = [
    "cab_type", "passenger_count", "total_amount", "pickup_datetime", "trip_distance",
    "fare_amount", "store_and_fwd_flag", "payment_type", "tip_amount", "congestion_surcharge",
]
DEVICES = ("cpu", "gpu")


def sql_of(query):
    with open(os.path.join(HERE, "..", f"{query}.sql"), encoding="utf-8") as file:
        return file.read().rstrip().rstrip(";")


def load(folder):
    """A DuckDB table of all files' rows."""
    database = duckdb.connect()
    paths = sorted(glob.glob(os.path.join(folder, "*.orc")))
    made = False
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for rows in pool.map(lambda path: orc.ORCFile(path).read(columns=COLUMNS), paths):
            database.register("part", rows)
            into = "INSERT INTO trips" if made else "CREATE TABLE trips AS"
            database.execute(f"{into} SELECT * FROM part")
            database.unregister("part")
            made = True
    return database


def plain(value):
    """A value as both engines' answers are compared."""
    if isinstance(value, (datetime.datetime, datetime.date)):
        return value.isoformat()
    return value


def same(got, wanted):
    if isinstance(wanted, float) or isinstance(got, float):
        return got is not None and wanted is not None and abs(got - wanted) <= 1e-9 * max(1.0, abs(wanted))
    return got == wanted or str(got) == str(wanted)


def rows_match(got, wanted):
    key = lambda row: [str(round(v, 6) if isinstance(v, float) else v) for v in row]
    got, wanted = sorted(got, key=key), sorted(wanted, key=key)
    return len(got) == len(wanted) and all(len(g) == len(w) and all(map(same, g, w)) for g, w in zip(got, wanted))


def run_duckdb(database, runs):
    """{query: names, rows and times} of DuckDB; the first time is dropped."""
    measured = {}
    for query in QUERIES:
        times = []
        for _ in range(runs + 1):
            began = time.monotonic()
            result = database.execute(sql_of(query))
            rows = result.fetchall()
            times.append((time.monotonic() - began) * 1e3)
        names = [column[0] for column in result.description]
        measured[query] = {"names": names, "rows": [list(map(plain, row)) for row in rows], "duckdb": times[1:]}
    return measured


def run_grampus(arguments, device):
    """{query: figures of `bench sql`} on one device; empty if the session failed."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out.json")
        files = [os.path.join(HERE, "..", f"{query}.sql") for query in QUERIES]
        command = [arguments.grampus, "bench", "sql", *files, "-t", f"trips={arguments.folder}"]
        command += ["--runs", str(arguments.runs)]
        for setting in (f"grampus.device={device}", *arguments.set):
            command += ["--set", setting]
        command += ["--json", out]
        done = subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=400, check=False)
        if done.returncode != 0:
            print(f"{device}: {done.stderr.strip()}", file=sys.stderr)
            return {}
        with open(out, encoding="utf-8") as file:
            return {one["name"]: one for one in json.load(file)["statements"]}


def compare(measured):
    """Prints the table; the number of queries with a missing or different answer."""
    wrong = 0
    print("| query | DuckDB's table | CPU, first | CPU | GPU, first | GPU | answers |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for query, one in measured.items():
        cells, good = [], True
        for device in DEVICES:
            if device not in one:
                cells += ["–", "–"]
                good = False
                continue
            cells += [f"{one[device]['first_ms']:.0f} ms", f"{one[device]['median_ms']:.1f} ms"]
            got = [[row.get(name) for name in one["names"]] for row in one[device]["rows"]]
            if not rows_match(got, one["rows"]):
                good = False
                print(f"{device} {query}: {got[:3]} against {one['rows'][:3]}", file=sys.stderr)
        wrong += not good
        duck = statistics.median(one["duckdb"])
        print(f"| {query} | {duck:.1f} ms | {' | '.join(cells)} | {'same' if good else 'DIFFER'} |", flush=True)
    return wrong


def write(arguments, measured, rows, wrong):
    """The result file: the block `run`, and each query's times."""
    queries = {}
    for query, one in measured.items():
        queries[query] = {"duckdb_ms": statistics.median(one["duckdb"]), "duckdb_runs_ms": one["duckdb"]}
        for device in DEVICES:
            if device in one:
                names = ("first_ms", "median_ms", "runs_ms")
                queries[query][device] = {name: one[device][name] for name in names}
    key = f"duckdb, {arguments.data}"
    settings = {key: {"runs": arguments.runs, "set": arguments.set, "threads": os.cpu_count()}}
    checks = [f"{arguments.data}: answers of {len(measured)} queries compared with DuckDB's, {wrong} differ"]
    command = " ".join(["compare_duckdb.py", *sys.argv[1:]])
    run = run_info.run_info(arguments, settings, command, checks, arguments.grampus)
    one = {"data": arguments.data, "rows": rows, "duckdb": duckdb.__version__, "queries": queries}
    with open(arguments.out, "w", encoding="utf-8") as out:
        json.dump({"format": 1, "run": run, "duckdb": [one]}, out, indent=1)
        out.write("\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("grampus")
    parser.add_argument("folder")
    parser.add_argument("--data", default="generated")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--out")
    run_info.add_arguments(parser)
    arguments = parser.parse_args()
    began = time.monotonic()
    database = load(arguments.folder)
    print(f"DuckDB {duckdb.__version__}: loaded in {time.monotonic() - began:.1f} s", flush=True)
    rows = database.execute("SELECT count(*) FROM trips").fetchone()[0]
    measured = run_duckdb(database, arguments.runs)
    for device in DEVICES:
        for query, one in run_grampus(arguments, device).items():
            measured[query][device] = one
    wrong = compare(measured)
    if arguments.out:
        write(arguments, measured, rows, wrong)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
