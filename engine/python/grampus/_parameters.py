"""Parameters: Python values with the kind that the native half takes them for."""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Mapping, Sequence
from typing import Any

MAX_DIGITS = 38


def parameters(given: Sequence[Any] | Mapping[str, Any]) -> list[tuple[str, Any]] | dict[str, tuple[str, Any]]:
    """The pairs of kind and value of a sequence or a mapping.

    Raises TypeError if a value has no SQL type.
    """
    if isinstance(given, Mapping):
        return {name.removeprefix("$"): _pair(value) for name, value in given.items()}
    if isinstance(given, (str, bytes)) or not isinstance(given, Sequence):
        raise TypeError("params is a sequence for $1, $2, … or a mapping for $name")
    return [_pair(value) for value in given]


def _pair(value: Any) -> tuple[str, Any]:
    if value is None:
        return "null", None
    if hasattr(value, "item") and type(value).__module__ == "numpy":
        value = value.item()  # a numpy scalar
    if hasattr(value, "to_pydatetime"):
        value = value.to_pydatetime()  # a pandas timestamp
    if isinstance(value, bool):
        return "bool", value
    if isinstance(value, int):
        return "int", value
    if isinstance(value, float):
        return "float", value
    if isinstance(value, str):
        return "str", value
    if isinstance(value, (bytes, bytearray, memoryview)):
        return "bytes", bytes(value)
    if isinstance(value, decimal.Decimal):
        return "decimal", _decimal(value)
    if isinstance(value, dt.datetime):
        if value.tzinfo is None:
            return "datetime", value.isoformat(sep=" ")
        return "instant", value.astimezone(dt.timezone.utc).replace(tzinfo=None).isoformat(sep=" ")
    if isinstance(value, dt.date):
        return "date", value.isoformat()
    if isinstance(value, dt.time):
        return "time", value.isoformat()
    if isinstance(value, dt.timedelta):
        return "interval", (value.days, value.seconds * 10**9 + value.microseconds * 1000)
    raise TypeError(f"a parameter cannot be of type {type(value).__name__}")


def _decimal(value: decimal.Decimal) -> tuple[str, int, int]:
    if not value.is_finite():
        raise TypeError(f"the parameter {value} is no decimal number")
    _, digits, exponent = value.as_tuple()
    scale = max(0, -int(exponent))
    precision = max(len(digits) + max(0, int(exponent)), scale, 1)
    if precision > MAX_DIGITS:
        raise TypeError(f"the parameter {value} has {precision} digits, and decimals have at most {MAX_DIGITS}")
    return f"{value:f}", precision, scale
