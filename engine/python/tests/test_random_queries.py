"""Random statements over random tables in ORC and Parquet: the answers are DuckDB's.

The first seed is always the same. `GRAMPUS_TEST_SEED` is another one; `GRAMPUS_TEST_CASES` is the number of seeds,
each of which makes three tables and asks `STATEMENTS` statements in each format.
"""

import math
import os
import random
from collections import Counter

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import random_tables

import grampus

STATEMENTS = 40
CASES = int(os.environ.get("GRAMPUS_TEST_CASES", "12"))
SEED = int(os.environ.get("GRAMPUS_TEST_SEED", "1"))
DEVICES = {"cpu": {"grampus.device": "cpu"}, "gpu": {"grampus.device": "prefer", "grampus.gpu_target": "host"}}


def cell(value):
    """A value that equals another engine's: one zero, one NaN, twelve digits."""
    if isinstance(value, float):
        if math.isnan(value):
            return "nan"
        return float(f"{value:.12g}") + 0.0
    return value


def rows(found):
    return Counter(tuple(cell(value) for value in row) for row in found)


def write(tables, folder, rng):
    for name, table in tables.items():
        grampus.write_orc(table, folder / f"{name}.orc", stripe_rows=rng.choice([8, 1000]), overwrite=True)
        pq.write_table(table, folder / f"{name}.parquet", row_group_size=rng.choice([8, 1000]))


def check(seed, folder, settings):
    rng = random.Random(seed)
    tables = {name: random_tables.table(rng) for name in "abc"}
    write(tables, folder, rng)
    database = duckdb.connect()
    for name, table in tables.items():
        # DuckDB compares a DATE with nanoseconds in nanoseconds, which end in 2262.
        at = table.schema.get_field_index("t")
        database.register(name, table.set_column(at, "t", table["t"].cast(pa.timestamp("us"))))
    statements = [random_tables.Query(rng).sql() for _ in range(STATEMENTS)]
    wrong = []
    for extension in ["orc", "parquet"]:
        with grampus.connect(settings=settings, threads=2) as connection:
            for name in tables:
                stored = "ORC" if extension == "orc" else "PARQUET"
                location = folder / f"{name}.{extension}"
                connection.sql(f"CREATE EXTERNAL TABLE {name} STORED AS {stored} LOCATION '{location}'")
            for sql in statements:
                expected = rows(database.sql(sql).fetchall())
                try:
                    found = rows(connection.sql(sql).fetchall())
                except grampus.Error as error:
                    found = Counter([str(error)])
                if found != expected:
                    lost, added = expected - found, found - expected
                    wrong.append(f"seed {seed}, {extension}: {sql}\n  lost {lost}\n  added {added}")
    return wrong


@pytest.mark.parametrize("device", DEVICES)
def test_answers_equal_duckdbs(device, tmp_path):
    wrong = []
    for seed in range(SEED, SEED + (CASES if device == "cpu" else CASES // 4)):
        wrong += check(seed, tmp_path, DEVICES[device])
    assert not wrong, f"{len(wrong)} wrong:\n" + "\n".join(wrong[:20])
