"""Parameters: Python values with the kind that the native half takes them for."""

from __future__ import annotations

import datetime as dt
import decimal
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

MAX_DIGITS = 38


def parameters(given: Sequence[Any] | Mapping[str, Any]) -> list[tuple[str, Any]] | dict[str, tuple[str, Any]]:
    """The pairs of kind and value of a sequence or a mapping.

    Raises TypeError if a value has no SQL type.
    """
    if isinstance(given, Mapping):
        if not all(isinstance(name, str) for name in given):
            raise TypeError("the keys of params are names of placeholders, as 'a' for $a")
        return {name.removeprefix("$"): _pair(value) for name, value in given.items()}
    if isinstance(given, (str, bytes)) or not isinstance(given, Sequence):
        raise TypeError("params is a sequence for ? or $1, $2, …, or a mapping for $name")
    return [_pair(value) for value in given]


def _pair(value: Any) -> tuple[str, Any]:
    module = type(value).__module__.partition(".")[0]
    if module == "numpy":
        value = _of_numpy(value)
    if value is None or type(value).__name__ in ("NaTType", "NAType"):
        return "null", None
    if isinstance(value, bool):
        return "bool", value
    if isinstance(value, int):
        return "int", int(value)
    if isinstance(value, float):
        return "float", float(value)
    if isinstance(value, str):
        return "str", str(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return "bytes", bytes(value)
    if isinstance(value, decimal.Decimal):
        return "decimal", _decimal(value)
    if isinstance(value, dt.datetime):
        # A timestamp of pandas is one, and may have nanoseconds.
        precise = "_ns" if getattr(value, "nanosecond", 0) else ""
        if value.tzinfo is None:
            return f"datetime{precise}", value.isoformat(sep=" ")
        return f"instant{precise}", value.astimezone(dt.timezone.utc).replace(tzinfo=None).isoformat(sep=" ")
    if isinstance(value, dt.date):
        return "date", value.isoformat()
    if isinstance(value, dt.time):
        if value.tzinfo is not None:
            raise TypeError("a parameter cannot be a time of day with a zone: SQL has none")
        return "time", value.isoformat()
    if isinstance(value, dt.timedelta):
        # A duration of pandas is one, and may have nanoseconds.
        if getattr(value, "nanoseconds", 0):
            raise TypeError(f"the parameter {value} has nanoseconds, and an interval has microseconds: round it")
        return "interval", (value.days, value.seconds * 10**6 + value.microseconds)
    if isinstance(value, uuid.UUID):
        return "str", str(value)
    if isinstance(value, (list, tuple)):
        return "list", [_pair(item) for item in value]
    if isinstance(value, dict):
        if not value or not all(isinstance(name, str) for name in value):
            raise TypeError("a parameter that is a dict is a struct: it has at least one key, and each is a text")
        return "struct", [(name, _pair(item)) for name, item in value.items()]
    raise TypeError(f"a parameter cannot be of type {type(value).__name__}")


def _of_numpy(value: Any) -> Any:
    """A scalar or an array of numpy as a value of Python."""
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    if kind in ("M", "m") and str(value.dtype).endswith(("[ps]", "[fs]", "[as]")):
        raise TypeError(f"a parameter cannot be of type {value.dtype}: SQL has nanoseconds at most")
    if kind == "m" and str(value.dtype).endswith(("[Y]", "[M]")):
        raise TypeError(f"a parameter cannot be of type {value.dtype}: months and years are no durations")
    if kind == "M":
        import pandas  # which keeps nanoseconds; numpy makes a number of them

        value = pandas.Timestamp(value) if getattr(value, "ndim", 0) == 0 else list(pandas.DatetimeIndex(value))
    elif kind == "m":
        import pandas  # likewise

        value = pandas.Timedelta(value) if getattr(value, "ndim", 0) == 0 else list(pandas.TimedeltaIndex(value))
    elif hasattr(value, "tolist"):
        value = value.tolist()
    return value


def _decimal(value: decimal.Decimal) -> tuple[str, int, int]:
    if not value.is_finite():
        raise TypeError(f"the parameter {value} is no decimal number")
    _, digits, exponent = value.as_tuple()
    scale = max(0, -int(exponent))
    precision = max(len(digits) + max(0, int(exponent)), scale, 1)
    if precision > MAX_DIGITS:
        raise TypeError(f"the parameter {value} has {precision} digits, and decimals have at most {MAX_DIGITS}")
    return f"{value:f}", precision, scale
