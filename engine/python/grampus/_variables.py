"""Variables of Python as tables of a statement: a name in FROM that no table has."""

from __future__ import annotations

import re
import sys
import weakref
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import TYPE_CHECKING, Any

from ._grampus import Error, ProgrammingError

if TYPE_CHECKING:
    from ._connection import Connection

_PACKAGE = __name__.partition(".")[0]

class NoTable(ProgrammingError):
    """A variable that is no table."""


# Readers that a statement has read. Nothing is left in them, and they would be empty tables.
_read_before: weakref.WeakSet[Any] = weakref.WeakSet()


class Variables:
    """Returns the variable of a name as a table, or None if there is none.

    The local variables of the function that called the package come first, then the globals of its module. With
    `all_frames`, those of its callers follow.
    """

    def __init__(self, connection: Connection, query: str, all_frames: bool) -> None:
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == _PACKAGE:
            frame = frame.f_back
        self._connection = connection
        self._query = query
        self._frame = frame
        self._all_frames = all_frames
        self._refused: dict[str, ProgrammingError] = {}

    def __call__(self, name: str) -> Any:
        for variables in _scopes(self._frame, self._all_frames):
            spelling = _spelling(variables, name, self._query)
            if spelling is None:
                continue
            try:
                return as_table(self._connection, spelling, variables[spelling])
            except NoTable as refused:
                self._refused[name] = refused
                return None
        return None

    def explained(self, error: Error) -> Error:
        """The error of a statement. If a table is not found, a variable of its name may say why."""
        for name, refused in self._refused.items():
            if f"table '{name}' not found" in str(error):
                return refused
        return error


def _scopes(frame: FrameType | None, all_frames: bool) -> Iterator[Mapping[str, Any]]:
    while frame is not None:
        yield frame.f_locals
        if frame.f_globals is not frame.f_locals:
            yield frame.f_globals
        frame = frame.f_back if all_frames else None


def _spelling(variables: Mapping[str, Any], name: str, query: str) -> str | None:
    """The variable that a statement means by a name, which may have lost its capitals.

    Raises ProgrammingError if several variables may be meant.
    """
    alike = [variable for variable in list(variables) if variable.lower() == name.lower()]
    if name in alike and len(alike) == 1:
        return name
    if name != name.lower():
        return name if name in alike else None  # quoted
    if len(alike) > 1:
        written = [variable for variable in alike if re.search(rf"\b{re.escape(variable)}\b", query)]
        if len(written) != 1:
            raise ProgrammingError(f"{name} is one of the variables {', '.join(sorted(alike))}: rename one of them")
        return written[0]
    return alike[0] if alike else None


def as_table(connection: Connection, name: str, value: Any) -> Any:
    """A query, or an object with an Arrow stream.

    Raises ProgrammingError if the value is no table.
    """
    from ._relation import Relation

    if isinstance(value, Relation):
        return value._query if value._connection is connection else value.arrow()
    module = type(value).__module__.partition(".")[0]
    if module == "polars" and type(value).__name__ == "LazyFrame":
        return value.collect()
    if module == "pyarrow":
        value = _of_pyarrow(name, value)
    kinds = "a table of pyarrow, pandas, polars or another Arrow library, or a relation"
    if not hasattr(value, "__arrow_c_stream__") or isinstance(value, type):
        raise NoTable(
            f"no table named {name}, and the variable {name} is no table: it is of type {type(value).__name__}, not "
            f"{kinds}"
        )
    if type(value).__name__ in ("Series", "ChunkedArray"):
        raise NoTable(f"the variable {name} is a {type(value).__name__}, a column without a table")
    return value


def _of_pyarrow(name: str, value: Any) -> Any:
    """What pyarrow can read, as an object with a stream."""
    import pyarrow

    dataset = sys.modules.get("pyarrow.dataset")
    if dataset is not None and isinstance(value, dataset.Dataset):
        return value.scanner().to_reader()
    if dataset is not None and isinstance(value, dataset.Scanner):
        return value.to_reader()
    if isinstance(value, pyarrow.RecordBatchReader):
        if value in _read_before:
            raise ProgrammingError(
                f"an earlier statement has read the reader {name}: keep its table, {name}.read_all(), in place of it"
            )
        _read_before.add(value)
    return value
