#!/usr/bin/env python3
"""t1–t4 and x1–x3 through `grampus bench sql` on each device, next to DuckDB's own table of the same rows.

    compare_duckdb.py GRAMPUS ORC_FOLDER [--runs 5] [--set KEY=VALUE] [--out FILE]

The ORC files (`grampus taxi generate --columns core`) are read by pyarrow into a DuckDB table in memory; answers are compared, integers and
strings exactly, floats to 1e-9. Needs pyarrow and duckdb. Exit status 1 if answers differ.
"""

import argparse
import concurrent.futures
import datetime
import glob
import json
import os
import subprocess
import sys
import tempfile
import time

import duckdb
from pyarrow import orc

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
            database.execute("CREATE TABLE trips AS SELECT * FROM part" if not made else "INSERT INTO trips SELECT * FROM part")
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("grampus")
    parser.add_argument("folder")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--out")
    arguments = parser.parse_args()
    began = time.monotonic()
    database = load(arguments.folder)
    print(f"DuckDB {duckdb.__version__}: loaded in {time.monotonic() - began:.1f} s", flush=True)
    measured = {}
    for query in QUERIES:
        times = []
        for _ in range(arguments.runs + 1):
            began = time.monotonic()
            result = database.execute(sql_of(query))
            rows = result.fetchall()
            times.append((time.monotonic() - began) * 1e3)
        names = [column[0] for column in result.description]
        measured[query] = {"names": names, "rows": [list(map(plain, row)) for row in rows], "duckdb": times[1:]}
    for device in DEVICES:
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "out.json")
            files = [os.path.join(HERE, "..", f"{query}.sql") for query in QUERIES]
            command = [arguments.grampus, "bench", "sql", *files, "-t", f"trips={arguments.folder}", "--runs", str(arguments.runs)]
            for setting in (f"grampus.device={device}", *arguments.set):
                command += ["--set", setting]
            command += ["--json", out]
            done = subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=400, check=False)
            if done.returncode != 0:
                print(f"{device}: {done.stderr.strip()}", file=sys.stderr)
                continue
            with open(out, encoding="utf-8") as file:
                for one in json.load(file)["statements"]:
                    measured[one["name"]][device] = one
    wrong = 0
    print(f"| query | DuckDB's table | CPU, first | CPU | GPU, first | GPU | answers |\n| --- | --- | --- | --- | --- | --- | --- |")
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
        duck = sorted(one["duckdb"])[len(one["duckdb"]) // 2]
        print(f"| {query} | {duck:.1f} ms | {' | '.join(cells)} | {'same' if good else 'DIFFER'} |", flush=True)
    if arguments.out:
        with open(arguments.out, "w", encoding="utf-8") as out:
            json.dump(measured, out, indent=1, default=str)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
