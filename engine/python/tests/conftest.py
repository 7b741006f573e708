"""Fixtures: tables in every type that ORC and Arrow share, and a connection for each test."""

import datetime as dt
import decimal
import gc
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

# `python -m pytest` can import the folder of the sources. Without a native half, the installed package is meant.
_SOURCES = Path(__file__).resolve().parent.parent
if not list(_SOURCES.glob("grampus/_grampus*.so")):
    sys.path[:] = [path for path in sys.path if Path(path or ".").resolve() != _SOURCES]

import grampus  # noqa: E402


@pytest.fixture
def con():
    with grampus.connect() as connection:
        yield connection
    gc.collect()


@pytest.fixture(scope="session")
def environment():
    """The environment of an interpreter that is to import the same package."""
    return os.environ | {"PYTHONPATH": str(Path(grampus.__file__).resolve().parent.parent)}


@pytest.fixture
def run_python(environment, tmp_path):
    """Runs another interpreter in an empty folder: the folder of the sources would come before the package."""

    def run(*arguments):
        command = [sys.executable, *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment, cwd=tmp_path)

    return run


@pytest.fixture(scope="session")
def every_type():
    """Two rows and a NULL in each type that an ORC file can hold."""
    instant = dt.datetime(2020, 2, 29, 12, 30, 1, 500000)
    return pa.table(
        {
            "boolean": pa.array([True, None, False]),
            "i8": pa.array([-128, None, 127], pa.int8()),
            "i16": pa.array([-32768, None, 32767], pa.int16()),
            "i32": pa.array([-(2**31), None, 2**31 - 1], pa.int32()),
            "i64": pa.array([-(2**63), None, 2**63 - 1], pa.int64()),
            "f32": pa.array([0.5, None, -1.25], pa.float32()),
            "f64": pa.array([0.1, None, float("inf")], pa.float64()),
            "text": pa.array(["", None, "größer 🐬"]),
            "bytes": pa.array([b"", None, b"\x00\xff"]),
            "date": pa.array([dt.date(1969, 12, 31), None, dt.date(2020, 2, 29)]),
            "moment": pa.array([instant, None, dt.datetime(1969, 12, 31, 23, 59, 59, 1)], pa.timestamp("ns")),
            "instant": pa.array([instant, None, instant], pa.timestamp("ns", "UTC")),
            "amount": pa.array([decimal.Decimal("-1.05"), None, decimal.Decimal("99999999.99")], pa.decimal128(10, 2)),
            "items": pa.array([[1, None], None, []], pa.list_(pa.int64())),
            "pair": pa.array([{"x": 1, "y": "a"}, None, {"x": None, "y": None}]),
            "map": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int64())),
        }
    )


@pytest.fixture(scope="session")
def trips(tmp_path_factory):
    """A file of 100,000 rows: id 0, 1, …; value id / 4; kind "a" to "e"; every hundredth value NULL."""
    rows = 100_000
    table = pa.table(
        {
            "id": pa.array(range(rows), pa.int64()),
            "value": pa.array([None if i % 100 == 7 else i / 4 for i in range(rows)], pa.float64()),
            "kind": pa.array(["abcde"[i % 5] for i in range(rows)]),
            "day": pa.array([dt.date(2020, 1, 1) + dt.timedelta(days=i % 366) for i in range(rows)]),
            "at": pa.array([1_577_836_800_000_000_000 + i * 10**9 for i in range(rows)], pa.timestamp("ns")),
        }
    )
    path = tmp_path_factory.mktemp("orc") / "trips.orc"
    grampus.write_orc(table, path, stripe_rows=40_000)
    return path, table
