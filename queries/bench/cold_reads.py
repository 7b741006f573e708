#!/usr/bin/env python3
"""What disks read for queries of files that are not in the page cache, by the system's count, and how long they take.

    queries/bench/cold_reads.py --grampus target/release/grampus --table /data/taxi [--json out.json]

For each run the table's pages are dropped, and a fresh process runs the query once. Ways and queries alternate. The
bound of a filtered query is the filter's column and a page of 4 KiB for each value fetched.
"""

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import time

QUERIES = pathlib.Path(__file__).parent.parent
PAGE = 4096
SCANS = {
    "one": "SELECT sum(total_amount) FROM trips",
    "four": "SELECT sum(total_amount), sum(extra), sum(mta_tax), sum(tolls_amount) FROM trips",
}
# Columns of single values. (ehail_fee of q3 and q5 has hardly any values.)
FETCHED = {"q0": 0, "q1": 1, "q2": 2, "q3": 2, "q4": 3, "q5": 4}
WHOLE = {"one": 1, "four": 4}


def drop_pages(paths):
    for path in paths:
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read_ahead_kb(path):
    device = os.stat(path).st_dev
    at = pathlib.Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}")
    for folder in (at, at.parent):
        try:
            return int((folder.resolve() / "queue/read_ahead_kb").read_text())
        except OSError:
            pass
    return None


def run_once(command):
    """Seconds, bytes that disks read for the process, and its standard error."""
    began = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as child:
        said = child.stderr.read()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise SystemExit(f"{command}: {said}")
    return time.monotonic() - began, usage.ru_inblock * 512, said


def bound_of(query, said):
    """Bytes of whole columns of doubles, and a page for each value fetched, by the rows that --io tells."""
    passed, scanned = re.search(r"([0-9,]+) of ([0-9,]+) rows passed", said).groups()
    rows = int(scanned.replace(",", "")) * 8
    if query in WHOLE:
        return rows * WHOLE[query]
    return rows + int(passed.replace(",", "")) * FETCHED[query[:2]] * PAGE


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--grampus", action="append", required=True, metavar="[NAME=]PROGRAM")
    parser.add_argument("--table", required=True)
    parser.add_argument("--query", action="append", help="a file of queries/, or one, four [q0_30, q5_30, q5_20, one]")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    folder = pathlib.Path(arguments.table)
    paths = sorted(folder.glob("*.orc")) if folder.is_dir() else [folder]
    programs = [one.split("=", 1) if "=" in one else (pathlib.Path(one).name, one) for one in arguments.grampus]
    found = {}
    for _ in range(arguments.runs):
        for query in arguments.query or ["q0_30", "q5_30", "q5_20", "one"]:
            sql = SCANS.get(query) or (QUERIES / f"{query}.sql").read_text()
            for name, program in programs:
                for local_io in ("mmap", "read"):
                    drop_pages(paths)
                    command = [program, "-t", f"trips={folder}", "--io", "--device", "cpu"]
                    command += ["-c", f"SET grampus.local_io = '{local_io}'", "-c", sql]
                    seconds, disk, said = run_once(command)
                    one = found.setdefault((query, name, local_io), {"seconds": [], "disk_bytes": []})
                    one["seconds"].append(seconds)
                    one["disk_bytes"].append(disk)
                    one["bound_bytes"] = bound_of(query, said)
    ahead = read_ahead_kb(paths[0])
    print(f"read_ahead_kb {ahead}, {sum(path.stat().st_size for path in paths) / 1e6:.0f} MB, {arguments.runs} runs")
    print("\n| query | program | local_io | disk read | bound | ÷ | median | least |\n|" + " --- |" * 8)
    for (query, name, local_io), one in sorted(found.items()):
        disk, bound = statistics.median(one["disk_bytes"]), one["bound_bytes"]
        times = [round(seconds * 1e3) for seconds in (statistics.median(one["seconds"]), min(one["seconds"]))]
        shown = [f"{disk / 1e6:.0f} MB", f"{bound / 1e6:.0f} MB", f"{disk / bound:.2f}", *(f"{ms} ms" for ms in times)]
        print(f"| {query} | {name} | {local_io} | " + " | ".join(shown) + " |")
    if arguments.json:
        lines = [{"query": q, "program": n, "local_io": l, **one} for (q, n, l), one in sorted(found.items())]
        pathlib.Path(arguments.json).write_text(json.dumps({"read_ahead_kb": ahead, "lines": lines}, indent=1))


if __name__ == "__main__":
    main()
