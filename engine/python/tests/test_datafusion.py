"""The package `datafusion` reads a relation's Arrow stream, and relations as tables."""

import gc
import importlib.metadata
import re
from concurrent.futures import ThreadPoolExecutor

import datafusion
import grampus
import pyarrow
import pytest


def test_relation_is_a_frame_of_datafusion(con, trips):
    context = datafusion.SessionContext()
    frame = context.from_arrow(con.read_orc(trips[0]).filter("id < 10"), "t")
    assert frame.count() == 10
    total = context.sql("SELECT sum(id) AS s FROM t").to_pydict()
    assert total == {"s": [45]}


def test_frame_of_datafusion_is_a_table(con):
    frame = datafusion.SessionContext().sql("SELECT 7 AS a, 'x' AS b")
    con.register("t", frame)
    assert con.table("t").fetchall() == [(7, "x")]


def test_relation_is_a_table_of_datafusion(con, trips):
    context = datafusion.SessionContext()
    context.register_table("t", con.read_orc(trips[0]))
    table = con.read_orc(trips[0]).arrow()
    assert context.sql("SELECT count(*) AS n FROM t").to_pydict() == {"n": [table.num_rows]}
    context.register_table("few", con.read_orc(trips[0]).filter("id < 10").select("id", "id * 2 AS twice"))
    assert context.table("few").count() == 10
    joined = context.sql("SELECT sum(twice) AS s FROM few JOIN t USING (id) WHERE t.id >= 5").to_pydict()
    assert joined == {"s": [2 * (5 + 6 + 7 + 8 + 9)]}
    # Executed anew each time, and by several at once.
    frame = context.sql("SELECT id FROM t WHERE id BETWEEN 3 AND 5 ORDER BY id")
    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(lambda _: frame.to_pydict(), range(8)))
    assert answers == [{"id": [3, 4, 5]}] * 8


def test_columns_conditions_and_limits_reach_the_relation(con, trips):
    context = datafusion.SessionContext()
    context.register_table("t", con.read_orc(trips[0]))
    plan = context.sql("SELECT id + 1 FROM t WHERE id < 7").execution_plan().display_indent()
    assert "OwnSessionExec" in plan and "columns=[id " in plan and "id < 7" in plan, plan
    assert "FilterExec" not in plan
    assert "limit=3" in context.sql("SELECT id FROM t LIMIT 3").execution_plan().display_indent()
    assert context.sql("SELECT id FROM t LIMIT 3").count() == 3


def test_grouped_relation_is_a_table_of_datafusion(con, trips):
    context = datafusion.SessionContext()
    con.register("trips", con.read_orc(trips[0]))
    context.register_table("groups", con.sql("SELECT id % 3 AS k, count(*) AS n FROM trips WHERE id < 30 GROUP BY 1"))
    assert context.sql("SELECT k, n FROM groups WHERE k > 0 ORDER BY k").to_pydict() == {"k": [1, 2], "n": [10, 10]}


def test_table_outlives_its_connection(trips):
    context = datafusion.SessionContext()
    con = grampus.connect()
    context.register_table("t", con.read_orc(trips[0]))
    con.close()
    del con
    gc.collect()
    assert context.sql("SELECT count(*) AS n FROM t WHERE id < 4").to_pydict() == {"n": [4]}


def test_errors_of_the_relation_name_the_file(con, tmp_path):
    path = tmp_path / "t.orc"
    grampus.write_orc(pyarrow.table({"id": range(1000)}), path)
    context = datafusion.SessionContext()
    context.register_table("t", con.read_orc(path))
    assert context.table("t").count() == 1000
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(Exception, match=re.escape(str(path))):
        context.sql("SELECT sum(id) FROM t").to_pydict()


def test_other_versions_of_datafusion_are_refused(con, trips, monkeypatch):
    relation = con.read_orc(trips[0])
    with pytest.raises(grampus.Error, match="takes the session"):
        relation.__datafusion_table_provider__()
    monkeypatch.setattr(importlib.metadata, "version", lambda _: "54.1.0")
    with pytest.raises(grampus.Error, match=r"datafusion 54\.1\.0 cannot read this table: install datafusion \d+"):
        datafusion.SessionContext().register_table("t", relation)
