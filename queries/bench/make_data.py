#!/usr/bin/env python3
"""Trips of `grampus taxi generate --columns six` in uncompressed ORC files of pyarrow: streams begin at any byte.

    make_data.py DIR FROM [--files N]

Writes DIR/part-NN.orc for the first N files of FROM (all of them), and DIR/_answers.json with numpy's answers to q0 and
q5 at 30 and 20 miles. Needs numpy and pyarrow.
"""

import argparse
import json
import multiprocessing
import os

import numpy as np
from pyarrow import orc

BOUNDS = (30, 20)
STRIPE_ROWS = 1 << 20
COLUMNS = ["trip_distance", "total_amount", "extra", "ehail_fee", "tolls_amount", "mta_tax"]


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
    """A file's trips, written anew; their counts and sums."""
    source, path = job
    table = orc.ORCFile(source).read(columns=COLUMNS)
    with orc.ORCWriter(path, compression="uncompressed", stripe_size=64 << 20) as writer:
        for at in range(0, table.num_rows, STRIPE_ROWS):
            writer.write(table.slice(at, STRIPE_ROWS))
    return read(path)


def keep(folder, parts):
    """Writes _answers.json from each file's counts and sums."""
    found = {}
    for bound in BOUNDS:
        count, miles, driver, ratios = (float(sum(part[bound][i] for part in parts)) for i in range(4))
        found[f"q0_{bound}"] = {"trips": count, "miles": miles}
        found[f"q5_{bound}"] = {
            "dollars_per_mile": driver / miles,
            "mean_dollars_per_mile": ratios / count,
            "trips": count,
        }
    with open(os.path.join(folder, "_answers.json"), "w", encoding="utf-8") as out:
        json.dump(found, out, indent=1)


def orc_files(folder):
    return sorted(entry.path for entry in os.scandir(folder) if entry.name.endswith(".orc"))


def make(folder, source, files=None):
    """The first `files` files of the folder `source`, written by pyarrow."""
    os.makedirs(folder, exist_ok=True)
    jobs = [(path, os.path.join(folder, f"part-{at:02}.orc")) for at, path in enumerate(orc_files(source)[:files])]
    with multiprocessing.Pool(min(len(jobs), os.cpu_count())) as pool:
        keep(folder, pool.map(write, jobs))


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
    """_answers.json for files of another writer."""
    paths = orc_files(folder)
    with multiprocessing.Pool(min(len(paths), os.cpu_count())) as pool:
        keep(folder, pool.map(read, paths))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("source", metavar="FROM")
    parser.add_argument("--files", type=int)
    arguments = parser.parse_args()
    make(arguments.folder, arguments.source, arguments.files)


if __name__ == "__main__":
    main()
