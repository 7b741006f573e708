"""Rows as Python values, and the first rows of a relation as text and as HTML."""

from __future__ import annotations

import html as escaping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow

MAX_ROWS = 20
MAX_WIDTH_CHARACTERS = 40


def rows_of(table: pyarrow.Table) -> list[tuple[Any, ...]]:
    """The rows of a table as tuples of Python values."""
    import pyarrow

    columns = []
    for column in table.columns:
        if pyarrow.types.is_timestamp(column.type) and column.type.unit == "ns":
            # Python's datetime has microseconds; pyarrow would return objects of pandas.
            column = column.cast(pyarrow.timestamp("us", column.type.tz), safe=False)
        columns.append(column.to_pylist())
    return list(zip(*columns, strict=True)) if columns else [()] * table.num_rows


def _cell(value: Any) -> str:
    if value is None:
        return "NULL"
    text = " ".join(str(value).split()) if isinstance(value, str) else str(value)
    return text if len(text) <= MAX_WIDTH_CHARACTERS else text[: MAX_WIDTH_CHARACTERS - 1] + "…"


def text(names: list[str], types: list[str], rows: list[tuple[Any, ...]], more: bool) -> str:
    """An aligned table with names and types above the rows."""
    lines = [names, types, *([_cell(value) for value in row] for row in rows)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(names))]
    rendered = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines]
    rendered.insert(2, "  ".join("─" * width for width in widths))
    rendered.append(_count(rows, more))
    return "\n".join(rendered)


def html(names: list[str], types: list[str], rows: list[tuple[Any, ...]], more: bool) -> str:
    """The same as an HTML table."""
    heads = "".join(
        f"<th>{escaping.escape(name)}<br><small>{escaping.escape(data_type)}</small></th>"
        for name, data_type in zip(names, types)
    )
    body = "".join(
        "<tr>" + "".join(f"<td>{escaping.escape(_cell(value))}</td>" for value in row) + "</tr>" for row in rows
    )
    count = escaping.escape(_count(rows, more))
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table><small>{count}</small>"


def _count(rows: list[tuple[Any, ...]], more: bool) -> str:
    count = f"{len(rows)} row" + ("" if len(rows) == 1 else "s")
    return f"(first {count}; arrow(), df() or pl() has all)" if more else f"({count})"
