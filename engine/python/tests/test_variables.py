"""Variables of Python as tables of statements."""

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import grampus

# Tables of this module; `nearer` is one of a function too.
of_the_module = pa.table({"a": [1, 2]})
nearer = pa.table({"a": [1000]})
Mixed_Case = pa.table({"a": [7]})


def test_tables_of_every_library(con, tmp_path):
    arrow = pa.table({"a": [1, 2]})
    batch = arrow.to_batches()[0]
    frame = pd.DataFrame({"a": [1, 2]})
    polars_frame = pl.DataFrame({"a": [1, 2]})
    lazy = polars_frame.lazy().filter(pl.col("a") > 0)
    relation = con.sql("SELECT 1 AS a UNION ALL SELECT 2")
    elsewhere = grampus.connect().sql("SELECT 3 AS a")
    pq.write_table(arrow, tmp_path / "a.parquet")
    dataset = ds.dataset(tmp_path / "a.parquet")
    scanner = dataset.scanner(filter=ds.field("a") > 1)
    for name, wanted in (
        ("arrow", 3),
        ("batch", 3),
        ("frame", 3),
        ("polars_frame", 3),
        ("lazy", 3),
        ("relation", 3),
        ("elsewhere", 3),
        ("dataset", 3),
        ("scanner", 2),
        ("of_the_module", 3),
    ):
        assert con.sql(f"SELECT sum(a) FROM {name}").fetchall() == [(wanted,)], name
    assert con.tables() == []
    used = (batch, frame, lazy, relation, elsewhere, scanner)
    assert used


def test_nan_is_null_in_frames_of_pandas_alone(con):
    values = [1.0, float("nan")]
    for library, make in (("pandas", pd.DataFrame), ("polars", pl.DataFrame), ("pyarrow", pa.table)):
        frame = make({"a": values})
        nulls = con.sql("SELECT count(*) FILTER (WHERE a IS NULL) FROM frame").fetchall()
        con.register("registered", frame)
        assert nulls == con.sql("SELECT count(*) FILTER (WHERE a IS NULL) FROM registered").fetchall()
        assert nulls == [(1 if library == "pandas" else 0,)], library


def test_orc_is_still_skipped_through_a_variable(con, trips):
    late = con.read_orc(trips[0]).filter("id >= 90000")
    relation = con.sql("SELECT count(*) FROM late WHERE id >= 99000")
    assert relation.fetchall() == [(1000,)]
    assert relation.last_run["io"]["row_groups_skipped"] == 9 and late


def test_nearer_variables_come_first_and_tables_before_them(con):
    nearer = pa.table({"a": [1]})
    assert con.sql("SELECT a FROM nearer").fetchall() == [(1,)]
    assert con.sql("WITH nearer AS (SELECT 2 AS a) SELECT a FROM nearer").fetchall() == [(2,)]
    con.register("nearer", pa.table({"a": [3]}))
    assert con.sql("SELECT a FROM nearer").fetchall() == [(3,)]
    con.unregister("nearer")
    assert con.sql("SELECT a FROM nearer").fetchall() == [(1,)]
    assert nearer.num_rows == 1


def test_only_the_calling_functions_variables_are_seen():
    def ask(con):
        return con.sql("SELECT a FROM hidden").fetchall()

    hidden = pa.table({"a": [5]})
    with pytest.raises(grampus.ProgrammingError, match="table 'hidden' not found"):
        ask(grampus.connect())
    assert ask(grampus.connect(python_variables="all")) == [(5,)]
    assert hidden.num_rows == 1


def test_variables_can_be_turned_off():
    con = grampus.connect(python_variables=False)
    with pytest.raises(grampus.ProgrammingError, match="table 'of_the_module' not found"):
        con.sql("SELECT * FROM of_the_module")
    with pytest.raises(grampus.ProgrammingError, match="not found"):
        con.session().sql("SELECT * FROM of_the_module")


@pytest.mark.parametrize("value", [{"a": [1]}, [1, 2], 5, "text", print, pa, pa.Table])
def test_variables_that_are_no_tables_are_errors_that_say_so(con, value):
    thing = value
    with pytest.raises(grampus.ProgrammingError, match="the variable thing is no table: it is of type"):
        con.sql("SELECT * FROM thing")
    assert con.sql("WITH thing AS (SELECT 1 AS a) SELECT a FROM thing").fetchall() == [(1,)]
    con.sql("CREATE TABLE thing AS SELECT 2 AS a")
    assert con.sql("SELECT a FROM thing").fetchall() == [(2,)]
    assert thing is value


def test_columns_are_no_tables(con):
    column, series = pa.chunked_array([[1]]), pl.Series([1])
    for name in ("column", "series"):
        with pytest.raises(grampus.ProgrammingError, match=f"variable {name} is a .*, a column"):
            con.sql(f"SELECT * FROM {name}")
    assert len(column) == len(series)


def test_names_match_in_any_letter_case_unless_two_do(con):
    assert con.sql("SELECT a FROM mixed_case").fetchall() == con.sql('SELECT a FROM "Mixed_Case"').fetchall() == [(7,)]
    assert con.sql("SELECT mixed_case.a FROM Mixed_Case").fetchall() == [(7,)]
    DF, df = pa.table({"a": [1]}), pa.table({"a": [2]})  # noqa: N806
    assert con.sql("SELECT a FROM DF").fetchall() == [(1,)]
    assert con.sql("SELECT a FROM df").fetchall() == [(2,)]
    with pytest.raises(grampus.ProgrammingError, match="df is one of the variables DF, df"):
        con.sql("SELECT a FROM Df")
    with pytest.raises(grampus.ProgrammingError, match="not found"):
        con.sql('SELECT a FROM "Df"')
    assert DF.num_rows == df.num_rows


def test_readers_are_read_by_one_statement(con):
    reader = pa.RecordBatchReader.from_batches(of_the_module.schema, of_the_module.to_batches())
    relation = con.sql("SELECT sum(a) FROM reader")
    assert relation.fetchall() == relation.fetchall() == [(3,)]
    with pytest.raises(grampus.ProgrammingError, match="earlier statement has read the reader reader"):
        con.sql("SELECT sum(a) FROM reader")
    assert reader is not None


def test_variables_in_other_statements(con, tmp_path):
    mine = pa.table({"a": [1, 2]})
    con.sql("CREATE VIEW v AS SELECT a + 1 AS b FROM mine")
    con.sql("CREATE TABLE t AS SELECT * FROM mine")
    con.sql("INSERT INTO t SELECT * FROM mine")
    con.sql(f"COPY (SELECT * FROM mine) TO '{tmp_path / 'a.orc'}'")
    assert con.sql("SELECT count(*), max(a) FROM mine m JOIN t USING (a)").fetchall() == [(4, 2)]
    assert [row[0] for row in con.sql("DESCRIBE mine").fetchall()] == ["a"]
    assert con.sql("SUMMARIZE mine").fetchall()[0][2:4] == ("1", "2")
    assert con.sql("SELECT a FROM t WHERE a IN (SELECT a + 1 FROM mine)").fetchall() == [(2,), (2,)]
    assert con.execute("SELECT count(*) FROM mine WHERE a = ?", [2]).fetchall() == [(1,)]
    del mine
    assert con.sql("SELECT sum(b) FROM v").fetchall() == [(5,)]
    assert con.read_orc(tmp_path / "a.orc").count().fetchall() == [(2,)]


def test_variables_cannot_be_changed_by_sql(con):
    mine = pa.table({"a": [1, 2]})
    for statement in ("INSERT INTO mine VALUES (3)", "DELETE FROM mine", "UPDATE mine SET a = 1"):
        with pytest.raises(grampus.Error, match="variable of Python|not supported|not implemented"):
            con.sql(statement)
    assert mine.num_rows == 2


def test_the_same_text_means_the_variable_of_its_time(con):
    answers = []
    for number in range(3):
        mine = pa.table({"a": [number]})
        answers += con.sql("SELECT a FROM mine").fetchall()
    assert answers == [(0,), (1,), (2,)] and mine.num_rows == 1


def test_conditions_of_relations_see_variables(con):
    wanted = pa.table({"a": [2]})
    assert con.from_arrow(of_the_module).filter("a IN (SELECT a FROM wanted)").fetchall() == [(2,)]
    assert wanted.num_rows == 1


def test_module_level_functions_see_their_callers_variables():
    mine = pa.table({"a": [4]})
    assert grampus.sql("SELECT a FROM mine").fetchall() == grampus.execute("FROM mine").fetchall() == [(4,)]
    assert mine.num_rows == 1


def test_errors_of_a_producer_are_raised(con):
    def batches():
        yield pa.record_batch({"a": [1]})
        raise ValueError("the disk is on fire")

    broken = pa.RecordBatchReader.from_batches(pa.schema({"a": pa.int64()}), batches())
    with pytest.raises(grampus.Error, match="the disk is on fire"):
        con.sql("SELECT * FROM broken")
    assert broken is not None
