"""A program over the public names of the package. Its annotations say what mypy is to find; it also runs."""

import datetime as dt
import sys
from pathlib import Path
from typing import Any

import polars
from typing_extensions import assert_type

import grampus

Row = tuple[Any, ...]


def queries(con: grampus.Connection) -> None:
    relation = assert_type(con.sql("SELECT ? AS a, ? AS b", [1, dt.date(2020, 1, 1)]), grampus.Relation)
    assert assert_type(relation.fetchall(), list[Row]) == [(1, dt.date(2020, 1, 1))]
    assert assert_type(relation.columns, list[str]) == ["a", "b"]
    assert assert_type(relation.shape, tuple[int, int]) == (1, 2)
    named = con.sql("SELECT $least AS a", {"least": [1, None]})
    assert assert_type(named.to_dicts(), list[dict[str, Any]]) == [{"a": [1, None]}]
    assert "Metrics" in assert_type(relation.explain(analyze=True), str)
    run = assert_type(relation.last_run, "dict[str, Any] | None")
    assert run is None or run["device"] in ("cpu", "gpu")
    for row in relation:
        assert_type(row, Row)


def relations(con: grampus.Connection, folder: Path) -> None:
    one = con.sql("SELECT value AS a, value % 2 AS kind FROM range(0, 10)")
    two = one.filter("a > 3").select("a", "kind").with_columns(twice="a * 2").order("a DESC").limit(3)
    assert assert_type(len(two), int) == 3
    joined = assert_type(one.join(two, "a", how="semi").union(one.head(1)).distinct(), grampus.Relation)
    assert len(joined) == 4
    totals = one.group_by("kind").agg("sum(a) AS total").order("kind")
    assert totals.fetchone() == (0, 20)
    assert one.aggregate("max(a)").fetchmany(2) == [(9,)]
    assert assert_type(one.write_parquet(folder / "a.parquet", compression="zstd"), int) == 10
    assert len(con.read_parquet([folder / "a.parquet"])) == 10
    assert assert_type(grampus.write_orc(one, folder / "a.orc", compression="zlib"), dict[str, int])["rows"] == 10
    assert len(con.read_orc(str(folder / "a.orc"))) == 10
    assert assert_type(grampus.layout(folder / "a.orc"), dict[str, Any])["rows"] == 10
    assert assert_type(one.pl(), polars.DataFrame).height == 10
    assert assert_type(one.pl(lazy=True), polars.LazyFrame).collect().height == 10


def cursors(con: grampus.Connection) -> None:
    with assert_type(con.execute("SELECT 1 AS a UNION ALL SELECT 2"), grampus.Cursor) as cursor:
        assert cursor.description is not None and cursor.description[0][0] == "a"
        assert cursor.description[0][1] == grampus.NUMBER
        assert_type(cursor.fetchone(), "Row | None")
        assert_type(cursor.fetchmany(1), list[Row])
        assert assert_type(cursor.rowcount, int) == -1
    try:
        con.cursor().execute("SELECT nothing")
    except grampus.ProgrammingError as error:
        assert isinstance(error, grampus.DatabaseError) and issubclass(grampus.DatabaseError, grampus.Error)


def functions(con: grampus.Connection) -> None:
    def plus(left: int, right: int) -> int:
        return left + right

    con.create_function("plus", plus, [int, "BIGINT"], int, type="native", null_handling="special")
    assert con.sql("SELECT plus(1, 2)").fetchall() == [(3,)]
    con.remove_function("plus")


def main(folder: Path) -> None:
    settings = {"datafusion.sql_parser.parse_float_as_decimal": True}
    with grampus.connect(device="cpu", memory_limit="1g", threads=2, settings=settings) as con:
        con.register("t", polars.DataFrame({"a": [1]}))
        assert assert_type(con.tables(), list[str]) == ["t"]
        assert assert_type(con.settings, "dict[str, str | None]")["grampus.device"] == "cpu"
        queries(con)
        relations(con, folder)
        cursors(con)
        functions(con)
    assert assert_type(grampus.sql("SELECT 1 AS a"), grampus.Relation).fetchall() == [(1,)]
    assert assert_type(grampus.apilevel, str) == "2.0"
    assert_type(grampus.__version__, str)


main(Path(sys.argv[1]))
