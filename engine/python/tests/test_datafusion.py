"""The package `datafusion` reads a relation's Arrow stream."""

import datafusion


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
