"""The 22 queries of TPC-H over small tables: the answers are DuckDB's, on the CPU and if the GPU's path is preferred.

The GPU's path runs on host threads, which needs a C++ compiler. Without one the CPU answers there too.
"""

import os
import pathlib
import shutil
import subprocess
import sys

import duckdb
import pyarrow.parquet as pq
import pytest

import grampus

QUERIES = pathlib.Path(__file__).resolve().parents[3] / "queries"
sys.path.insert(0, str(QUERIES / "bench"))
import tpch  # noqa: E402

SQL = {path.stem: path.read_text(encoding="utf-8") for path in sorted((QUERIES / "tpch").glob("q*.sql"))}
SETTINGS = {
    "cpu": {"grampus.device": "cpu"},
    "small partitions": {"grampus.device": "cpu", "grampus.min_partition_rows": "1000", "grampus.tile_rows": "1000"},
    "prefer": {"grampus.device": "prefer", "grampus.gpu_target": "host"},
}


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """A folder with the tables at scale factor 0.02, as Parquet and as ORC, and DuckDB's views of them."""
    folder = tmp_path_factory.mktemp("tpch")
    generator = pathlib.Path(sys.executable).with_name("tpchgen-cli")
    subprocess.run([generator, "parquet", "-s", "0.02", f"--output-dir={folder}"], check=True, capture_output=True)
    database = duckdb.connect()
    for table in tpch.TABLES:
        path = folder / f"{table}.parquet"
        grampus.write_orc(pq.read_table(path), folder / f"{table}.orc")
        database.execute(f"CREATE VIEW {table} AS SELECT * FROM '{path}'")
    return folder, database


@pytest.fixture(scope="module", params=SETTINGS)
def session(request, tables):
    folder, database = tables
    with grampus.connect(settings=SETTINGS[request.param], threads=3) as connection:
        for table in tpch.TABLES:
            connection.sql(f"CREATE EXTERNAL TABLE {table} STORED AS ORC LOCATION '{folder / table}.orc'")
        yield connection, database


def test_all_queries_are_there():
    assert list(SQL) == [f"q{number:02}" for number in range(1, 23)]


@pytest.mark.parametrize("name", SQL)
def test_answer_is_duckdbs(session, name):
    connection, database = session
    wanted = database.execute(SQL[name]).fetchall()
    got = [list(row.values()) for row in connection.sql(SQL[name]).arrow().to_pylist()]
    for values in got:
        values[:] = [value.isoformat() if hasattr(value, "isoformat") else value for value in values]
    assert len(got) == len(wanted)
    for ours, theirs in zip(got, wanted):
        assert len(ours) == len(theirs) and all(map(tpch.same, ours, theirs)), (ours, theirs)


def test_queries_are_not_all_empty(tables):
    _, database = tables
    empty = [name for name, sql in SQL.items() if not database.execute(sql).fetchall()]
    assert len(empty) <= 3, empty


def test_kernels_answer_q1_and_q6(tables):
    if shutil.which(os.environ.get("CXX", "g++")) is None:
        pytest.skip("no C++ compiler for the host's kernels")
    folder, _ = tables
    with grampus.connect(settings=SETTINGS["prefer"]) as connection:
        connection.sql(f"CREATE EXTERNAL TABLE lineitem STORED AS ORC LOCATION '{folder}/lineitem.orc'")
        for name in ("q01", "q06"):
            rows = connection.sql(f"EXPLAIN {SQL[name]}").arrow().to_pylist()
            plan = "".join(row["plan"] for row in rows)
            assert "GpuAggregateExec" in plan and "not on the GPU: " not in plan, plan
