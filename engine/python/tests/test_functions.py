"""Functions of Python in SQL."""

import datetime as dt
import decimal
import os
import signal
import threading
import time

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import grampus

TABLE = pa.table({"x": [1, None, 3], "s": ["a", "b", None], "l": [[1, 2], None, []]})


def column(con, expression):
    given = TABLE
    found = [row[0] for row in con.sql(f"SELECT {expression} AS r FROM given").fetchall()]
    assert given is TABLE
    return found


@pytest.mark.parametrize(
    ("function", "returned"),
    [
        (lambda x: pc.multiply(x, 2), int),
        (lambda x: pa.chunked_array([pc.multiply(x, 2).slice(0, 1), pc.multiply(x, 2).slice(1)]), pa.int64()),
        (lambda x: x.to_numpy() * 2, "BIGINT"),
        (lambda x: x.to_pandas() * 2, "BIGINT"),
        (lambda x: pl.Series(x) * 2, int),
        (lambda x: [2 * value for value in x.to_pylist()], int),
        (lambda x: pc.multiply(x.cast(pa.int32()), pa.scalar(2, pa.int32())), pa.int32()),
    ],
)
def test_results_of_every_library(con, function, returned):
    con.create_function("twice", function, [int], returned)
    assert column(con, "twice(x)") == [2, None, 6]


def test_types_of_parameters_and_results(con):
    con.create_function("day_after", lambda d: pc.add(d, dt.timedelta(days=1)).cast(pa.date32()), ["DATE"], dt.date)
    money = "DECIMAL(10, 2)"
    con.create_function("half", lambda d: pc.divide(d, 2).cast(pa.decimal128(10, 2)), [money], money)
    con.create_function("size", lambda items: pc.list_value_length(items).cast(pa.int64()), ["BIGINT[]"], int)
    con.create_function("text", lambda s, b: pc.binary_join_element_wise(s, s, "-"), [str, bool], pa.large_string())
    query = "SELECT day_after(DATE '2020-02-28'), half(CAST(3 AS DECIMAL(10, 2))), text('a', true)"
    assert con.sql(query).fetchall() == [(dt.date(2020, 2, 29), decimal.Decimal("1.50"), "a-a")]
    assert column(con, "size(l)") == [2, None, 0]
    for wrong in (object, "NO_TYPE", 5, "INT), (2"):
        with pytest.raises(grampus.Error):
            con.create_function("f", lambda x: x, [wrong], int)


def test_arguments_are_converted_as_far_as_sql_does(con):
    con.create_function("plus", pc.add, [int, int], int)
    assert column(con, "plus(x, CAST(1 AS SMALLINT))") == [2, None, 4]
    assert column(con, "plus(1, 2)") == [3, 3, 3]
    for wrong in ("plus('a', 1)", "plus(1)", "plus(1, 2, 3)", "plus(0.5, 1)"):
        with pytest.raises(grampus.ProgrammingError, match="plus"):
            column(con, wrong)


def test_nulls_are_not_seen_unless_they_are_asked_for(con):
    seen = []

    def look(x, s):
        seen.append((x.null_count, s.null_count, len(x)))
        return pc.is_null(x)

    con.create_function("look", look, [int, str], bool)
    con.create_function("look_at_all", look, [int, str], bool, null_handling="special")
    assert column(con, "look(x, s)") == [False, None, None]
    assert column(con, "look_at_all(x, s)") == [False, True, False]
    assert seen == [(0, 0, 1), (1, 1, 3)]
    assert column(con, "look(NULL, s)") == [None] * 3 and len(seen) == 2


def test_native_functions_take_values(con):
    con.create_function("join_them", lambda x, s: f"{x}-{s}", [int, str], str, type="native")
    con.create_function("or_none", lambda x: x or -1, [int], int, type="native", null_handling="special")
    assert column(con, "join_them(x, s)") == ["1-a", None, None]
    assert column(con, "or_none(x)") == [1, -1, 3]
    con.create_function("year_of", lambda moment: moment.year, ["TIMESTAMP"], int, type="native")
    assert con.sql("SELECT year_of(TIMESTAMP '2020-05-05 00:00:00.123456789')").fetchall() == [(2020,)]


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x: x.slice(1), "1 values were returned for 2 rows"),
        (lambda x: pa.concat_arrays([x, x]), "4 values were returned for 2 rows"),
        (lambda x: [1], "1 values were returned for 2 rows"),
        (lambda x: x.cast(pa.string()), "values of string were returned, and int64 was declared"),
        (lambda x: x.cast(pa.float64()), "values of double were returned, and int64 was declared"),
        (pc.sum, "an array with a value for each row"),
        (lambda x: 7, "an array with a value for each row"),
        (lambda x: None, "an array with a value for each row"),
        (lambda x: x.to_numpy() * 0.5, "truncated"),
        (lambda x: ["1", "2"], "1"),
    ],
)
def test_wrong_results_are_errors_that_name_the_function(con, function, words):
    con.create_function("wrong_one", function, [int], int)
    with pytest.raises(grampus.DatabaseError, match=f"the Python function wrong_one: .*{words}"):
        column(con, "wrong_one(x)")


def test_results_that_do_not_fit_are_errors(con):
    con.create_function("big", lambda x: x.to_numpy() * 10**10, [int], pa.int32())
    with pytest.raises(grampus.DatabaseError, match="function big: .*not in range"):
        column(con, "big(x)")


@pytest.mark.parametrize("way", ["arrow", "fetchall", "df", "fetchone"])
def test_exceptions_are_the_cause(con, way):
    def burn(x):
        raise KeyError("the disk { is: } on fire")

    con.create_function("burn", burn, [int], int)
    relation = con.from_arrow(TABLE).select("burn(x)")
    with pytest.raises(grampus.DatabaseError, match="the Python function burn: KeyError: .*is: } on fire") as raised:
        getattr(relation, way)()
    assert isinstance(raised.value.__cause__, KeyError)
    with pytest.raises(grampus.DatabaseError, match="burn"):
        con.sql("SELECT burn(5)").fetchall()
    assert con.sql("SELECT 1").fetchall() == [(1,)]


def test_names(con):
    con.create_function("MyFunction", lambda x: x, [int], int)
    assert column(con, "MYFUNCTION(x)") == [1, None, 3]
    for taken in ("upper", "SUM", "myfunction", "row_number"):
        with pytest.raises(grampus.Error, match=f"there is a function {taken.lower()}"):
            con.create_function(taken, lambda x: x, [int], int)
    con.remove_function("myFunction")
    for name in ("MyFunction", "upper", "sum"):
        with pytest.raises(grampus.ProgrammingError, match="no function of Python"):
            con.remove_function(name)
    with pytest.raises(grampus.ProgrammingError):
        column(con, "MyFunction(x)")
    with pytest.raises(grampus.ProgrammingError, match="at least one parameter"):
        con.create_function("f", lambda: 1, [], int)
    for wrong in ({"type": "row"}, {"null_handling": "none"}):
        with pytest.raises(grampus.ProgrammingError, match="is '"):
            con.create_function("f", lambda x: x, [int], int, **wrong)


def test_a_function_that_shadows_a_short_form_is_called(con):
    con.create_function("year", lambda x: pc.add(x, 1), [int], int)
    assert con.sql("SELECT year(1)").fetchall() == [(2,)]


def test_a_new_function_is_not_answered_by_an_old_plan(con):
    con.register("t", TABLE)
    query = "SELECT sum(change(x)) FROM t"
    for number in (1, 2, 3):
        con.create_function("change", lambda x, number=number: pc.add(x, number), [int], int)
        assert con.sql(query).fetchall() == con.sql(query).fetchall() == [(4 + 2 * number,)]
        con.remove_function("change")


def test_side_effects_are_not_left_out(con):
    con.create_function("draw", lambda x: np.random.rand(len(x)), [int], float, side_effects=True)
    rows = con.sql("SELECT draw(1) AS a, draw(1) AS b FROM range(0, 100)").fetchall()
    assert len({value for row in rows for value in row}) > 150


def test_functions_anywhere_in_a_query(con, trips):
    con.create_function("modulo", lambda x: pc.subtract(x, pc.multiply(pc.divide(x, 7), 7)), [int], int)
    con.register("trips", con.read_orc(trips[0]))
    query = "SELECT modulo(id) AS m, count(*) FROM trips WHERE modulo(id) > 3 GROUP BY modulo(id) ORDER BY modulo(id)"
    wanted = [(m, sum(1 for i in range(100_000) if i % 7 == m)) for m in (4, 5, 6)]
    assert con.sql(query).fetchall() == wanted
    joined = "SELECT count(*) FROM trips a JOIN range(0, 7) r ON modulo(a.id) = r.value WHERE a.id < 70"
    assert con.sql(joined).fetchall() == [(70,)]


def test_streams_that_other_libraries_read(con):
    """The consumer may hold the interpreter lock, for which the function waits."""
    con.create_function("plus_one", lambda x: pc.add(x, 1), [int], int)
    relation = con.sql("SELECT plus_one(value) AS v FROM range(0, 100000)")
    total = sum(range(1, 100_001))
    assert pl.DataFrame(relation)["v"].sum() == total
    assert pc.sum(pa.table(relation)["v"]).as_py() == total
    assert duckdb.sql("SELECT sum(v) FROM relation").fetchall() == [(total,)]
    assert relation.pl(lazy=True).select(pl.col("v").sum()).collect().item() == total
    assert pd.DataFrame(relation.fetchnumpy())["v"].sum() == total


def test_a_function_may_ask_the_same_connection(con):
    def total(x):
        answer = con.sql("SELECT sum(value) FROM range(0, 10)").fetchone()[0]
        return pa.array([answer] * len(x))

    con.create_function("total", total, [int], int)
    assert column(con, "total(x)") == [45, None, 45]


def test_threads_and_functions(con):
    con.create_function("plus_one", lambda x: pc.add(x, 1), [int], int)
    failures = []

    def ask():
        try:
            for _ in range(3):
                rows = con.sql("SELECT sum(plus_one(value)) FROM range(0, 100000)").fetchall()
                assert rows == [(sum(range(1, 100_001)),)]
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert failures == [] and not any(thread.is_alive() for thread in threads)


def test_ctrl_c_ends_a_query_of_functions(con):
    def slow(x):
        time.sleep(0.02)
        return x

    con.create_function("slow", slow, [int], int)
    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        con.sql("SELECT sum(slow(value)) FROM range(0, 100000000)").fetchall()
    assert time.monotonic() - start < 10
    timer.join()
    assert con.sql("SELECT sum(slow(value)) FROM range(0, 10)").fetchall() == [(45,)]


def test_functions_belong_to_their_connection(con):
    con.create_function("mine", lambda x: x, [int], int)
    with pytest.raises(grampus.ProgrammingError, match="mine"):
        con.session().sql("SELECT mine(1)")


def test_the_interpreter_ends_while_a_cancelled_query_calls_a_function(run_python):
    program = """
import _thread, threading, time, grampus
con = grampus.connect()
con.create_function("slow", lambda a: (time.sleep(0.05), a)[1], [int], int, type="native")
threading.Timer(0.5, _thread.interrupt_main).start()
try:
    con.sql("SELECT sum(slow(value)) FROM generate_series(1, 1000)").fetchall()
except KeyboardInterrupt:
    print("interrupted")
"""
    ended = run_python("-c", program)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "interrupted\n", "")
