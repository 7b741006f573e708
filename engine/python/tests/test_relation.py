"""Queries and their ways out, against pyarrow, pandas, polars and duckdb."""

import datetime as dt
import decimal
import json

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import grampus


def test_relation_is_lazy_and_reads_the_file_as_it_is_then(con, tmp_path):
    path = tmp_path / "a.orc"
    grampus.write_orc(pa.table({"a": [1, 2]}), path)
    relation = con.read_orc(path)
    assert relation.last_run is None
    assert relation.fetchall() == [(1,), (2,)]
    grampus.write_orc(pa.table({"a": [3]}), path, overwrite=True)
    assert relation.fetchall() == [(3,)]


def test_aggregate_equals_arithmetic_and_duckdb(con, trips):
    path, table = trips
    sql = "SELECT kind, count(*) AS n, sum(value) AS s FROM {} WHERE id >= 50000 GROUP BY kind ORDER BY kind"
    found = con.sql(sql.format(f"'{path}'")).fetchall()
    duck = duckdb.connect()
    duck.register("t", table)
    assert found == duck.sql(sql.format("t")).fetchall()
    assert [row[1] for row in found] == [10_000] * 5


def test_out_to_every_library_is_the_same_table(con, trips):
    path, table = trips
    relation = con.sql(f"SELECT id, value, kind, day FROM '{path}' WHERE id % 1000 = 3 ORDER BY id")
    wanted = table.filter(pc.equal(pc.bit_wise_and(table["id"], 0), 0)).select(["id", "value", "kind", "day"])
    wanted = wanted.filter(pa.array([i % 1000 == 3 for i in range(wanted.num_rows)]))
    assert relation.arrow().replace_schema_metadata(None) == wanted
    assert pa.table(relation).replace_schema_metadata(None) == wanted
    pd.testing.assert_frame_equal(relation.df(), wanted.to_pandas())
    assert relation.pl().equals(pl.from_arrow(wanted))
    assert pl.DataFrame(relation).equals(pl.from_arrow(wanted))
    assert relation.fetchall() == [tuple(row.values()) for row in wanted.to_pylist()]
    assert duckdb.sql("SELECT count(*), sum(id) FROM relation").fetchall() == [(100, sum(range(3, 100_000, 1000)))]


def test_stream_arrives_batch_by_batch(con, trips):
    reader = con.read_orc(trips[0]).reader()
    first = reader.read_next_batch()
    assert 0 < first.num_rows < 100_000
    assert first.num_rows + sum(batch.num_rows for batch in reader) == 100_000


def test_dropped_stream_stops_the_query(con, trips):
    relation = con.sql(f"SELECT a.id FROM '{trips[0]}' a CROSS JOIN '{trips[0]}' b")
    reader = relation.reader()
    reader.read_next_batch()
    assert relation.last_run["stage"] == "running"
    reader.close()
    del reader
    assert relation.last_run["stage"] == "stopped"


def test_consumed_result_is_an_error_not_an_empty_table(con):
    run = con.sql("SELECT 1 AS a")._start(repeats_interrupt=False)
    assert pa.table(run).num_rows == 1
    with pytest.raises(grampus.Error, match="was read before"):
        pa.table(run)


@pytest.mark.parametrize(
    ("value", "back"),
    [
        (None, None),
        (True, True),
        (-(2**63), -(2**63)),
        (0.1, 0.1),
        ("O'Brien; DROP TABLE t --", "O'Brien; DROP TABLE t --"),
        (b"\x00'", b"\x00'"),
        (dt.date(1969, 12, 31), dt.date(1969, 12, 31)),
        (dt.time(1, 2, 3, 4), dt.time(1, 2, 3, 4)),
        (dt.datetime(2020, 2, 29, 1, 2, 3, 4), dt.datetime(2020, 2, 29, 1, 2, 3, 4)),
        (decimal.Decimal("-12.50"), decimal.Decimal("-12.50")),
        (decimal.Decimal("1E+3"), decimal.Decimal(1000)),
    ],
)
def test_parameters_come_back_as_they_were(con, value, back):
    assert con.sql("SELECT $1 AS a", [value]).fetchall() == [(back,)]
    assert con.sql("SELECT $v AS a", {"v": value}).fetchall() == [(back,)]


def test_parameters_with_zone_and_intervals(con):
    zone = dt.timezone(dt.timedelta(hours=2))
    moment = dt.datetime(2020, 1, 1, 1, 0, tzinfo=zone)
    assert con.sql("SELECT $1 AS a", [moment]).fetchall()[0][0] == moment
    query = "SELECT TIMESTAMP '2020-01-01 00:00:00' + CAST($1 AS INTERVAL) AS a"
    later = con.sql(query, [dt.timedelta(days=1, seconds=5)])
    assert later.fetchall() == [(dt.datetime(2020, 1, 2, 0, 0, 5),)]


def test_parameters_filter_orc(con, trips):
    rows = con.sql(f"SELECT count(*) FROM '{trips[0]}' WHERE id < $1 AND kind = $2", [1000, "c"]).fetchall()
    assert rows == [(200,)]


def test_parameters_that_cannot_be_are_refused(con):
    with pytest.raises(grampus.Error, match="64 bits"):
        con.sql("SELECT $1", [2**70])
    with pytest.raises(TypeError, match="of type object"):
        con.sql("SELECT $1", [object()])
    for refused in ({}, {1: 2}):
        with pytest.raises(TypeError, match="a dict is a struct"):
            con.sql("SELECT $1", [refused])
    with pytest.raises(TypeError, match="sequence"):
        con.sql("SELECT $1", "text")
    with pytest.raises(TypeError, match="names of placeholders"):
        con.sql("SELECT $1", {1: 2})
    with pytest.raises(grampus.Error):
        con.sql("SELECT $1 + 1 AS a").arrow()


def test_statements_run_at_once_and_the_last_one_counts(con):
    assert con.sql("SET grampus.device = 'cpu'").columns == []
    assert con.settings["grampus.device"] == "cpu"
    assert con.sql("CREATE VIEW v AS SELECT 7 AS a; SELECT a + 1 AS b FROM v").fetchall() == [(8,)]
    assert con.tables() == ["v"]
    assert con.sql("CREATE TABLE t AS SELECT 1 AS a").fetchall() == []
    assert con.sql("INSERT INTO t VALUES (2), (3)").fetchall() == [(2,)]
    assert con.sql("SELECT sum(a) FROM t").fetchall() == [(6,)]


def test_copy_counts_rows_once(con, tmp_path):
    path = tmp_path / "a.csv"
    assert con.sql(f"COPY (SELECT 1 AS a UNION ALL SELECT 2) TO '{path}'").fetchall() == [(2,)]
    assert sorted(path.read_text().split()) == ["1", "2", "a"]


def test_summarize_is_a_relation(con, trips):
    con.register("trips", con.read_orc(trips[0]))
    rows = {row["column_name"]: row for row in con.sql("SUMMARIZE trips").arrow().to_pylist()}
    assert set(rows) == set(trips[1].column_names)
    assert (rows["id"]["min"], rows["id"]["max"], rows["id"]["count"]) == ("0", "99999", 100_000)
    assert rows["kind"]["min"] == "a" and rows["kind"]["avg"] is None
    assert 0 < float(rows["value"]["null_percentage"]) < 5
    assert len(con.sql("SUMMARIZE SELECT id FROM trips WHERE id < 10").fetchall()) == 1


def test_insert_overwrite_replaces_the_rows(con, tmp_path):
    con.sql(f"CREATE EXTERNAL TABLE t (a BIGINT, b VARCHAR) STORED AS ORC LOCATION '{tmp_path}/t/'")
    con.sql("INSERT INTO t VALUES (1, 'x'), (2, 'y')")
    con.sql("INSERT OVERWRITE t SELECT a + 10, b FROM t WHERE a = 2")
    assert con.sql("SELECT * FROM t").fetchall() == [(12, "y")]


def test_report_names_device_and_io(con, trips):
    relation = con.sql(f"SELECT sum(value) FROM '{trips[0]}' WHERE id >= 99000")
    table = relation.arrow()
    run = relation.last_run
    assert (run["stage"], run["device"], run["rows"]) == ("done", "cpu", 1)
    assert run["io"]["rows_passed"] == 1000
    assert run["io"]["row_groups_skipped"] == 9
    assert table.schema.metadata[b"grampus.device"] == b"cpu"
    assert json.loads(table.schema.metadata[b"grampus.io"]) == run["io"]
    assert relation.df().attrs["grampus"]["device"] == "cpu"


def test_explain_shows_plans_and_metrics(con, trips):
    relation = con.sql(f"SELECT count(*) FROM '{trips[0]}' WHERE id < 5")
    assert "OrcScanExec: files=1" in relation.explain()
    assert "moved_bytes=" in relation.explain(analyze=True)


def test_methods_narrow_the_query(con, trips):
    ordered = con.sql(f"SELECT * FROM '{trips[0]}' ORDER BY id")
    relation = ordered.filter("id < 10").select("id", "id * 2 AS twice").limit(2, offset=1)
    assert (relation.columns, relation.types) == (["id", "twice"], ["Int64", "Int64"])
    assert relation.fetchall() == [(1, 2), (2, 4)]
    assert ordered.fetchone()[0] == 0
    assert con.read_orc(trips[0]).filter("id < 0").fetchone() is None


def test_preview_is_cut_and_escaped(con):
    relation = con.sql("SELECT '<b>' AS \"x<y\", NULL AS n, repeat('z', 100) AS z FROM range(1, 100)")
    text = repr(relation)
    assert text.splitlines()[1].split() == ["│", "x<y", "│", "n", "│", "z", "│"]
    assert "(first 20 rows" in text and "…" in text and "NULL" in text
    html = relation._repr_html_()
    assert "&lt;b&gt;" in html and "x&lt;y" in html and "<b>" not in html
    assert "(1 row)" in repr(con.sql("SELECT 1 AS a"))


def test_no_columns_still_have_rows(con):
    relation = con.sql("SELECT 1 AS a UNION ALL SELECT 2")
    assert relation.select("count(*) OVER () AS n").fetchall() == [(2,), (2,)]
