"""PEP 249: cursors, parameters, types, exceptions."""

import datetime as dt
import decimal
import threading
import time
import uuid

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import grampus

UTC = dt.timezone.utc
BERLIN = dt.timezone(dt.timedelta(hours=1))


def test_module_says_what_it_is():
    assert (grampus.apilevel, grampus.paramstyle, grampus.threadsafety) == ("2.0", "qmark", 2)
    for name in ("DataError", "OperationalError", "IntegrityError", "InternalError", "ProgrammingError"):
        assert issubclass(getattr(grampus, name), grampus.DatabaseError)
    assert issubclass(grampus.NotSupportedError, grampus.DatabaseError)
    assert issubclass(grampus.DatabaseError, grampus.Error) and issubclass(grampus.InterfaceError, grampus.Error)
    assert issubclass(grampus.Error, Exception) and issubclass(grampus.Warning, Exception)
    assert grampus.DateFromTicks(0) == dt.date(*time.localtime(0)[:3])
    assert grampus.TimestampFromTicks(0) == dt.datetime(*time.localtime(0)[:6])


def test_cursor_executes_and_fetches(con):
    cursor = con.cursor()
    assert (cursor.description, cursor.rowcount, cursor.fetchall()) == (None, -1, [])
    assert cursor.execute("CREATE TABLE t (a BIGINT, b VARCHAR)") is cursor
    assert (cursor.description, cursor.rowcount, cursor.fetchall(), cursor.fetchone()) == (None, -1, [], None)
    cursor.executemany("INSERT INTO t VALUES (?, ?)", [(1, "x"), (2, None), (3, "it's")])
    assert (cursor.rowcount, cursor.description) == (3, None)
    assert cursor.execute("INSERT INTO t VALUES (4, 'y')").rowcount == 1
    cursor.execute("SELECT * FROM t ORDER BY a")
    assert [column[0] for column in cursor.description] == ["a", "b"]
    assert all(len(column) == 7 for column in cursor.description)
    assert (cursor.description[0][1] == grampus.NUMBER) and (cursor.description[1][1] == grampus.STRING)
    assert cursor.description[0][1] != grampus.STRING
    assert cursor.rowcount == -1
    assert cursor.fetchone() == (1, "x")
    assert cursor.fetchmany() == [(2, None)]
    assert cursor.fetchmany(5) == [(3, "it's"), (4, "y")]
    assert (cursor.fetchmany(5), cursor.fetchone(), cursor.fetchall()) == ([], None, [])
    assert list(cursor.execute("SELECT a FROM t WHERE a > $least ORDER BY a", {"least": 2})) == [(3,), (4,)]
    assert cursor.connection is con
    cursor.setinputsizes([1])
    cursor.setoutputsize(1)
    cursor.close()
    for call in (cursor.fetchone, cursor.arrow, lambda: cursor.execute("SELECT 1")):
        with pytest.raises(grampus.ProgrammingError, match="cursor is closed"):
            call()


def test_execute_of_a_connection_is_a_cursors(con):
    assert con.execute("CREATE TABLE t AS SELECT 1 AS a").fetchall() == []
    assert con.execute("INSERT INTO t VALUES (2)").fetchall() == [(1,)]
    assert con.execute("SELECT sum(a) AS s FROM t").df()["s"].tolist() == [3]
    assert con.execute("SELECT a FROM t ORDER BY a").pl()["a"].to_list() == [1, 2]
    assert con.execute("SELECT a FROM t ORDER BY a").fetchnumpy()["a"].tolist() == [1, 2]
    assert con.execute("SET grampus.device = 'cpu'").arrow().num_rows == 0
    part = con.execute("SELECT value FROM range(0, 20000) ORDER BY 1")
    assert (part.fetchone(), part.fetchmany(2)) == ((0,), [(1,), (2,)])
    assert part.arrow()["value"].to_pylist() == list(range(3, 20000))
    with con.cursor() as cursor:
        assert cursor.execute("SELECT 1; SELECT 2").fetchall() == [(2,)]


def test_statements_without_rows_are_relations_without_columns(con):
    relation = con.sql("CREATE VIEW v AS SELECT 1 AS a")
    assert (relation.columns, relation.fetchall(), relation.arrow().shape) == ([], [], (0, 0))
    assert relation.df().empty and con.sql("").fetchall() == []


def test_transactions_are_not_there(con):
    con.commit()
    with pytest.raises(grampus.NotSupportedError, match="no transactions"):
        con.rollback()


def test_closed_connection_has_no_cursor():
    with grampus.connect() as con:
        cursor = con.cursor()
    for call in (con.cursor, con.commit, lambda: cursor.execute("SELECT 1"), lambda: con.execute("SELECT 1")):
        with pytest.raises(grampus.ProgrammingError, match="connection is closed"):
            call()


@pytest.mark.parametrize(
    ("query", "kind"),
    [
        ("SELEC 1", grampus.ProgrammingError),
        ("SELECT nope", grampus.ProgrammingError),
        ("SELECT * FROM nope", grampus.ProgrammingError),
        ("SELECT 1 / 0", grampus.DataError),
        ("SELECT CAST('x' AS INT)", grampus.DataError),
        ("SELECT * FROM '/no/such.orc'", grampus.DatabaseError),
        ("SELECT 1 FETCH FIRST 1 ROW WITH TIES", grampus.Error),
    ],
)
def test_exceptions_have_kinds(con, query, kind):
    with pytest.raises(kind):
        con.execute(query).fetchall()


def test_memory_that_does_not_suffice_is_operational():
    con = grampus.connect(memory_limit="1m", threads=1)
    query = "SELECT max(cardinality(a)) FROM (SELECT array_agg(value) AS a FROM range(1, 3000000) GROUP BY value % 7)"
    with pytest.raises(grampus.OperationalError, match="memory"):
        con.execute(query).fetchall()


@pytest.mark.parametrize(
    ("value", "back"),
    [
        ("O'Brien; DROP TABLE t --", None),
        ("two '' quotes, a back\\'slash\\", None),
        ("'", None),
        ("? $1 $name :x @y", None),
        ("\0 zero", None),
        ("", None),
        (2**63 - 1, None),
        (-(2**63), None),
        (-1, None),
        (float("inf"), None),
        (5e-324, None),
        (1e300, None),
        (b"\x00'\xff", None),
        (b"", None),
        (bytearray(b"ab"), b"ab"),
        (decimal.Decimal("0." + "0" * 37 + "1"), None),
        (decimal.Decimal("9" * 38), None),
        (dt.date(1, 1, 1), None),
        (dt.date(9999, 12, 31), None),
        (dt.datetime(1, 1, 1), None),
        (dt.datetime(9999, 12, 31, 23, 59, 59, 999999), None),
        (dt.datetime(2020, 3, 29, 2, 30, tzinfo=BERLIN), dt.datetime(2020, 3, 29, 1, 30, tzinfo=UTC)),
        (dt.time(23, 59, 59, 999999), None),
        ([1, None, 3], None),
        ([], None),
        (["a'b", ""], None),
        ([[1], [], None], None),
        ((1.5, 2.5), [1.5, 2.5]),
        ({"a": 1, "it's": "x"}, None),
        ([{"a": 1}, {"a": None}], None),
        (uuid.UUID(int=5), "00000000-0000-0000-0000-000000000005"),
        (np.int16(-3), -3),
        (np.float32(0.5), 0.5),
        (np.bool_(True), True),
        (np.array([1, 2]), [1, 2]),
        (np.datetime64("2020-01-01"), dt.datetime(2020, 1, 1)),
        (pd.Timestamp("2020-01-01", tz="Europe/Berlin"), dt.datetime(2019, 12, 31, 23, tzinfo=UTC)),
        (pd.NaT, None),
        (pd.NA, None),
    ],
    ids=repr,
)
def test_parameters_are_values(con, value, back):
    if back is None and value is not pd.NaT and value is not pd.NA:
        back = value
    for query, params in (("SELECT ? AS a", [value]), ("SELECT $1 AS a", [value]), ("SELECT $v AS a", {"v": value})):
        found = con.execute(query, params).fetchone()[0]
        assert found == back and isinstance(found, type(back))
    con.execute("CREATE TABLE t AS SELECT ? AS a", [value])
    assert con.execute("SELECT a FROM t").fetchone()[0] == back


def test_nanoseconds_of_pandas_and_numpy_stay(con):
    for moment in (pd.Timestamp("2020-01-01 00:00:00.123456789"), np.datetime64("2020-01-01T00:00:00.123456789")):
        found = con.sql("SELECT CAST(CAST(? AS TIMESTAMP) AS VARCHAR) AS a", [moment]).fetchone()[0]
        assert found == "2020-01-01T00:00:00.123456789"


def test_not_a_number_is_a_float(con):
    assert str(con.execute("SELECT ?", [float("nan")]).fetchone()[0]) == "nan"


def test_parameters_stand_where_literals_do(con, trips):
    con.register("trips", con.read_orc(trips[0]))
    for query, params, wanted in (
        ("SELECT ? + 1, upper(?), ? LIKE ?", [1, "a", "abc", "a%"], (2, "A", True)),
        ("SELECT value FROM range(0, 9) WHERE value IN (?, ?) ORDER BY 1 LIMIT ? OFFSET ?", [3, 5, 1, 1], (5,)),
        ("SELECT coalesce(?, ?), CASE WHEN ? THEN ? ELSE ? END", [None, 3, True, "a", "b"], (3, "a")),
        ("SELECT list_contains(?, 2), ? || 'x', ? BETWEEN ? AND ?", [[1, 2], "it's", 2, 1, 3], (True, "it'sx", True)),
        ("SELECT date '2020-01-01' + ?", [dt.timedelta(days=1)], (dt.date(2020, 1, 2),)),
        ("FROM trips SELECT count(*) WHERE day = ? AND kind = ?", [dt.date(2020, 1, 3), "c"], (55,)),
        ("SELECT count(*) FROM trips WHERE at < ?", [dt.datetime(2020, 1, 1, 0, 1)], (60,)),
        ("SELECT '?', \"?\" FROM (SELECT ? AS \"?\") -- ?", [7], ("?", 7)),
        ("SELECT value FROM range(0, 3) ORDER BY ?, value DESC", [1], (2,)),
        ("SELECT * FROM (VALUES (?, ?), (?, ?)) t(a, b) ORDER BY a", [2, "y", 1, "x"], (1, "x")),
    ):
        assert con.execute(query, params).fetchone() == wanted, query


def test_parameters_name_files(con, trips):
    assert con.execute("SELECT count(*) FROM read_orc(?)", [str(trips[0])]).fetchall() == [(100_000,)]


@pytest.mark.parametrize(
    ("query", "params", "words"),
    [
        ("SELECT ?", [1, 2], "takes 1 value, and params has 2"),
        ("SELECT ?, ?", [1], "takes 2 values, and params has 1"),
        ("SELECT 1", [1], "takes 0 values"),
        ("SELECT $2", [1, 2], r"no placeholder \$1"),
        ("SELECT $a", {"b": 1}, r"no value for \$a"),
        ("SELECT $a", {"a": 1, "b": 2}, r"no placeholder \$b"),
        ("SELECT $a", [1], "a mapping of values by name"),
        ("SELECT ?, $1", [1], "use one kind"),
        ("SELECT 1; SELECT ?", [1], "one by one"),
    ],
)
def test_parameters_and_placeholders_agree(con, query, params, words):
    with pytest.raises(grampus.Error, match=words):
        con.execute(query, params)


def test_times_with_zones_are_no_parameters(con):
    with pytest.raises(TypeError, match="with a zone"):
        con.execute("SELECT ?", [dt.time(1, tzinfo=UTC)])


def test_threads_share_the_rows_of_a_cursor():
    con = grampus.connect()
    cursor = con.execute("SELECT value FROM generate_series(1, 100000)")
    rows = []

    def read():
        while some := cursor.fetchmany(100):
            rows.extend(some)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(rows) == [(number,) for number in range(1, 100_001)]


def test_durations_keep_what_they_have_or_are_refused():
    con = grampus.connect()
    moment = "SELECT TIMESTAMP '2020-01-01 00:00:00' + ?"
    for duration in (pd.Timedelta(1, "us"), np.timedelta64(1000, "ns"), np.timedelta64(1, "us")):
        assert con.sql(moment, [duration]).fetchall() == [(dt.datetime(2020, 1, 1, 0, 0, 0, 1),)]
    assert con.sql("SELECT ? IS NULL", [np.timedelta64("NaT")]).fetchall() == [(True,)]
    for refused in (pd.Timedelta(1, "ns"), np.timedelta64(1, "ns"), np.timedelta64(1, "ps")):
        with pytest.raises(TypeError, match="nanoseconds"):
            con.sql(moment, [refused])
    for refused in (np.timedelta64(1, "M"), np.array([1], "timedelta64[Y]")):
        with pytest.raises(TypeError, match="months and years"):
            con.sql(moment, [refused])
