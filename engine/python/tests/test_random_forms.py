"""Random EXCEPT ALL, INTERSECT ALL, ASOF, SEMI and ANTI JOIN, PIVOT and UNPIVOT: the answers are DuckDB's.

`GRAMPUS_TEST_SEED` and `GRAMPUS_TEST_CASES` are another seed and number of pairs of tables.
"""

import os
import random

import duckdb
import pyarrow as pa
from test_random_queries import rows

import grampus

CASES = int(os.environ.get("GRAMPUS_TEST_CASES", "30"))
SEED = int(os.environ.get("GRAMPUS_TEST_SEED", "1"))
KINDS = {
    "integer": (pa.int64(), [None, -3, -2, -1, 0, 1, 2, 3]),
    "double": (pa.float64(), [None, 0.0, -0.0, 1.5, -2.25, float("inf"), float("nan")]),
    "text": (pa.string(), [None, "", "a", "b", "A"]),
    "time": (pa.timestamp("us"), [None, 0, 5, -5, 86_400_000_000]),
}


def table(rng, kinds):
    length = rng.randint(0, 40)
    columns = {}
    for name, kind in zip("abc", kinds):
        data_type, values = KINDS[kind]
        columns[name] = pa.array([rng.choice(values) for _ in range(length)], data_type)
    return pa.table(columns)


def statements(rng):
    chosen = ", ".join(rng.sample("abc", rng.randint(1, 3)))
    for operation in ["EXCEPT ALL", "INTERSECT ALL", "EXCEPT", "INTERSECT"]:
        yield f"SELECT {chosen} FROM x {operation} SELECT {chosen} FROM y"
    yield f"SELECT {chosen} FROM x UNION ALL SELECT {chosen} FROM y EXCEPT ALL SELECT {chosen} FROM x"
    # Of partners with equal times either may be the one.
    keys = rng.choice(["", "x.b = y.b AND ", "y.b = x.b AND x.a = y.a AND "])
    condition = f"{keys}x.c {rng.choice(['>=', '>', '<=', '<'])} y.c"
    yield f"SELECT x.a, x.b, x.c, y.c FROM x ASOF {rng.choice(['', 'LEFT '])}JOIN y ON {condition}"
    yield "SELECT count(*) FROM x SEMI JOIN y USING (a)"
    yield "SELECT count(*) FROM x ANTI JOIN y ON x.a = y.a AND x.c < y.c"
    yield "SELECT n, count(v), min(v) FROM (UNPIVOT (SELECT a, a AS z FROM x) ON a, z INTO NAME n VALUE v) GROUP BY n"
    yield "SELECT * FROM (SELECT c, b || '' AS b, 1 AS v FROM x) PIVOT (count(v) FOR b IN ('a' AS p, 'A' AS q))"


def test_answers_equal_duckdbs():
    wrong, asked = [], 0
    for seed in range(SEED, SEED + CASES):
        rng = random.Random(seed)
        kinds = [rng.choice(list(KINDS)), rng.choice(["integer", "text"]), rng.choice(["integer", "double", "time"])]
        tables = {name: table(rng, kinds) for name in "xy"}
        database = duckdb.connect()
        with grampus.connect(threads=2) as connection:
            for name, values in tables.items():
                database.register(name, values)
                connection.register(name, values)
            for sql in statements(rng):
                try:
                    expected = rows(database.sql(sql).fetchall())
                except duckdb.Error:
                    continue  # a number is no text
                asked += 1
                found = rows(connection.sql(sql).fetchall())
                if found != expected:
                    wrong.append(f"{seed}: {sql}\n  {expected}\n  {found}")
    assert asked > 5 * CASES
    assert not wrong, f"{len(wrong)} of {asked} wrong:\n" + "\n".join(wrong[:20])
