"""Rows as Python values, and rows of a relation as a table of text and of HTML."""

from __future__ import annotations

import html as escaping
import shutil
import unicodedata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow

MAX_ROWS = 20
MAX_CELL_COLUMNS = 40
MIN_CELL_COLUMNS = 8
DEFAULT_COLUMNS = 120

_NUMBERS = ("Int", "UInt", "Float", "Decimal")


def rows_of(table: pyarrow.Table | pyarrow.RecordBatch) -> list[tuple[Any, ...]]:
    """The rows of a table as tuples of Python values."""
    import pyarrow

    columns = []
    for column in table.columns:
        if pyarrow.types.is_timestamp(column.type) and column.type.unit == "ns":
            # Python's datetime has microseconds; pyarrow would return objects of pandas.
            column = column.cast(pyarrow.timestamp("us", column.type.tz), safe=False)
        columns.append(column.to_pylist())
    return list(zip(*columns, strict=True)) if columns else [()] * table.num_rows


def text(
    names: list[str],
    types: list[str],
    rows: list[tuple[Any, ...]],
    more: bool,
    *,
    max_columns: int | None = None,
    max_cell_columns: int = MAX_CELL_COLUMNS,
) -> str:
    """A table with names and types above the rows, as the program draws it.

    max_columns: those of the terminal. Columns in the middle are left out if the table is wider.
    """
    if not names:
        return _count(rows, more, 0, 0)
    width = max_columns or shutil.get_terminal_size((DEFAULT_COLUMNS, 24)).columns
    cells = [list(line) for line in zip(*([_cell(value) for value in row] for row in rows))] or [[] for _ in names]
    heads = [(_visible(name), kind) for name, kind in zip(names, types)]
    longest = max_cell_columns
    while True:
        columns = [
            [_cut(cell, longest) for cell in (*head, *column)] for head, column in zip(heads, cells)
        ]
        widths = [max(map(_columns, column)) for column in columns]
        if sum(widths) + 3 * len(widths) + 1 <= width or longest <= MIN_CELL_COLUMNS:
            break
        longest = max(MIN_CELL_COLUMNS, longest * 3 // 4)
    shown = _shown(widths, width)
    left_out = (["…"] * (len(rows) + 2), 1, "")
    parts = [left_out if at is None else (columns[at], widths[at], types[at]) for at in shown]
    lines = [_rule("┌┬┐", parts)]
    for number in range(len(rows) + 2):
        row = [_padded(cells[number], wide, number >= 2 and kind.startswith(_NUMBERS)) for cells, wide, kind in parts]
        lines.append("│ " + " │ ".join(row) + " │")
        if number == 1:
            lines.append(_rule("├┼┤", parts))
    lines += [_rule("└┴┘", parts), _count(rows, more, len(names), len(shown) - (None in shown))]
    return "\n".join(lines)


def html(names: list[str], types: list[str], rows: list[tuple[Any, ...]], more: bool) -> str:
    """The same as an HTML table."""
    heads = "".join(
        f"<th>{escaping.escape(name)}<br><small>{escaping.escape(data_type)}</small></th>"
        for name, data_type in zip(names, types)
    )
    body = "".join(
        "<tr>" + "".join(f"<td>{escaping.escape(_cut(_cell(value), MAX_CELL_COLUMNS))}</td>" for value in row) + "</tr>"
        for row in rows
    )
    count = escaping.escape(_count(rows, more, len(names), len(names)))
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table><small>{count}</small>"


def _count(rows: list[tuple[Any, ...]], more: bool, columns: int, shown: int) -> str:
    count = f"{len(rows)} row" + ("" if len(rows) == 1 else "s")
    left_out = f", {shown} of {columns} columns" if shown < columns else ""
    return f"(first {count}{left_out}; arrow(), df() or pl() has all)" if more else f"({count}{left_out})"


def _shown(widths: list[int], width: int) -> list[int | None]:
    """The columns that fit; None stands for those in the middle that do not."""
    if sum(widths) + 3 * len(widths) + 1 <= width:
        return list(range(len(widths)))
    first: list[int | None] = []
    last: list[int | None] = []
    left = width - 5  # borders, and the column that stands for the others
    for number in range(len(widths)):
        at = number // 2 if number % 2 == 0 else len(widths) - 1 - number // 2
        left -= widths[at] + 3
        if left < 0 and number > 0:
            break
        (first if number % 2 == 0 else last).append(at)
    return [*first, None, *reversed(last)]


def _rule(corners: str, parts: list[tuple[list[str], int, str]]) -> str:
    return corners[0] + corners[1].join("─" * (width + 2) for _, width, _ in parts) + corners[2]


def _cell(value: Any) -> str:
    return "NULL" if value is None else _visible(str(value))


def _visible(cell: str) -> str:
    """The text on one line, without characters that move the cursor."""
    return "".join(letter if unicodedata.category(letter)[0] != "C" else " " for letter in cell)


def _columns(cell: str) -> int:
    """The columns of a terminal that a text takes."""
    if cell.isascii():
        return len(cell)
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in cell)
    return len(cell) + wide - sum(unicodedata.combining(letter) > 0 for letter in cell)


def _cut(cell: str, columns: int) -> str:
    if _columns(cell) <= columns:
        return cell
    cut = cell[: columns - 1]
    while _columns(cut) > columns - 1:
        cut = cut[:-1]
    return cut + "…"


def _padded(cell: str, columns: int, right: bool) -> str:
    space = " " * (columns - _columns(cell))
    return space + cell if right else cell + space
