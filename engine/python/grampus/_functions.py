"""Functions of Python in SQL: from the arguments of a batch to a checked array."""

from __future__ import annotations

import atexit
import datetime as dt
import os
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Union

from ._grampus import OperationalError, ProgrammingError

if TYPE_CHECKING:
    import pyarrow

    from ._connection import Connection

Kind = Literal["arrow", "native"]
NullHandling = Literal["default", "special"]
Type = Union["pyarrow.DataType", str, type]

_OF_PYTHON: dict[Any, str] = {
    bool: "BOOLEAN",
    int: "BIGINT",
    float: "DOUBLE",
    str: "VARCHAR",
    bytes: "BYTEA",
    dt.date: "DATE",
    dt.datetime: "TIMESTAMP",
    dt.time: "TIME",
}

# A thread in a function of Python at the interpreter's end ends the process in a fault. So the end waits for calls.
_calls = threading.Condition(threading.RLock())
_running = 0
_is_ending = False


@atexit.register
def _end() -> None:
    """Wait for the calls of cancelled queries. Functions that are called row by row stop at the next row."""
    global _is_ending
    with _calls:
        _is_ending = True
        _calls.wait_for(lambda: _running == 0)


def _forget_calls() -> None:
    """A forked child has no workers, and none of their calls."""
    global _calls, _running
    _calls, _running = threading.Condition(threading.RLock()), 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_calls)


def type_of(connection: Connection, given: Type) -> pyarrow.DataType:
    """The Arrow type of a type of pyarrow, of Python, or of SQL by its name.

    Raises ProgrammingError if it is none.
    """
    import pyarrow

    if isinstance(given, pyarrow.Field):
        given = given.type
    if isinstance(given, pyarrow.DataType):
        return _computable(given)
    name = given if isinstance(given, str) else _OF_PYTHON.get(given)
    if name is None:
        raise ProgrammingError(f"{given!r} is no type: pass one of pyarrow, or the name of one of SQL, as 'BIGINT'")
    schema = pyarrow.schema(connection.sql(f"SELECT CAST(NULL AS {name}\n) AS t"))
    if len(schema) != 1:
        raise ProgrammingError(f"{name} is no type of SQL")
    return _computable(schema.field(0).type)


def _computable(kind: pyarrow.DataType) -> pyarrow.DataType:
    """The type without views, for which few of pyarrow's functions are made."""
    import pyarrow

    if kind == pyarrow.string_view():
        return pyarrow.string()
    return pyarrow.binary() if kind == pyarrow.binary_view() else kind


def adapter(
    function: Callable[..., Any], returns: pyarrow.DataType, kind: Kind, null_handling: NullHandling
) -> Callable[[Any], Any]:
    """What the native half calls: from a stream of one batch to a table of one column."""
    if kind not in ("arrow", "native"):
        raise ProgrammingError(f"type is 'arrow' or 'native', not {kind!r}")
    if null_handling not in ("default", "special"):
        raise ProgrammingError(f"null_handling is 'default' or 'special', not {null_handling!r}")

    def call(arguments: Any) -> Any:
        global _running
        with _calls:
            _check_end()
            _running += 1
        try:
            return called(arguments)
        finally:
            with _calls:
                _running -= 1
                _calls.notify_all()

    def called(arguments: Any) -> Any:
        import pyarrow

        batch = pyarrow.RecordBatchReader.from_stream(arguments).read_next_batch()
        columns, places = batch.columns, None
        if null_handling == "default":
            columns, places = _without_nulls(columns)
        rows = len(columns[0])
        if rows == 0:
            result = pyarrow.nulls(0, returns)
        elif kind == "native":
            result = pyarrow.array([_of_row(function, row) for row in zip(*map(_values, columns))], returns)
        else:
            result = _checked(function(*columns), rows, returns)
        if places is not None:
            result = result.take(places)
        return pyarrow.table([result], names=["result"])

    return call


def _check_end() -> None:
    if _is_ending:
        raise OperationalError("the interpreter ends")


def _of_row(function: Callable[..., Any], row: tuple[Any, ...]) -> Any:
    _check_end()
    return function(*row)


def _values(column: pyarrow.Array) -> Sequence[Any]:
    """The values of a column as those of Python. Timestamps are cut to microseconds."""
    import pyarrow

    if pyarrow.types.is_timestamp(column.type) and column.type.unit == "ns":
        column = column.cast(pyarrow.timestamp("us", column.type.tz), safe=False)
    values: list[Any] = column.to_pylist()
    return values


def _without_nulls(columns: list[pyarrow.Array]) -> tuple[list[pyarrow.Array], pyarrow.Array | None]:
    """The rows without NULLs, and for each row its place among them; None if there is no NULL."""
    import pyarrow
    import pyarrow.compute

    if not any(column.null_count for column in columns):
        return columns, None
    valid = columns[0].is_valid()
    for column in columns[1:]:
        valid = pyarrow.compute.and_(valid, column.is_valid())
    places: list[int | None] = []
    count = 0
    for is_valid in valid.to_pylist():
        places.append(count if is_valid else None)
        count += is_valid
    return [column.filter(valid) for column in columns], pyarrow.array(places, pyarrow.int64())


def _checked(returned: Any, rows: int, returns: pyarrow.DataType) -> pyarrow.Array:
    """The returned values as an array of the declared type.

    Raises TypeError if they are of another type, and ValueError if they are not as many as the rows.
    """
    import pyarrow

    if isinstance(returned, pyarrow.ChunkedArray):
        returned = returned.combine_chunks()
        if isinstance(returned, pyarrow.ChunkedArray):  # of no chunks, or more than one array can hold
            returned = pyarrow.concat_arrays(returned.chunks or [pyarrow.nulls(0, returned.type)])
    if not isinstance(returned, pyarrow.Array):
        module = type(returned).__module__.partition(".")[0]
        if module == "polars" and hasattr(returned, "to_arrow"):
            returned = returned.to_arrow()
        elif isinstance(returned, (list, tuple)) or (module in ("numpy", "pandas") and hasattr(returned, "__len__")):
            if len(returned) != rows:
                raise ValueError(f"{len(returned)} values were returned for {rows} rows")
            # Values that the type cannot hold are refused.
            returned = pyarrow.array(returned, returns, from_pandas=module == "pandas")
        else:
            raise TypeError(f"an array with a value for each row is to be returned, not a {type(returned).__name__}")
    if len(returned) != rows:
        raise ValueError(f"{len(returned)} values were returned for {rows} rows")
    if returned.type != returns:
        if not _are_alike(returned.type, returns):
            raise TypeError(f"values of {returned.type} were returned, and {returns} was declared")
        returned = returned.cast(returns)
    return returned


def _are_alike(one: pyarrow.DataType, other: pyarrow.DataType) -> bool:
    """Whether the types have the same values."""
    from pyarrow import types

    if types.is_dictionary(one):
        one = one.value_type
    texts = (types.is_string, types.is_large_string, types.is_string_view)
    blobs = (types.is_binary, types.is_large_binary, types.is_binary_view)
    alike = any(all(any(test(kind) for test in tests) for kind in (one, other)) for tests in (texts, blobs))
    return alike or one == other or types.is_null(one)
