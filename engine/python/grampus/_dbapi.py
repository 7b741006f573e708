"""What PEP 249 wants of a module: exceptions, objects for types, constructors of values."""

from __future__ import annotations

import datetime as dt
import time
from typing import TYPE_CHECKING

from ._grampus import (
    DatabaseError,
    DataError,
    Error,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
)

if TYPE_CHECKING:
    from ._grampus import Query

__all__ = [
    "BINARY",
    "DATETIME",
    "NUMBER",
    "ROWID",
    "STRING",
    "Binary",
    "DataError",
    "DatabaseError",
    "Date",
    "DateFromTicks",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
    "Warning",
    "apilevel",
    "paramstyle",
    "threadsafety",
]

apilevel = "2.0"
# Threads may share the module and connections. A cursor belongs to one thread at a time.
threadsafety = 2
# `$1`, `$2`, … and `$name` are taken too.
paramstyle = "qmark"

Description = tuple[str, str, None, None, None, None, None]

Date = dt.date
Time = dt.time
Timestamp = dt.datetime
Binary = bytes


class Warning(Exception):  # noqa: A001
    """PEP 249 has it; nothing raises it."""


class IntegrityError(DatabaseError):
    """PEP 249 has it; nothing raises it, since tables have no keys."""


class TypeObject:
    """A kind of types. The type of a column in a cursor's description is equal to it if it is of the kind."""

    def __init__(self, name: str, *starts: str) -> None:
        self._name = name
        self._starts = starts

    def __eq__(self, other: object) -> bool:
        return other is self or (isinstance(other, str) and other.startswith(self._starts))

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self._name)

    def __repr__(self) -> str:
        return f"grampus.{self._name}"


STRING = TypeObject("STRING", "Utf8", "LargeUtf8")
BINARY = TypeObject("BINARY", "Binary", "LargeBinary", "FixedSizeBinary")
NUMBER = TypeObject("NUMBER", "Int8", "Int16", "Int32", "Int64", "UInt", "Float", "Decimal", "Boolean")
DATETIME = TypeObject("DATETIME", "Date", "Time", "Timestamp", "Duration", "Interval")
ROWID = TypeObject("ROWID", "no type of Arrow")


def DateFromTicks(ticks: float) -> dt.date:  # noqa: N802
    """The local date of seconds since 1970."""
    return dt.date(*time.localtime(ticks)[:3])


def TimeFromTicks(ticks: float) -> dt.time:  # noqa: N802
    """The local time of day of seconds since 1970."""
    return dt.time(*time.localtime(ticks)[3:6])


def TimestampFromTicks(ticks: float) -> dt.datetime:  # noqa: N802
    """The local date and time of seconds since 1970."""
    return dt.datetime(*time.localtime(ticks)[:6])


def described(query: Query) -> list[Description]:
    """The columns of a query: name and Arrow type; the rest of PEP 249's seven values is not known."""
    return [(name, data_type, None, None, None, None, None) for name, data_type in query.columns()]
