"""Lazy frames of polars: the same rows as polars over the same table, and less read."""

import datetime as dt

import polars as pl
import pyarrow as pa
import pytest

import grampus
from grampus._polars import condition

COLUMN = pl.col


@pytest.mark.parametrize(
    "predicate",
    [
        COLUMN("id") < 1000,
        1000 > COLUMN("id"),
        (COLUMN("id") >= 10) & (COLUMN("kind") == "c"),
        (COLUMN("value") > 100.5) | COLUMN("value").is_null(),
        COLUMN("id").is_between(5, 9),
        COLUMN("id").is_between(5, 9, closed="none"),
        COLUMN("day") == dt.date(2020, 2, 29),
        COLUMN("at") < dt.datetime(2020, 1, 1, 0, 0, 30),
        COLUMN("value").is_not_null() & (COLUMN("id") % 2 == 0),
        ~(COLUMN("id") < 99_990),
        COLUMN("kind").str.starts_with("a") & (COLUMN("id") < 50),
        COLUMN("kind").is_in(["a", "x"]),
        COLUMN("value") == 0,
        COLUMN("kind") == "O'Brien",
    ],
    ids=str,
)
def test_lazy_frame_has_polars_rows(con, trips, predicate):
    path, table = trips
    relation = con.read_orc(path)
    found = relation.pl(lazy=True).filter(predicate).select("id", "value").sort("id").collect()
    wanted = pl.from_arrow(table).filter(predicate).select("id", "value").sort("id")
    assert found.equals(wanted)


def test_columns_rows_and_conditions_reach_the_query(con, trips):
    types = dict(zip(con.read_orc(trips[0]).columns, con.read_orc(trips[0]).types))
    assert condition((COLUMN("id") < 5) & COLUMN("kind").str.contains("a"), types) == '(("id" < 5))'
    assert condition((COLUMN("id") < 5) | COLUMN("kind").str.contains("a"), types) is None
    assert condition(COLUMN("kind") == "O'Brien", types) == "(\"kind\" = 'O''Brien')"
    assert condition(COLUMN("value") == 0, types) is None
    assert condition(COLUMN("day") < dt.date(2020, 1, 2), types) == "(\"day\" < DATE '2020-01-02')"
    frame = con.read_orc(trips[0]).pl(lazy=True)
    assert frame.head(3).collect().height == 3
    assert frame.select(pl.len()).collect().item() == 100_000


def test_zeros_of_both_signs_are_equal_in_polars(con):
    table = pa.table({"f": [0.0, -0.0, 1.0, float("nan"), None]})
    con.register("t", table)
    for predicate in (COLUMN("f") == 0.0, COLUMN("f") >= 0.0, COLUMN("f") > 0.5, COLUMN("f") < 0.0):
        found = con.table("t").pl(lazy=True).filter(predicate).collect()
        assert found.equals(pl.from_arrow(table).filter(predicate), null_equal=True), predicate


def test_grampus_errors_reach_polars(con):
    frame = con.sql("SELECT 1 / (v - 5) AS a FROM (VALUES (5)) AS t(v)").pl(lazy=True)
    with pytest.raises(Exception, match="[Dd]ivide by zero"):
        frame.collect()


def test_module_has_a_default_connection(trips):
    assert grampus.read_orc(trips[0]).filter("id < 1").fetchall()[0][0] == 0
    assert grampus.sql("SELECT $1 AS a", [5]).fetchall() == [(5,)]
