"""Lazy frames of polars over relations: columns, row numbers and conditions go into the query."""

from __future__ import annotations

import datetime as dt
import json
import math
from typing import TYPE_CHECKING, Any

from ._relation import Relation

if TYPE_CHECKING:
    from collections.abc import Iterator

    import polars

_COMPARISONS = {"Eq": "=", "NotEq": "<>", "Lt": "<", "LtEq": "<=", "Gt": ">", "GtEq": ">="}
_EPOCH = dt.date(1970, 1, 1)


def lazy_frame(relation: Relation) -> polars.LazyFrame:
    """A lazy frame whose scan is the relation."""
    import polars
    from polars.io.plugins import register_io_source

    schema = polars.DataFrame(relation.schema.empty_table()).schema

    def source(
        columns: list[str] | None, predicate: polars.Expr | None, n_rows: int | None, _batch_rows: int | None
    ) -> Iterator[polars.DataFrame]:
        for batch in narrowed(relation, columns, predicate, n_rows).reader():
            frame = polars.DataFrame(batch)
            # The query's condition may be weaker than the predicate, never stronger.
            yield frame if predicate is None else frame.filter(predicate)

    return register_io_source(source, schema=schema)


def narrowed(
    relation: Relation, columns: list[str] | None, predicate: polars.Expr | None, n_rows: int | None
) -> Relation:
    """The relation with what polars needs of it. `n_rows` counts rows before the predicate."""
    if n_rows is not None:
        relation = relation.limit(n_rows)
    if predicate is not None:
        sql = condition(predicate, dict(zip(relation.columns, relation.types)))
        if sql is not None:
            relation = relation.filter(sql)
    if columns:
        relation = Relation(relation._connection, relation._query.project(columns))
    return relation


def condition(predicate: polars.Expr, types: dict[str, str]) -> str | None:
    """A SQL condition that is true for every row of the predicate; None if there is none to give.

    The part of a conjunction that SQL does not have, or has with another meaning, is left out: polars evaluates the
    whole predicate over the rows that come back.
    """
    try:
        tree = json.loads(predicate.meta.serialize(format="json"))
    except Exception:  # polars cannot serialize Python functions
        return None
    return _sql(tree, types)


def _sql(tree: Any, types: dict[str, str]) -> str | None:
    if not isinstance(tree, dict) or len(tree) != 1:
        return None
    ((kind, node),) = tree.items()
    if kind == "BinaryExpr":
        return _binary(node, types)
    if kind != "Function" or not isinstance(node.get("function"), dict):
        return None
    inputs = [_column(one, types) for one in node.get("input", [])]
    name = node["function"].get("Boolean")
    if name == "IsNull" and inputs[0]:
        return f"({inputs[0][0]} IS NULL)"
    if name == "IsNotNull" and inputs[0]:
        return f"({inputs[0][0]} IS NOT NULL)"
    if isinstance(name, dict) and "IsBetween" in name and len(node["input"]) == 3:
        closed = name["IsBetween"].get("closed")
        column, low, high = node["input"]
        lower = {"left": column, "op": "GtEq" if closed in ("Both", "Left") else "Gt", "right": low}
        upper = {"left": column, "op": "LtEq" if closed in ("Both", "Right") else "Lt", "right": high}
        parts = [part for part in (_comparison(lower, types), _comparison(upper, types)) if part]
        return f"({' AND '.join(parts)})" if parts else None
    return None


def _binary(node: dict[str, Any], types: dict[str, str]) -> str | None:
    op = node.get("op")
    if op in ("And", "LogicalAnd"):
        parts = [part for part in (_sql(node["left"], types), _sql(node["right"], types)) if part]
        return f"({' AND '.join(parts)})" if parts else None
    if op in ("Or", "LogicalOr"):
        left, right = _sql(node["left"], types), _sql(node["right"], types)
        return f"({left} OR {right})" if left and right else None
    return _comparison(node, types)


def _comparison(node: dict[str, Any], types: dict[str, str]) -> str | None:
    op = _COMPARISONS.get(node.get("op", ""))
    column, literal = _column(node["left"], types), _literal(node["right"])
    if column is None:  # 3 < a
        column, literal = _column(node["right"], types), _literal(node["left"])
        op = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(op or "", op)
    if op is None or column is None or literal is None:
        return None
    name, data_type = column
    kind, value = literal
    # SQL orders -0.0 before 0.0, and polars takes them for equal.
    if data_type.startswith("Float") and (kind != "number" or value == 0):
        return None
    fits = {
        "number": data_type.startswith(("Int", "UInt", "Float")) and not data_type.startswith("Interval"),
        "text": data_type in ("Utf8", "LargeUtf8", "Utf8View"),
        "date": data_type == "Date32",
        "timestamp": data_type.startswith("Timestamp(") and '"' not in data_type and "Some" not in data_type,
    }
    if not fits[kind]:
        return None
    if kind == "number":
        text = repr(value)
    elif kind == "text":
        text = "'" + value.replace("'", "''") + "'"
    else:
        text = f"{kind.upper()} '{value}'"
    return f"({name} {op} {text})"


def _column(tree: Any, types: dict[str, str]) -> tuple[str, str] | None:
    """The quoted name and the type of a column."""
    name = tree.get("Column") if isinstance(tree, dict) else None
    if not isinstance(name, str) or name not in types:
        return None
    return '"' + name.replace('"', '""') + '"', types[name]


def _literal(tree: Any) -> tuple[str, Any] | None:
    """The kind and the value of a literal that SQL has."""
    literal = tree.get("Literal") if isinstance(tree, dict) else None
    if not isinstance(literal, dict) or len(literal) != 1:
        return None
    ((_, value),) = literal.items()
    if not isinstance(value, dict) or len(value) != 1:
        return None
    ((kind, value),) = value.items()
    if kind == "String" and isinstance(value, str) and "\0" not in value:
        return "text", value
    if kind.startswith(("Int", "UInt")) and type(value) is int and abs(value) < 2**63:
        return "number", value
    if kind.startswith("Float") and isinstance(value, (int, float)) and math.isfinite(value):
        return "number", float(value)
    if kind == "Date" and type(value) is int and abs(value) < 700_000:
        return "date", (_EPOCH + dt.timedelta(days=value)).isoformat()
    if kind == "Datetime" and isinstance(value, list) and len(value) == 3 and value[2] is None:
        scale = {"Milliseconds": 10**3, "Microseconds": 10**6, "Nanoseconds": 10**9}.get(value[1])
        if scale is None:
            return None
        seconds, part = divmod(value[0], scale)
        if abs(seconds) > 9_000_000_000:  # beyond the nanoseconds of SQL's literals
            return None
        moment = dt.datetime(1970, 1, 1) + dt.timedelta(seconds=seconds)
        return "timestamp", f"{moment:%Y-%m-%d %H:%M:%S}.{part * (10**9 // scale):09d}"
    return None
