"""Queries: relations out of relations. Each method composes a statement in which the relation is a subquery."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal, cast

from . import _sql
from ._grampus import ProgrammingError
from ._sql import OTHER, PLACE, SELF, Expressions, Path, listed, one_character, quoted

if TYPE_CHECKING:
    from ._connection import Connection
    from ._grampus import Query
    from ._relation import Relation

How = Literal["inner", "left", "right", "full", "outer", "semi", "anti", "cross"]

_JOINS = {
    "inner": "INNER JOIN",
    "left": "LEFT JOIN",
    "right": "RIGHT JOIN",
    "full": "FULL JOIN",
    "outer": "FULL JOIN",
    "semi": "LEFT SEMI JOIN",
    "anti": "LEFT ANTI JOIN",
    "cross": "CROSS JOIN",
}

# The levels of Parquet's codecs that have one.
_LEVELS = {"zstd": 3, "gzip": 6, "brotli": 1}


class Queries:
    """The methods of a relation that return other relations. Nothing is read but metadata."""

    def __init__(self, connection: Connection, query: Query, alias: str = "relation") -> None:
        self._connection = connection
        self._query = query
        self._alias = alias

    @property
    def alias(self) -> str:
        """The name by which expressions may qualify the columns."""
        return self._alias

    def set_alias(self, alias: str) -> Relation:
        """The same query under another name: `a.set_alias("a").join(b.set_alias("b"), "a.x = b.y")`."""
        from ._relation import Relation

        return Relation(self._connection, self._query, alias)

    # ------------------------------------------------------------------------------------ rows and columns

    def filter(self, condition: str) -> Relation:
        """The rows for which a SQL condition is true.

        Raises Error if the condition is no SQL, or names a column that is not there.
        """
        return self._over(f"SELECT * FROM {self._source} WHERE (\n{condition}\n)")

    def select(self, *expressions: str) -> Relation:
        """SQL expressions as columns: `relation.select("a", "b + 1 AS c", "* EXCLUDE (d)")`."""
        return self._over(f"SELECT {listed(expressions, 'select')} FROM {self._source}")

    project = select

    def with_columns(self, **expressions: str) -> Relation:
        """The columns, and new ones: `relation.with_columns(twice="a * 2")`. A column of that name is replaced."""
        names = {name: f"(\n{expression}\n) AS {quoted(name)}" for name, expression in expressions.items()}
        kept = [names.pop(name, quoted(name)) for name in self._names]
        return self._over(f"SELECT {listed([*kept, *names.values()], 'with_columns')} FROM {self._source}")

    def drop(self, *columns: str) -> Relation:
        """The other columns, in their order.

        Raises Error if one of the columns is not there.
        """
        self._check(columns)
        return self._named(self._query.project([name for name in self._names if name not in columns]))

    def rename(self, **columns: str) -> Relation:
        """The columns under other names: `relation.rename(old="new")`.

        Raises Error if one of the columns is not there.
        """
        self._check(columns)
        names = [f"{quoted(name)} AS {quoted(columns.get(name, name))}" for name in self._names]
        return self._over(f"SELECT {', '.join(names)} FROM {self._source}")

    def limit(self, rows: int, offset: int = 0) -> Relation:
        """At most `rows` rows, after `offset` rows. Without an order, any of them."""
        if rows < 0 or offset < 0:
            raise ProgrammingError("limit takes numbers of rows, which are not negative")
        return self._named(self._query.limit(rows, offset))

    def head(self, rows: int = 5) -> Relation:
        """The first rows. Without an order, any of them."""
        return self.limit(rows)

    def order(self, *expressions: str) -> Relation:
        """The rows in an order: `relation.order("a DESC", "b")`. `filter`, `select` and `limit` keep it."""
        return self._over(f"SELECT * FROM {self._source} ORDER BY {listed(expressions, 'order')}")

    sort = order

    def distinct(self, on: Expressions | None = None) -> Relation:
        """Each row once, or one row for each value of the expressions `on`."""
        condition = "" if on is None else f" ON (\n{listed(on, 'distinct')})"
        return self._over(f"SELECT DISTINCT{condition} * FROM {self._source}")

    # ----------------------------------------------------------------------------------------- aggregates

    def aggregate(self, expressions: Expressions, group_by: Expressions | None = None) -> Relation:
        """Aggregates: `relation.aggregate("kind, sum(value) AS total", "kind")`.

        Without `group_by`, the expressions without an aggregate are the groups.
        """
        groups = "ALL" if group_by is None or group_by == "" else listed(group_by, "group_by")
        selected = listed(expressions, "aggregate")
        return self._over(f"SELECT {selected} FROM {self._source} GROUP BY {groups}")

    def group_by(self, *columns: str) -> Grouped:
        """Groups, for their aggregates: `relation.group_by("kind").agg("sum(value) AS total")`."""
        return Grouped(self, columns)

    def count(self, expression: str = "*", groups: Expressions | None = None) -> Relation:
        """The number of rows, or of values that are not NULL. `len(relation)` is the number itself."""
        return self._aggregate("count", expression, groups)

    def sum(self, expression: str, groups: Expressions | None = None) -> Relation:
        """The sum, of each group."""
        return self._aggregate("sum", expression, groups)

    def min(self, expression: str, groups: Expressions | None = None) -> Relation:
        """The least value, of each group."""
        return self._aggregate("min", expression, groups)

    def max(self, expression: str, groups: Expressions | None = None) -> Relation:
        """The greatest value, of each group."""
        return self._aggregate("max", expression, groups)

    def avg(self, expression: str, groups: Expressions | None = None) -> Relation:
        """The mean, of each group."""
        return self._aggregate("avg", expression, groups)

    mean = avg

    def median(self, expression: str, groups: Expressions | None = None) -> Relation:
        """The median, of each group."""
        return self._aggregate("median", expression, groups)

    def describe(self) -> Relation:
        """Figures of each column: least and greatest value, mean, quartiles, share of NULLs."""
        return self._over(f"SUMMARIZE SELECT * FROM {quoted(SELF)}")

    summarize = describe

    # ------------------------------------------------------------------------------------ several relations

    def join(
        self,
        other: Any,
        on: str | Iterable[str] | None = None,
        how: How = "inner",
        *,
        condition: str | None = None,
    ) -> Relation:
        """Join with a relation, or with a table of pyarrow, pandas, polars or another Arrow library.

        on: a column that both have, or several of them. The result has them once. A text that is no such column is a
            condition.
        how: "inner", "left", "right", "full" (or "outer"), "semi", "anti" or "cross".
        condition: a SQL condition. It qualifies columns by the relations' aliases, which `set_alias` gives. Without
            one, they are `relation` and `other`.

        A column of the other relation whose name is taken is called `name_1`.
        """
        if how not in _JOINS:
            raise ProgrammingError(f"how is one of {', '.join(_JOINS)}, not {how!r}")
        right = self._relation(other)
        one, two = self._alias, "other" if right._alias == self._alias else right._alias
        columns: list[str] = []
        if isinstance(on, str):
            if on in self._names and on in right._names:
                columns = [on]
            elif condition is None:
                condition = on
        elif on is not None:
            columns = list(on)
        if (how == "cross") != (not columns and condition is None):
            raise ProgrammingError("a cross join has neither on nor condition, and every other join has one")
        self._check(columns)
        right._check(columns)
        equal = [f"{quoted(one)}.{quoted(name)} = {quoted(two)}.{quoted(name)}" for name in columns]
        conditions = equal + ([f"(\n{condition}\n)"] if condition is not None else [])
        selected = [self._key(one, two, name, how) if name in columns else f"{quoted(one)}.{quoted(name)}"
                    for name in self._names]
        if how not in ("semi", "anti"):
            taken = set(self._names)
            for name in right._names:
                if name not in columns:
                    selected.append(f"{quoted(two)}.{quoted(name)} AS {quoted(_free(name, taken))}")
        text = f"SELECT {', '.join(selected)} FROM {quoted(SELF)} AS {quoted(one)} {_JOINS[how]} {quoted(OTHER)} AS "
        text += quoted(two) + (f" ON {' AND '.join(conditions)}" if conditions else "")
        return self._over(text, right)

    def cross(self, other: Any) -> Relation:
        """Each row with each row of the other relation."""
        return self.join(other, how="cross")

    def union(self, other: Any) -> Relation:
        """The rows of both, by the places of their columns. Rows that are alike stay: `distinct` removes them."""
        return self._both("UNION ALL", other)

    union_all = union

    def union_by_name(self, other: Any) -> Relation:
        """The rows of both, by the names of their columns. A column that one of them lacks is NULL there."""
        return self._both("UNION ALL BY NAME", other)

    def except_(self, other: Any) -> Relation:
        """The rows without those of the other relation. Each of those removes one that is alike."""
        return self._as_often("EXCEPT", other)

    def intersect(self, other: Any) -> Relation:
        """The rows that both have, as often as both have them."""
        return self._as_often("INTERSECT", other)

    # ---------------------------------------------------------------------------------- tables of the session

    def create_view(self, name: str, replace: bool = True) -> Relation:
        """Register the query as a view under an exact name, and return the view.

        Raises Error if there is a table of that name and `replace` is false.
        """
        if not replace and name in self._connection.tables():
            raise ProgrammingError(f"there is a table {name}: create_view(…, replace=True) replaces it")
        self._connection.register(name, cast("Relation", self))
        return self._connection.table(name)

    to_view = create_view

    def to_table(self, name: str) -> Relation:
        """Execute the query into a table in memory, under an exact name, and return the table.

        Raises Error if there is a table of that name.
        """
        self._over(f"CREATE TABLE {quoted(name)} AS SELECT * FROM {quoted(SELF)}")
        return self._connection.table(name)

    create = to_table

    def insert_into(self, name: str) -> int:
        """Insert the rows into a table of an exact name, by the places of columns. Returns their number."""
        return self._changed(f"INSERT INTO {quoted(name)} SELECT * FROM {quoted(SELF)}")

    # ------------------------------------------------------------------------------------------------ files

    def write_parquet(
        self,
        path: Path,
        *,
        compression: str | None = None,
        compression_level: int | None = None,
        row_group_size: int | None = None,
        partition_by: Expressions | None = None,
    ) -> int:
        """Write a Parquet file, or a folder of partitions. Returns the number of rows.

        compression: "zstd", the default, "snappy", "gzip", "lz4_raw", "brotli" or "uncompressed".
        """
        if compression_level is None and compression is not None:
            compression_level = _LEVELS.get(compression.lower())
        options = {
            "compression": compression,
            "compression_level": compression_level,
            "row_group_size": row_group_size,
            "partition_by": partition_by,
        }
        return self._changed(_sql.copy(SELF, path, "parquet", options))

    to_parquet = write_parquet

    def write_csv(
        self,
        path: Path,
        *,
        header: bool | None = None,
        sep: str | None = None,
        quotechar: str | None = None,
        escapechar: str | None = None,
        na_rep: str | None = None,
        date_format: str | None = None,
        timestamp_format: str | None = None,
        compression: str | None = None,
        partition_by: Expressions | None = None,
    ) -> int:
        """Write a CSV file with a heading, or a folder of partitions. Returns the number of rows.

        A path that ends in `.gz`, `.bz2`, `.xz` or `.zst` is compressed.
        """
        options = {
            "header": header,
            "delimiter": one_character("sep", sep),
            "quote": one_character("quotechar", quotechar),
            "escape": one_character("escapechar", escapechar),
            "nullstr": na_rep,
            "dateformat": date_format,
            "timestampformat": timestamp_format,
            "compression": compression,
            "partition_by": partition_by,
        }
        return self._changed(_sql.copy(SELF, path, "csv", options))

    to_csv = write_csv

    def write_json(
        self, path: Path, *, compression: str | None = None, partition_by: Expressions | None = None
    ) -> int:
        """Write one JSON object per line. Returns the number of rows."""
        options = {"compression": compression, "partition_by": partition_by}
        return self._changed(_sql.copy(SELF, path, "json", options))

    to_json = write_json

    def write_orc(
        self,
        path: Path,
        *,
        compression: str | None = None,
        chunk_size: int | None = None,
        number_chunk_size: int | None = None,
        row_group_rows: int | None = None,
        stripe_rows: int | None = None,
        bloom_filter_columns: str | None = None,
        partition_by: Expressions | None = None,
    ) -> int:
        """Write an ORC file, local or in a store, or a folder of partitions. Returns the number of rows.

        compression: "none", "zlib", "snappy", "lz4" or "zstd". `grampus.write_orc` has more options.
        """
        options = {
            "compression": compression,
            "chunk_size": chunk_size,
            "number_chunk_size": number_chunk_size,
            "row_group_rows": row_group_rows,
            "stripe_rows": stripe_rows,
            "bloom_filter_columns": bloom_filter_columns,
            "partition_by": partition_by,
        }
        return self._changed(_sql.copy(SELF, path, "orc", options))

    to_orc = write_orc

    # ------------------------------------------------------------------------------------------ composition

    @property
    def _names(self) -> list[str]:
        return [name for name, _ in self._query.columns()]

    @property
    def _source(self) -> str:
        return f"{quoted(SELF)} AS {quoted(self._alias)}"

    def _over(self, text: str, other: Queries | None = None) -> Relation:
        """The query of a statement that names this relation, and the other one."""
        relations = {SELF: self._query}
        if other is not None:
            relations[OTHER] = other._query
        return self._named(self._connection._bind(text, None, relations))

    def _named(self, query: Query) -> Relation:
        from ._relation import Relation

        return Relation(self._connection, query, self._alias)

    def _relation(self, other: Any) -> Queries:
        """A relation of this connection of a relation, or of a table of another library."""
        if isinstance(other, Queries) and other._connection is self._connection:
            return other
        return self._connection.from_arrow(other)

    def _both(self, operator: str, other: Any) -> Relation:
        text = f"SELECT * FROM {quoted(SELF)} {operator} SELECT * FROM {quoted(OTHER)}"
        return self._over(text, self._relation(other))

    def _as_often(self, operator: str, other: Any) -> Relation:
        """A set operation over rows that have their places among those that are alike.

        DataFusion's EXCEPT ALL and INTERSECT ALL do not count rows that are alike.
        """
        right = self._relation(other)
        sides = []
        for name, columns in ((SELF, self._names), (OTHER, right._names)):
            alike = ", ".join(map(quoted, columns))
            place = f"row_number() OVER (PARTITION BY {alike}) AS {quoted(PLACE)}"
            sides.append(f"SELECT *, {place} FROM {quoted(name)}")
        text = f"SELECT * EXCLUDE ({quoted(PLACE)}) FROM ({sides[0]} {operator} {sides[1]}) AS {quoted(self._alias)}"
        return self._over(text, right)

    def _aggregate(self, function: str, expression: str, groups: Expressions | None) -> Relation:
        if groups is None or groups == "":
            return self._over(f"SELECT {function}({expression}\n) FROM {self._source}")
        keys = listed(groups, "groups")
        return self._over(f"SELECT {keys}, {function}({expression}\n) FROM {self._source} GROUP BY {keys}")

    def _changed(self, text: str) -> int:
        """The number of rows that a statement wrote."""
        return int(self._over(text).fetchall()[0][0])

    def _check(self, columns: Iterable[str]) -> None:
        names = self._names
        for column in columns:
            if column not in names:
                raise ProgrammingError(f"no column {column}: there are {', '.join(names)}")

    @staticmethod
    def _key(one: str, two: str, name: str, how: str) -> str:
        """A column of both relations, of which the result has one."""
        left, right = f"{quoted(one)}.{quoted(name)}", f"{quoted(two)}.{quoted(name)}"
        if how == "right":
            return f"{right} AS {quoted(name)}"
        if how in ("full", "outer"):
            return f"coalesce({left}, {right}) AS {quoted(name)}"
        return left


class Grouped:
    """The groups of a relation."""

    def __init__(self, relation: Queries, columns: tuple[str, ...]) -> None:
        self._relation = relation
        self._columns = columns

    def agg(self, *aggregates: str) -> Relation:
        """The groups with their aggregates: `relation.group_by("a").agg("sum(b) AS s", "count(*) AS n")`."""
        return self._relation.aggregate([*self._columns, *aggregates], self._columns)


def _free(name: str, taken: set[str]) -> str:
    """The name, or with a number the first one that is free. It is taken then."""
    found, number = name, 0
    while found in taken:
        number += 1
        found = f"{name}_{number}"
    taken.add(found)
    return found
