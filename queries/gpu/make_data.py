#!/usr/bin/env python3
"""Six doubles of taxi trips in uncompressed ORC files written by pyarrow, whose streams begin at any byte.

    make_data.py DIR [--rows 200000000] [--files 16]

Writes DIR/part-NN.orc, and DIR/answers.json with what numpy makes of q0 and q5 at 30 and 20 miles.
Needs numpy and pyarrow.
"""

import argparse
import json
import multiprocessing
import os

import numpy as np
import pyarrow as pa
from pyarrow import orc

BOUNDS = (30, 20)
STRIPE_ROWS = 1 << 20
COLUMNS = ["trip_distance", "total_amount", "extra", "ehail_fee", "tolls_amount", "mta_tax"]


def trips(rng, rows):
    """Distances log-normal, beyond 20 miles exponential at 0.29 a mile: 0.5 % of at least 20, 0.03 % of at least 30."""
    distance = rng.lognormal(0.604, 0.939, rows)
    far = distance >= 20
    distance[far] = 20 + rng.exponential(1 / 0.29, int(far.sum()))
    distance = np.round(distance, 2)
    extra = rng.choice([0.0, 0.5, 1.0, 2.5], rows)
    tolls = np.where(rng.random(rows) < 0.94, 0.0, 5.76)
    mta_tax = np.full(rows, 0.5)
    ehail_fee = np.zeros(rows)
    total = np.round(4.49 + 2.88 * distance + extra + tolls + mta_tax, 2)
    return {
        "trip_distance": distance,
        "total_amount": total,
        "extra": extra,
        "ehail_fee": ehail_fee,
        "tolls_amount": tolls,
        "mta_tax": mta_tax,
    }


def answers(columns):
    found = {}
    distance = columns["trip_distance"]
    for bound in BOUNDS:
        rows = np.nonzero(distance >= bound)[0]
        of = {name: values[rows] for name, values in columns.items()}
        driver = of["total_amount"] - of["extra"] - of["ehail_fee"] - of["tolls_amount"] - of["mta_tax"]
        found[bound] = (len(rows), of["trip_distance"].sum(), driver.sum(), (driver / of["trip_distance"]).sum())
    return found


def write(job):
    folder, at, rows = job
    rng = np.random.default_rng(1000 + at)
    sums = {bound: np.zeros(4) for bound in BOUNDS}
    path = os.path.join(folder, f"part-{at:02}.orc")
    with orc.ORCWriter(path, compression="uncompressed", stripe_size=64 << 20) as writer:
        while rows > 0:
            columns = trips(rng, min(rows, STRIPE_ROWS))
            rows -= len(columns["trip_distance"])
            writer.write(pa.table(columns))
            for bound, found in answers(columns).items():
                sums[bound] += found
    return sums


def keep(folder, parts):
    """Writes answers.json from each file's counts and sums."""
    found = {}
    for bound in BOUNDS:
        count, miles, driver, ratios = (float(sum(part[bound][i] for part in parts)) for i in range(4))
        found[f"q0_{bound}"] = {"trips": count, "miles": miles}
        found[f"q5_{bound}"] = {
            "dollars_per_mile": driver / miles,
            "mean_dollars_per_mile": ratios / count,
            "trips": count,
        }
    with open(os.path.join(folder, "answers.json"), "w", encoding="utf-8") as out:
        json.dump(found, out, indent=1)


def make(folder, rows, files):
    os.makedirs(folder, exist_ok=True)
    shares = [rows * (i + 1) // files - rows * i // files for i in range(files)]
    with multiprocessing.Pool(min(files, os.cpu_count())) as pool:
        keep(folder, pool.map(write, [(folder, at, rows) for at, rows in enumerate(shares)]))


def read(path):
    """Counts and sums of a file's rows, stripe by stripe."""
    sums = {bound: np.zeros(4) for bound in BOUNDS}
    file = orc.ORCFile(path)
    for stripe in range(file.nstripes):
        table = file.read_stripe(stripe, columns=COLUMNS)
        columns = dict(zip(table.schema.names, (column.to_numpy(zero_copy_only=False) for column in table.columns)))
        for bound, found in answers(columns).items():
            sums[bound] += found
    return sums


def answer(folder):
    """answers.json for files that somebody else wrote."""
    paths = sorted(entry.path for entry in os.scandir(folder) if entry.name.endswith(".orc"))
    with multiprocessing.Pool(min(len(paths), os.cpu_count())) as pool:
        keep(folder, pool.map(read, paths))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--rows", type=int, default=200_000_000)
    parser.add_argument("--files", type=int, default=16)
    arguments = parser.parse_args()
    make(arguments.folder, arguments.rows, arguments.files)


if __name__ == "__main__":
    main()
