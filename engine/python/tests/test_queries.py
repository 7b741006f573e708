"""Relations made of relations, and how relations are shown and read as rows, against duckdb and arithmetic."""

import contextlib
import io

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import grampus

LEFT = pa.table({"id": [1, 2, 2, None], "v": ["x", "y", "y", "n"]})
RIGHT = pa.table({"id": [2, 3, None], "v": ["z", "w", "m"], "k": [20, 30, 40]})


@pytest.fixture
def left(con):
    return con.from_arrow(LEFT)


@pytest.fixture
def right(con):
    return con.from_arrow(RIGHT)


def sorted_rows(relation):
    return sorted(relation.fetchall(), key=repr)


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
def test_join_by_column_equals_duckdbs(left, right, how):
    duck = duckdb.connect()
    one, two = duck.from_arrow(LEFT), duck.from_arrow(RIGHT)
    found = left.join(right, "id", how)
    full = "SELECT coalesce(a.id, b.id), a.v, b.v, b.k FROM one a FULL JOIN two b ON a.id = b.id"
    wanted = duck.sql(full) if how == "full" else one.join(two, "id", how)
    assert sorted_rows(found) == sorted(wanted.fetchall(), key=repr)
    assert found.columns == (["id", "v"] if how in ("semi", "anti") else ["id", "v", "v_1", "k"])


def test_right_join_has_the_right_sides_keys(left, right):
    assert sorted_rows(left.join(right, ["id"], "right").select("id")) == sorted([(2,), (2,), (3,), (None,)], key=repr)


def test_join_by_condition_qualifies_by_aliases(left, right):
    found = left.join(right, condition="relation.id < other.id -- a comment")
    assert sorted_rows(found) == sorted_rows(left.set_alias("a").join(right.set_alias("b"), "a.id < b.id"))
    assert found.count().fetchall() == [(4,)]
    assert found.columns == ["id", "v", "id_1", "v_1", "k"]
    assert found.filter("id_1 = 3").select("v_1").distinct().fetchall() == [("w",)]


def test_join_takes_tables_of_other_libraries_and_itself(left):
    for table in (RIGHT, RIGHT.to_pandas(), pl.from_arrow(RIGHT)):
        assert left.join(table, "id").select("k").fetchall() == [(20,), (20,)]
    assert len(left.join(left, "id")) == 5
    assert left.cross(left).shape == (16, 4)


def test_join_refuses_what_it_cannot_mean(left, right):
    for on, how, words in (
        (None, "inner", "cross join"),
        ("id", "cross", "cross join"),
        (["nope"], "inner", "no column nope"),
        ("id", "sideways", "how is one of"),
        ("nope = 1", "left", "No field named nope"),
    ):
        with pytest.raises(grampus.ProgrammingError, match=words):
            left.join(right, on, how)


def test_set_operations_keep_rows_that_are_alike_as_duckdbs_do(left, con):
    one, two = duckdb.from_arrow(LEFT), duckdb.from_arrow(LEFT.slice(0, 2))
    other = con.from_arrow(LEFT.slice(0, 2))
    for name in ("union", "except_", "intersect"):
        wanted = sorted(getattr(one, name)(two).fetchall(), key=repr)
        assert sorted_rows(getattr(left, name)(other)) == wanted
    assert sorted_rows(left.union_all(other).distinct()) == sorted_rows(left.distinct())
    by_name = left.union_by_name(pa.table({"w": [7], "id": [5]})).filter("id = 5").arrow().to_pylist()
    assert by_name == [{"id": 5, "v": None, "w": 7}]


def test_aggregates(left):
    assert left.aggregate("count(*) AS n, sum(id) AS s").fetchall() == [(4, 5)]
    assert left.filter("false").aggregate("count(*)").fetchall() == [(0,)]
    assert left.aggregate("v, sum(id) AS s").order("v").fetchall() == [("n", None), ("x", 1), ("y", 4)]
    assert left.aggregate(["max(id) AS m"], "v").order("m DESC NULLS LAST").fetchall() == [(2,), (1,), (None,)]
    assert left.group_by("v").agg("count(*) AS n").filter("n > 1").fetchall() == [("y", 2)]
    assert [getattr(left, name)("id").fetchall() for name in ("count", "sum", "min")] == [[(3,)], [(5,)], [(1,)]]
    assert left.max("id", "v").order("v").fetchall() == [("n", None), ("x", 1), ("y", 2)]
    assert (left.avg("id").fetchall(), left.median("id").fetchall()) == ([(5 / 3,)], [(2.0,)])


def test_columns_change(left):
    relation = left.with_columns(id="id * 10", w="upper(v)").filter("id = 10")
    assert (relation.columns, relation.fetchall()) == (["id", "v", "w"], [(10, "x", "X")])
    assert left.drop("id").columns == ["v"]
    assert left.rename(id='a "quoted" name').select('"a ""quoted"" name" AS a').order("a").head(1).fetchall() == [(1,)]
    with pytest.raises(grampus.ProgrammingError, match="no column q: there are id, v"):
        left.drop("q")
    assert left.select("* EXCLUDE (v)").columns == ["id"]


def test_texts_with_comments_end_where_they_end(left):
    assert left.filter("id = 2 -- two").select("v -- the value", "id -- n").order("id -- up").limit(1).fetchall() == [
        ("y", 2)
    ]


def test_order_is_kept_by_what_is_made_of_it(con):
    ordered = con.sql("SELECT value AS v, 1000000 - value AS w FROM range(0, 1000000)").order("w")
    wanted = [(v,) for v in range(900_005, 0, -100_000)]
    assert ordered.filter("v % 100000 = 5").select("v").fetchall() == wanted
    assert ordered.select("v").filter("v % 100000 = 5").head(2).fetchall() == wanted[:2]
    assert "Sort" not in ordered.count().explain().split("physical_plan")[1]


def test_shape_length_and_description(left):
    assert (len(left), left.shape, left.dtypes) == (4, (4, 2), ["Int64", "Utf8"])
    assert [column[:2] for column in left.description] == [("id", "Int64"), ("v", "Utf8")]
    assert left.description[0][1] == grampus.NUMBER and left.description[1][1] == grampus.STRING
    assert left.filter("false") and not len(left.filter("false"))


def test_rows_one_after_the_other(left):
    relation = left.order("id NULLS LAST")
    assert [relation.fetchone(), relation.fetchmany(2), relation.fetchall()] == [
        (1, "x"),
        [(2, "y"), (2, "y")],
        [(None, "n")],
    ]
    assert len(relation.fetchall()) == 4
    assert [row for row in iter(relation.fetchone, None)] == relation.fetchall()
    assert list(relation) == relation.fetchall()
    assert relation.head(2).to_dicts() == [{"id": 1, "v": "x"}, {"id": 2, "v": "y"}]


def test_iteration_is_lazy(con):
    rows = iter(con.sql("SELECT a.value FROM range(0, 100000) a CROSS JOIN range(0, 100000) b"))
    assert isinstance(next(rows)[0], int)
    rows.close()


def test_numpy_arrays_equal_duckdbs(con):
    sql = """
        SELECT * FROM (VALUES (1, 0.5, 'a', DATE '2020-01-01', true, 1.50::DECIMAL(5, 2)),
            (NULL, NULL, NULL, NULL, NULL, NULL)) t(i, f, s, d, b, e) ORDER BY i
    """
    found, wanted = con.sql(sql).fetchnumpy(), duckdb.sql(sql).fetchnumpy()
    assert set(found) == set(wanted)
    for name in "ifsdb":
        assert found[name].mask.tolist() == [False, True]
        assert found[name][0] == wanted[name][0], name
    whole = con.sql("SELECT value AS a FROM range(0, 3) ORDER BY 1").fetchnumpy()["a"]
    assert not np.ma.isMaskedArray(whole) and whole.tolist() == [0, 1, 2]


def test_views_tables_and_inserts(con, left):
    assert left.filter("id = 2").create_view("two").fetchall() == [(2, "y"), (2, "y")]
    with pytest.raises(grampus.ProgrammingError, match="there is a table two"):
        left.create_view("two", replace=False)
    assert left.to_table('My "table"').columns == ["id", "v"]
    assert left.insert_into('My "table"') == 4
    assert len(con.table('My "table"')) == 8
    with pytest.raises(grampus.DatabaseError, match="already exists"):
        left.to_table('My "table"')


def test_describe_is_summarize(left):
    rows = {row[0]: row for row in left.describe().fetchall()}
    assert rows["id"][2:4] == ("1", "2") and rows["v"][2:4] == ("n", "y")
    assert left.summarize().columns == left.describe().columns


@pytest.mark.parametrize("kind", ["parquet", "csv", "json", "orc"])
def test_files_come_back(con, left, tmp_path, kind):
    path = tmp_path / f"it's.{kind}"
    assert getattr(left, f"write_{kind}")(path) == 4
    assert sorted_rows(getattr(con, f"read_{kind}")(path).select("id", "v")) == sorted_rows(left)
    folder = tmp_path / "parts"
    written = left.filter("id IS NOT NULL")
    assert getattr(written, f"to_{kind}")(folder, partition_by="id") == 3
    assert sorted(path.name for path in folder.iterdir()) == ["id=1", "id=2"]
    back = con.sql(f"SELECT * FROM read_{kind}('{folder}')").select("CAST(id AS BIGINT) AS id", "v")
    assert sorted_rows(back) == sorted_rows(written)


def test_options_of_files(left, con, tmp_path):
    left.write_parquet(tmp_path / "a.parquet", compression="zstd")
    assert pq.ParquetFile(tmp_path / "a.parquet").metadata.row_group(0).column(0).compression == "ZSTD"
    left.order("id").write_csv(tmp_path / "a.csv", header=False, sep=";", na_rep="-")
    assert (tmp_path / "a.csv").read_text() == "1;x\n2;y\n2;y\n-;n\n"
    left.write_orc(tmp_path / "a.orc", compression="zlib", stripe_rows=2)
    assert len(grampus.layout(tmp_path / "a.orc")["stripes"]) == 2
    with pytest.raises(TypeError, match="sepp"):
        left.write_csv(tmp_path / "b.csv", sepp=";")
    with pytest.raises(grampus.Error, match="no_such_folder|cannot|rar"):
        left.write_parquet(tmp_path / "b.parquet", compression="rar")
    assert not (tmp_path / "b.parquet").exists()


def test_repr_and_show_draw_the_first_rows(con, left):
    text = repr(left.order("id NULLS FIRST"))
    assert text.splitlines() == [
        "┌───────┬──────┐",
        "│ id    │ v    │",
        "│ Int64 │ Utf8 │",
        "├───────┼──────┤",
        "│  NULL │ n    │",
        "│     1 │ x    │",
        "│     2 │ y    │",
        "│     2 │ y    │",
        "└───────┴──────┘",
        "(4 rows)",
    ]
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        left.show(max_rows=1)
        con.sql("SELECT " + ", ".join(f"repeat('x', 50) AS c{i}" for i in range(20))).show(max_width=60)
    lines = out.getvalue().splitlines()
    assert "(first 1 row; arrow(), df() or pl() has all)" in lines
    assert all(len(line) <= 60 for line in lines[-7:]) and "…" in out.getvalue()
    assert lines[-1].startswith("(1 row, ") and lines[-1].endswith(" of 20 columns)")
    wide = repr(con.sql("SELECT 'größer 🐬 漢字' AS \"a\nb\", chr(27) || '[2J' AS e"))
    assert "a b" in wide and "\x1b" not in wide
    assert "without columns" in repr(con.sql("SET grampus.device = 'cpu'"))
    assert left.filter("false").__repr__().endswith("(0 rows)")


def test_errors_name_columns_and_not_the_packages_names(left):
    with pytest.raises(grampus.ProgrammingError) as raised:
        left.filter("nope > 1")
    assert "No field named nope" in str(raised.value) and "relation.id" in str(raised.value)
    assert "grampus relation" not in str(raised.value)
    for wrong in (lambda: left.select(), lambda: left.order(" "), lambda: left.limit(-1), lambda: left.filter("(")):
        with pytest.raises(grampus.ProgrammingError):
            wrong()


def test_relations_of_two_connections_do_not_mix_unseen(left):
    other = grampus.connect().from_arrow(RIGHT)
    assert left.join(other, "id").select("k").fetchall() == [(20,), (20,)]


def test_parameters_stay_in_what_is_made_of_a_query(con):
    relation = con.sql("SELECT ? AS a, ? AS b", ["it's", 5])
    assert relation.filter("b = 5").union(relation).fetchall() == [("it's", 5), ("it's", 5)]


def test_aliases_of_other_packages_methods(con):
    relation = con.sql("SELECT 1 AS a")
    pd.testing.assert_frame_equal(relation.to_df(), relation.fetchdf())
    assert relation.to_arrow_table().num_rows == relation.fetch_arrow_table().num_rows == 1
    assert relation.project("a + 1 AS b").sort("b").fetchall() == con.query("SELECT 2 AS b").fetchall()
