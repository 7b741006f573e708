#!/usr/bin/env python3
"""Queries on a GPU whose memory is short: many first touches at once, little memory beside the cache, another process.

    queries/bench/gpu_shortage.py FOLDER [--rows 400000000] [--json out.json] [--only SECTION ...]

The package `grampus`, numpy and pyarrow are needed. FOLDER gets the tables, uncompressed and of a quarter of the rows
with zstd, unless they are there. Every answer is compared with numpy's. Sections:

- `crowd`: 12 GROUP BYs with many groups at once in one process, each the first one over its columns;
- `crowd-zstd`: the same over zstd files, decompressed by nvCOMP where GRAMPUS_NVCOMP names it;
- `crowd-6gb`: the same over zstd files, where the cache leaves 6 GB of device memory to all queries;
- `neighbour`: queries over all columns while another process takes and gives back 100 GB of device memory, again and
  again. Afterwards as many bytes are resident as before.

Exit status 1: a query failed, or an answer was wrong.
"""

import argparse
import concurrent.futures
import ctypes
import json
import os
import pathlib
import re
import subprocess
import sys
import time

import numpy
import pyarrow
import pyarrow.orc

import run_info

FILES = 16
COLUMNS = [f"c{number:02}" for number in range(12)]
SECTIONS = ["crowd", "crowd-zstd", "crowd-6gb", "neighbour"]
QUERIES = 12
HELD_BYTES = 100 << 30
# Of metrics as DataFusion shows them.
UNITS = {"": 1, "K": 1e3, "M": 1e6, "G": 1e9, "B": 1e9, "T": 1e12}


def write_file(folder, codec, file, rows):
    """A file's rows: doubles with digits enough that no layout is narrower; and each column's sum."""
    draw = numpy.random.default_rng(file)
    keys = draw.integers(0, 1 << 22, rows)
    data = {"k": keys}
    for column in COLUMNS:
        # Whole numbers over 1024: sums are exact in any order. Six digits of them are noise.
        data[column] = draw.integers(0, 1 << 30, rows) / 1024.0
    pyarrow.orc.write_table(
        pyarrow.table(data), os.path.join(folder, f"{file:02}.orc"), compression=codec, stripe_size=64 << 20
    )
    return {column: float(data[column].sum()) for column in COLUMNS}


def table(folder, codec, rows):
    """The files of a table, its rows, and the sums of its columns."""
    rows //= FILES if codec == "uncompressed" else 4 * FILES
    folder = pathlib.Path(folder, codec)
    known = folder / "sums.json"
    if not known.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with concurrent.futures.ProcessPoolExecutor(FILES // 2) as pool:
            made = [pool.submit(write_file, folder, codec, file, rows) for file in range(FILES)]
            sums = [one.result() for one in made]
        known.write_text(json.dumps({column: sum(one[column] for one in sums) for column in COLUMNS}))
    return str(folder / "*.orc"), rows * FILES, json.loads(known.read_text())


def first_gpu():
    cuda = ctypes.CDLL("libcuda.so.1")
    context, device = ctypes.c_void_p(), ctypes.c_int()
    for call in (cuda.cuInit(0), cuda.cuDeviceGet(ctypes.byref(device), 0),
                 cuda.cuCtxCreate_v2(ctypes.byref(context), 0, device)):
        if call != 0:
            sys.exit(f"CUDA error {call}")
    return cuda


def free_bytes():
    """Free device memory now, found by a process that ends."""
    text = subprocess.run(
        ["nvidia-smi", "--query-gpu=memory.free", "--format=csv,noheader,nounits", "-i", "0"],
        capture_output=True, text=True, check=True,
    ).stdout
    return int(text.split()[0]) << 20


def neighbour(rounds):
    """Takes and gives back device memory, as another process. Takes less where less is free."""
    cuda = first_gpu()
    for _ in range(rounds):
        size = HELD_BYTES
        at = ctypes.c_uint64()
        while cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(size)) != 0 and size > 1 << 30:
            size -= 1 << 30
        print(f"held {size >> 30} GiB", flush=True)
        time.sleep(2)
        cuda.cuMemFree_v2(at)
        print("gave back", flush=True)
        time.sleep(2)


def crowd(codec, arguments, settings):
    """12 queries at once in one process. Seconds of each, and what went wrong."""
    import grampus

    orc, rows, sums = table(arguments.folder, codec, arguments.rows)
    connection = grampus.connect(device="gpu", settings=settings)
    query = "SELECT sum(n), sum(s) FROM (SELECT k, count(*) AS n, sum({column}) AS s FROM trips GROUP BY k)"

    def one(column):
        session = connection.session()
        session.register("trips", session.read_orc(orc))
        began = time.monotonic()
        try:
            (count, total), = session.sql(query.format(column=column)).fetchall()
        except grampus.Error as error:
            return time.monotonic() - began, f"{column}: {error}"
        seconds = time.monotonic() - began
        wrong = count != rows or abs(total - sums[column]) > 1e-9 * sums[column]
        return seconds, f"{column}: {count} rows, {total}, not {rows}, {sums[column]}" if wrong else None

    with concurrent.futures.ThreadPoolExecutor(QUERIES) as pool:
        ran = list(pool.map(one, COLUMNS))
    return {"seconds": [round(seconds, 2) for seconds, _ in ran], "failed": [failed for _, failed in ran if failed]}


def beside_neighbour(arguments):
    """Queries beside a process that takes memory: bytes that are resident before and after, and what went wrong."""
    import grampus

    orc, _, sums = table(arguments.folder, "uncompressed", arguments.rows)
    connection = grampus.connect(device="gpu")
    connection.register("trips", connection.read_orc(orc))
    failed = []

    def ask(column):
        try:
            ((total,),) = connection.sql(f"SELECT sum({column}) FROM trips WHERE k >= 0").fetchall()
        except grampus.Error as error:
            failed.append(f"{column}: {error}")
            return
        if abs(total - sums[column]) > 1e-9 * sums[column]:
            failed.append(f"{column}: {total}, not {sums[column]}")

    def resident_bytes():
        total = 0
        for column in COLUMNS:
            ask(column)
        for column in COLUMNS:
            plan = connection.sql(f"EXPLAIN ANALYZE SELECT sum({column}) FROM trips WHERE k >= 0").fetchall()
            shown = re.findall(r"resident_bytes=([\d.]+) ?([KMGBT]?)", str(plan))
            total += sum(float(number) * UNITS[unit] for number, unit in shown)
        return total

    before = resident_bytes()
    other = subprocess.Popen([sys.executable, __file__, "--hold", "4"], stdout=subprocess.PIPE, text=True)
    asked = 0
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        while other.poll() is None:
            list(pool.map(ask, COLUMNS))
            asked += len(COLUMNS)
    said = other.stdout.read().splitlines()
    return {
        "asked": asked, "neighbour": said, "resident_before": before, "resident_after": resident_bytes(),
        "failed": failed,
    }


def run(section, arguments):
    if section == "neighbour":
        found = beside_neighbour(arguments)
        if found["resident_after"] < found["resident_before"]:
            found["failed"].append(f"{found['resident_after']} bytes are resident afterwards")
        return found
    left = {"grampus.gpu_cache_bytes": free_bytes() - 6_000_000_000} if section == "crowd-6gb" else {}
    return crowd("uncompressed" if section == "crowd" else "zstd", arguments, left)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=SECTIONS, metavar="SECTION")
    parser.add_argument("--rows", type=int, default=400_000_000)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--section", help=argparse.SUPPRESS)
    parser.add_argument("--hold", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.hold:
        return neighbour(arguments.hold)
    if arguments.section:
        print(json.dumps(run(arguments.section, arguments)))
        return 0
    results, status = {}, 0
    for codec in ("uncompressed", "zstd"):
        table(arguments.folder, codec, arguments.rows)
    for section in arguments.only:
        # A process for each: device memory and caches begin empty.
        command = [sys.executable, __file__, arguments.folder, "--rows", str(arguments.rows), "--section", section]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        try:
            results[section] = json.loads(done.stdout.strip().splitlines()[-1])
        except (IndexError, ValueError):
            results[section] = {"failed": [f"status {done.returncode}: {done.stdout[-500:]}"]}
        print(section, json.dumps(results[section]), flush=True)
        status |= bool(results[section]["failed"])
    if arguments.json:
        record = {"machine": run_info.machine(), "rows": arguments.rows, "sections": results}
        arguments.json.write_text(json.dumps(record, indent=2) + "\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
