"""Random tables whose columns share names, and random statements over them.

Values come from small pools, so that joins, groups and IN lists meet: zeros of both signs, NaN and infinities, instants
before 1970, the last day of 9999, decimals beside their neighbours.
"""

import datetime as dt
import decimal
import random

import pyarrow as pa

D = decimal.Decimal
MOMENTS = [
    dt.datetime(1969, 12, 31, 23, 59, 58, 999_500),
    dt.datetime(1970, 1, 1),
    dt.datetime(2019, 12, 1),
    dt.datetime(2019, 12, 1, 7, 30),
    dt.datetime(2020, 2, 29, 12, 0, 0, 1),
    dt.datetime(1899, 12, 31, 23, 0),
]
DAYS = [dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(2019, 12, 1), dt.date(2020, 2, 29), dt.date(9999, 12, 31)]
FLOATS = [0.0, -0.0, 1.0, -1.0, 0.1, 2.5, 1e10, float("nan"), float("inf"), float("-inf")]

# Kind of a column: its types, and its values.
KINDS = {
    "integer": ([pa.int8(), pa.int16(), pa.int32(), pa.int64()], [0, 1, 2, 3, -1, 5, 100, -128, 127]),
    "float": ([pa.float32(), pa.float64()], FLOATS),
    "decimal": ([pa.decimal128(6, 2), pa.decimal128(12, 2), pa.decimal128(20, 4), pa.decimal128(38, 2)],
                [D("0.00"), D("1.01"), D("-1.01"), D("16.61"), D("1016.61"), D("0.10"), D("35.81"), D("2.00")]),
    "text": ([pa.string()], ["", "a", "b", "ab", "007", "7", "é", "zzz"]),
    "day": ([pa.date32()], DAYS),
    "moment": ([pa.timestamp("us"), pa.timestamp("ns")], MOMENTS),
    "truth": ([pa.bool_()], [True, False]),
}
NAMES = {"k": "integer", "n": "integer", "f": "float", "g": "float", "m": "decimal", "s": "text", "d": "day",
         "t": "moment", "b": "truth"}


def table(rng):
    """A table of up to 60 rows. `id` counts them."""
    rows = rng.choice([0, 1, 7, 20, 60])
    columns = {"id": pa.array(range(rows), pa.int64())}
    for name, kind in NAMES.items():
        types, values = KINDS[kind]
        pool = rng.sample(values, rng.randint(1, len(values)))
        nulls = rng.choice([0.0, 0.0, 0.2, 1.0 if rng.random() < 0.2 else 0.5])
        picked = [None if rng.random() < nulls else rng.choice(pool) for _ in range(rows)]
        columns[name] = pa.array(picked, rng.choice(types))
    return pa.table(columns)


def literal(rng, kind):
    """A literal of a kind, as text that both engines read alike."""
    value = rng.choice(KINDS[kind][1])
    if kind == "integer" or kind == "decimal":
        return str(value)
    if kind == "float":
        text = {"nan": "nan", "inf": "inf", "-inf": "-inf"}.get(str(value))
        return f"CAST('{text}' AS DOUBLE)" if text else f"CAST({value} AS DOUBLE)"
    if kind == "text":
        return f"'{value}'"
    if kind == "day":
        return f"DATE '{value}'"
    if kind == "moment":
        return f"TIMESTAMP '{value}'"
    return str(value).upper()


class Query:
    """A random statement, its answer's order left open."""

    def __init__(self, rng: random.Random):
        self.rng = rng
        self.aliases = rng.sample(["x", "y", "z"], rng.choice([1, 2, 2, 3]))

    def column(self, kind=None, aliases=None):
        names = [name for name, of in NAMES.items() if kind in (None, of)]
        return f"{self.rng.choice(aliases or self.aliases)}.{self.rng.choice(names)}"

    def kind(self):
        return self.rng.choice(list(KINDS))

    def comparison(self, aliases=None):
        rng, kind = self.rng, self.kind()
        left = self.column(kind, aliases)
        if kind == "truth":
            return rng.choice([left, f"NOT {left}", f"{left} IS NULL", f"{left} IS NOT TRUE"])
        form = rng.randrange(12)
        if form < 4:
            return f"{left} {rng.choice(['=', '<>', '<', '<=', '>', '>='])} {literal(rng, kind)}"
        if form < 6:
            # Several lists of one operand are merged by planners.
            lists = []
            for _ in range(rng.choice([1, 1, 2])):
                values = [literal(rng, kind) for _ in range(rng.randint(1, 6))]
                values += rng.choice([[], [], ["NULL"], [self.column(kind, aliases)]])
                lists.append(f"{left} {rng.choice(['', 'NOT '])}IN ({', '.join(values)})")
            return f"({rng.choice([' AND ', ' OR ']).join(lists)})"
        if form == 6:
            return f"{left} {rng.choice(['', 'NOT '])}BETWEEN {literal(rng, kind)} AND {literal(rng, kind)}"
        if form == 7:
            return f"{left} IS {rng.choice(['', 'NOT '])}NULL"
        if form == 8:
            return f"{left} IS {rng.choice(['', 'NOT '])}DISTINCT FROM {self.column(kind, aliases)}"
        if form == 9 and kind in ("day", "moment"):
            other = "moment" if kind == "day" else "day"
            right = rng.choice([literal(rng, other), self.column(other, aliases)])
            return f"{left} {rng.choice(['=', '<', '>='])} {right}"
        if form == 9 and kind in ("integer", "float", "decimal"):
            other = rng.choice(["integer", "decimal"] if kind != "float" else ["integer"])
            right = rng.choice([literal(rng, other), self.column(other, aliases)])
            return f"{left} {rng.choice(['=', '<', '>='])} {right}"
        if form == 9 and kind == "text":
            pattern = rng.choice(["%", "", "a%", "%b", "_", "%7%", "é"])
            return f"{left} {rng.choice(['', 'NOT '])}LIKE '{pattern}'"
        if form == 10 and kind in ("integer", "float", "text", "day"):
            low = literal(rng, kind)
            return f"coalesce({left}, {low}) {rng.choice(['=', '<', '>'])} {literal(rng, kind)}"
        return f"{left} {rng.choice(['=', '<', '>=', '<>'])} {self.column(kind, aliases)}"

    def condition(self, depth=2, aliases=None):
        rng = self.rng
        if depth == 0 or rng.random() < 0.4:
            return self.comparison(aliases)
        if rng.random() < 0.15:
            return f"NOT ({self.condition(depth - 1, aliases)})"
        operator = rng.choice([" AND ", " OR "])
        return "(" + operator.join(self.condition(depth - 1, aliases) for _ in range(2)) + ")"

    def subquery(self):
        rng, kind = self.rng, self.rng.choice(["integer", "float", "decimal", "text", "day"])
        left, inner = self.column(kind), self.column(kind, ["q"])
        where = rng.choice(["", f" WHERE {self.condition(1, ['q'])}"])
        form = rng.randrange(4)
        if form == 0:
            return f"{left} IN (SELECT {inner} FROM {rng.choice('abc')} q{where})"
        if form == 1:
            return f"{left} NOT IN (SELECT {inner} FROM {rng.choice('abc')} q{where})"
        if form == 2:
            return self.truth()
        joined = where.replace("WHERE", "AND") if where else ""
        exists = rng.choice(["EXISTS", "NOT EXISTS"])
        return f"{exists} (SELECT 1 FROM {rng.choice('abc')} q WHERE {inner} = {left}{joined})"

    def related(self):
        """A source of rows named `q`, and conditions that may name columns of the outer query."""
        rng = self.rng
        text, where = f"{rng.choice('abc')} q", []
        if rng.random() < 0.2:
            kind = rng.choice(["integer", "text", "day"])
            kept = rng.choice(["JOIN", "LEFT JOIN"])
            text += f" {kept} {rng.choice('abc')} r ON {self.column(kind, ['q'])} = {self.column(kind, ['r'])}"
        for _ in range(rng.choice([0, 1, 1, 1, 2])):
            kind = self.kind()
            compared = rng.choice(["=", "=", "=", "<", ">=", "<>", "IS NOT DISTINCT FROM"])
            where.append(f"{self.column(kind, ['q'])} {compared} {self.column(kind)}")
        if rng.random() < 0.4:
            where.append(self.condition(1, ["q"]))
        if rng.random() < 0.1:
            where.append(self.comparison())
        if rng.random() < 0.2:
            nested = rng.choice(["EXISTS", "NOT EXISTS"])
            kind = rng.choice(["integer", "text"])
            outer = self.column(kind, ["q", *self.aliases])
            where.append(f"{nested} (SELECT 1 FROM {rng.choice('abc')} p WHERE {self.column(kind, ['p'])} = {outer})")
        return text + (f" WHERE {' AND '.join(where)}" if where else "")

    def truth(self):
        """A subquery that is true, false or unknown."""
        rng, kind = self.rng, self.rng.choice(["integer", "integer", "float", "decimal", "text", "day", "moment"])
        left = rng.choice([self.column(kind), self.column(kind), literal(rng, kind), "NULL"])
        form = rng.randrange(8)
        if form < 2:
            chosen = rng.choice(["1", "q.id", "count(*)"])
            having = rng.choice(["", f" GROUP BY q.k HAVING count(*) > {rng.randint(0, 2)}"])
            if having:
                chosen = "q.k"
            rest = rng.choice(["", "", f" LIMIT {rng.randint(0, 2)}", f" OFFSET {rng.randint(0, 2)}"])
            return f"{rng.choice(['EXISTS', 'NOT EXISTS'])} (SELECT {chosen} FROM {self.related()}{having}{rest})"
        chosen = self.column(kind, ["q"])
        shape = rng.randrange(6)
        if shape == 0:
            chosen = f"DISTINCT {chosen}"
        rest = ""
        if shape == 1 and kind != "moment":
            chosen = f"{rng.choice(['min', 'max'])}({chosen})"
        elif shape == 2:
            rest = f" ORDER BY q.id LIMIT {rng.randint(0, 3)}"
        if "JOIN" in (related := self.related()) and rest:
            rest = ""
        listed = f"(SELECT {chosen} FROM {related}{rest})"
        if form < 6:
            return f"{left} {rng.choice(['', 'NOT '])}IN {listed}"
        compared = rng.choice(["=", "<>", "<", ">="])
        return f"{left} {compared} {rng.choice(['ANY', 'ALL'])} {listed}"

    def scalar(self):
        """A subquery with one value, and the value's kind."""
        rng, form = self.rng, self.rng.randrange(6)
        if form < 2:
            return f"(SELECT count({rng.choice(['*', self.column(None, ['q'])])}) FROM {self.related()})", "integer"
        kind = rng.choice(["integer", "decimal", "day", "text", "float"])
        column = self.column(kind, ["q"])
        if form < 4:
            having = rng.choice(["", "", f" HAVING count(*) {rng.choice(['>', '<', '='])} {rng.randint(0, 2)}"])
            return f"(SELECT {rng.choice(['min', 'max'])}({column}) FROM {self.related()}{having})", kind
        related = self.related()
        ids = "q.id, r.id" if "JOIN" in related else "q.id"
        first = rng.choice(["", f"{self.column(None, ['q'])} {rng.choice(['ASC', 'DESC'])} NULLS LAST, "])
        offset = rng.choice(["", "", " OFFSET 1"])
        return f"(SELECT {column} FROM {related} ORDER BY {first}{ids} LIMIT 1{offset})", kind

    def subqueries(self, text, has_where):
        """Subqueries in each clause."""
        rng, word = self.rng, "AND" if has_where else "WHERE"
        ids = [f"{alias}.id" for alias in self.aliases]
        chosen = ", ".join(f"{c} AS c{at}" for at, c in enumerate(ids))
        truth = rng.choice([
            self.truth(), self.truth(), f"NOT ({self.truth()})", f"({self.truth()}) IS NULL",
            f"(({self.truth()}) OR {self.comparison()})",
        ])
        value, kind = self.scalar()
        form = rng.randrange(9)
        if form == 0:
            return f"SELECT {chosen}, {truth} AS w{text}"
        if form == 1:
            return f"SELECT {chosen}, {value} AS v{text}"
        if form == 2:
            return f"SELECT {chosen}, CASE WHEN {truth} THEN 'y' WHEN {self.truth()} THEN 'z' ELSE 'n' END AS w{text}"
        if form == 3:
            return f"SELECT {truth} AS w, count(*) AS n{text} GROUP BY 1"
        if form == 4:
            counted = rng.choice([f"count(*) FILTER (WHERE {truth})", f"sum(CASE WHEN {truth} THEN 1 ELSE 0 END)",
                                  f"count({value})", f"max({value})"])
            return f"SELECT {counted} AS n{text}"
        if form == 5:
            return f"SELECT {chosen}{text} ORDER BY {rng.choice([truth, value])} NULLS FIRST, {', '.join(ids)} LIMIT 5"
        if form == 6:
            key = self.column()
            listed = f"(SELECT k FROM {rng.choice('abc')} q)"
            having = rng.choice([f"count(*) = ANY {listed}", f"count(*) NOT IN {listed}", f"count(*) < ALL {listed}"])
            return f"SELECT {key} AS k, count(*) AS n{text} GROUP BY {key} HAVING {having}"
        if form == 7:
            return f"SELECT {chosen}{text} {word} {truth}"
        compared = f"coalesce({value}, {literal(rng, kind)}) {rng.choice(['=', '<', '>='])} {literal(rng, kind)}"
        return f"SELECT {chosen}{text} {word} {compared}"

    def source(self):
        rng = self.rng
        text = f"{rng.choice('abc')} {self.aliases[0]}"
        for at, alias in enumerate(self.aliases[1:], 1):
            kind = rng.choice(["integer", "integer", "float", "decimal", "text", "day", "moment"])
            join = rng.choice(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
            on = f"{self.column(kind, self.aliases[:at])} = {self.column(kind, [alias])}"
            if join != "FULL JOIN" and rng.random() < 0.25:
                on += f" AND {self.comparison(self.aliases[: at + 1])}"
            if rng.random() < 0.05:
                kind, side = rng.choice(["integer", "text"]), rng.choice(self.aliases[: at + 1])
                inner = f"SELECT 1 FROM {rng.choice('abc')} q WHERE {self.column(kind, ['q'])}"
                on += f" AND EXISTS ({inner} = {self.column(kind, [side])})"
            text += f" {join} {rng.choice('abc')} {alias} ON {on}"
        return text

    def sql(self):
        rng = self.rng
        where = []
        if rng.random() < 0.7:
            where.append(self.condition())
        if rng.random() < 0.2:
            where.append(self.subquery())
        text = f" FROM {self.source()}" + (f" WHERE {' AND '.join(where)}" if where else "")
        form = rng.randrange(7)
        if form == 6:
            return self.subqueries(text, bool(where))
        if form == 0:
            columns = [f"{alias}.id" for alias in self.aliases] + [self.column() for _ in range(rng.randint(0, 2))]
            return "SELECT " + ", ".join(f"{c} AS c{at}" for at, c in enumerate(columns)) + text
        if form == 4:
            return self.first_rows(text)
        if form == 5:
            return self.window(text)
        if form == 1:
            column = self.column()
            return f"SELECT DISTINCT {column} AS c0{text}"
        aggregates = [self.aggregate() for _ in range(rng.randint(1, 3))]
        if form == 2:
            return "SELECT " + ", ".join(f"{a} AS c{at}" for at, a in enumerate(aggregates)) + text
        keys = [self.column() for _ in range(rng.randint(1, 2))]
        chosen = ", ".join(f"{c} AS c{at}" for at, c in enumerate(keys + aggregates))
        having = rng.choice(["", "", f" HAVING count(*) > {rng.randint(0, 3)}"])
        return f"SELECT {chosen}{text} GROUP BY {', '.join(keys)}{having}"

    def first_rows(self, text):
        """The first rows of an order that decides each row's place."""
        rng = self.rng
        ids = [f"{alias}.id" for alias in self.aliases]
        keys = [self.column() for _ in range(rng.randint(0, 2))]
        ways = [f"{way} NULLS {nulls}" for way in ("ASC", "DESC") for nulls in ("FIRST", "LAST")]
        order = ", ".join(f"{key} {rng.choice(ways)}" for key in keys + ids)
        chosen = ", ".join(f"{c} AS c{at}" for at, c in enumerate(ids + keys))
        offset = rng.choice(["", "", f" OFFSET {rng.randint(1, 9)}"])
        return f"SELECT {chosen}{text} ORDER BY {order} LIMIT {rng.randint(1, 12)}{offset}"

    def window(self, text):
        """A window function beside each row."""
        rng = self.rng
        ids = [f"{alias}.id" for alias in self.aliases]
        order = ", ".join(f"{key} NULLS FIRST" for key in [self.column()] * rng.randint(0, 1) + ids)
        function = rng.choice([
            "row_number()",
            f"count({self.column()})",
            f"sum({self.column('integer')})",
            f"{rng.choice(['min', 'max'])}({self.column(rng.choice(['integer', 'decimal', 'day', 'text']))})",
            f"{rng.choice(['lag', 'lead'])}({self.column()}, {rng.randint(1, 3)})",
            f"{rng.choice(['first_value', 'last_value'])}({self.column()})",
        ])
        frame = ""
        if function[:3] in ("cou", "sum", "min", "max", "fir", "las"):
            frame = rng.choice(["", f" ROWS BETWEEN {rng.randint(0, 3)} PRECEDING AND {rng.randint(0, 2)} FOLLOWING"])
        partition = rng.choice(["", f"PARTITION BY {self.column()} "])
        chosen = ", ".join(f"{c} AS c{at}" for at, c in enumerate(ids))
        return f"SELECT {chosen}, {function} OVER ({partition}ORDER BY {order}{frame}) AS w{text}"

    def aggregate(self):
        rng = self.rng
        form = rng.randrange(6)
        if form == 0:
            return "count(*)"
        if form == 1:
            return f"count({rng.choice(['', 'DISTINCT '])}{self.column()})"
        if form == 2:
            kind = rng.choice([kind for kind in KINDS if kind != "truth"])
            return f"{rng.choice(['min', 'max'])}({self.column(kind)})"
        if form == 3:
            return f"sum({self.column(rng.choice(['integer', 'decimal']))})"
        if form == 4:
            return f"avg(CAST({self.column('integer')} AS DOUBLE))"
        return f"count(*) FILTER (WHERE {self.comparison()})"
