#!/usr/bin/env python3
"""CPU time of queries over Parquet: Grampus, the same rows in ORC, DuckDB, DataFusion alone. Answers are compared.

    tpchgen-cli parquet -s 1 --output-dir=FOLDER
    make_hits.py FOLDER/hits.parquet
    parquet_cpu.py GRAMPUS FOLDER [--set tpch|hits] [--queries q01,q06] [--rounds 2] [--runs 3] [--threads 2]

ORC files with zstd are written into FOLDER/orc, if they are absent. Ways take turns, each in a process of its own.
Figures are milliseconds of user and system time of one run behind a first one, the least of all rounds. Needs duckdb
and datafusion (Python). Exit status 1 if answers differ.
"""

import argparse
import glob
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile

import tpch

TABLES = {"tpch": tpch.TABLES, "hits": ("hits",)}
WAYS = ("parquet", "orc", "duckdb", "datafusion")


def processor_seconds(who):
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def child(arguments, way, path, runs):
    """CPU seconds of `bench sql` with some runs, and what it reports."""
    folder = os.path.join(arguments.folder, "orc") if way == "orc" else arguments.folder
    with tempfile.TemporaryDirectory() as scratch:
        out = os.path.join(scratch, "out.json")
        command = [arguments.grampus, "bench", "sql", path, "--runs", str(runs), "--json", out]
        command += ["-p", str(arguments.threads), "--device", "cpu"]
        for table in TABLES[arguments.set]:
            command += ["-t", f"{table}={os.path.join(folder, table)}.{way}"]
        before = processor_seconds(resource.RUSAGE_CHILDREN)
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True, timeout=1200)
        seconds = processor_seconds(resource.RUSAGE_CHILDREN) - before
        with open(out, encoding="utf-8") as file:
            return seconds, json.load(file)["statements"][0]


def peer(arguments, way, path):
    """CPU milliseconds of a run of a peer in this process, and of DuckDB the names and rows of the answer."""
    with open(path, encoding="utf-8") as file:
        sql = file.read().strip().rstrip(";")
    places = {table: os.path.join(arguments.folder, table) + ".parquet" for table in TABLES[arguments.set]}
    if way == "duckdb":
        database = tpch.duckdb.connect()
        database.execute(f"SET threads = {arguments.threads}")
        for table, place in places.items():
            database.execute(f"CREATE VIEW {table} AS SELECT * FROM '{place}'")
        run = lambda: (database.execute(sql), database.fetchall())[1]
    else:
        import datafusion

        context = datafusion.SessionContext(datafusion.SessionConfig().with_target_partitions(arguments.threads))
        for table, place in places.items():
            context.register_parquet(table, place)
        run = lambda: context.sql(sql).collect()
    rows = run()
    before = processor_seconds(resource.RUSAGE_SELF)
    for _ in range(arguments.runs):
        run()
    ms = (processor_seconds(resource.RUSAGE_SELF) - before) / arguments.runs * 1e3
    if way == "duckdb":
        database.execute(sql)
        return ms, ([column[0] for column in database.description], rows)
    return ms, None


def peer_process(arguments, way, path):
    """`peer` in a process of its own: threads of one peer do not run beside those of another."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            ms, answer = peer(arguments, way, path)
            with os.fdopen(write, "w") as pipe:
                json.dump([ms, answer], pipe, default=lambda value: value.isoformat() if hasattr(value, "isoformat")
                          else float(value))
            os._exit(0)
        except BaseException as error:
            print(f"{way} {path}: {error}", file=sys.stderr)
            os._exit(1)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    os.waitpid(pid, 0)
    return json.loads(text) if text else [float("nan"), None]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("grampus")
    parser.add_argument("folder")
    parser.add_argument("--set", choices=TABLES, default="tpch")
    parser.add_argument("--queries", type=lambda text: set(text.split(",")), default=set())
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    os.makedirs(os.path.join(arguments.folder, "orc"), exist_ok=True)
    for table in TABLES[arguments.set]:
        out = os.path.join(arguments.folder, "orc", f"{table}.orc")
        if not os.path.exists(out):
            parquet = os.path.join(arguments.folder, f"{table}.parquet")
            convert = [arguments.grampus, "convert", "-q", "--compression", "zstd", parquet, "--out", out]
            subprocess.run(convert, check=True)
    paths = sorted(glob.glob(os.path.join(tpch.HERE, "..", arguments.set, "*.sql")))
    paths = {os.path.basename(path)[:-4]: path for path in paths}
    paths = {name: path for name, path in paths.items() if not arguments.queries or name in arguments.queries}
    least = {name: dict.fromkeys(WAYS, float("inf")) for name in paths}
    wrong = set()
    for _ in range(arguments.rounds):
        for name, path in paths.items():
            found = {}
            for way in ("parquet", "orc"):
                few, _ = child(arguments, way, path, 1)
                many, found[way] = child(arguments, way, path, 1 + arguments.runs)
                least[name][way] = min(least[name][way], (many - few) / arguments.runs * 1e3)
            for way in ("duckdb", "datafusion"):
                ms, answer = peer_process(arguments, way, path)
                least[name][way] = min(least[name][way], ms)
                if answer and not all(tpch.rows_match(found[way], *answer) for way in found):
                    wrong.add(name)
    print("| query | Parquet | ORC | DuckDB | DataFusion | ÷ ORC | ÷ DuckDB | ÷ DataFusion |")
    print("| --- " * 8 + "|")
    ratios = {way: [] for way in WAYS[1:]}
    for name, ms in least.items():
        for way in ratios:
            ratios[way].append(ms["parquet"] / ms[way])
        cells = [f"{ms[way]:.0f}" for way in WAYS] + [f"{ratios[way][-1]:.2f}" for way in ratios]
        print(f"| {name} | {' | '.join(cells)} |")
    for way in WAYS:
        print(f"sum of {way}: {sum(ms[way] for ms in least.values()):.0f} ms")
    for way, found in ratios.items():
        print(f"Parquet ÷ {way}: median {statistics.median(found):.2f}, most {max(found):.2f}")
    print(f"answers of {len(paths)} queries compared, {len(wrong)} differ: {' '.join(sorted(wrong)) or 'none'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
