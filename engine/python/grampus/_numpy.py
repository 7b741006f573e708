"""Columns of Arrow as arrays of numpy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow


def arrays_of(table: pyarrow.Table) -> dict[str, Any]:
    """An array for each column, masked where it is NULL. Of columns with one name, the later have numbers."""
    arrays: dict[str, Any] = {}
    for name, column in zip(table.column_names, table.columns):
        found, number = name, 0
        while found in arrays:
            number += 1
            found = f"{name}_{number}"
        arrays[found] = _array(column)
    return arrays


def _array(column: pyarrow.ChunkedArray) -> Any:
    import numpy
    import pyarrow

    if pyarrow.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    has_dtype = pyarrow.types.is_primitive(kind) and not pyarrow.types.is_time(kind)
    if not has_dtype:
        values = numpy.empty(len(column), dtype=object)
        for place, value in enumerate(column.to_pylist()):
            values[place] = value
    else:
        zero: Any = False if pyarrow.types.is_boolean(kind) else pyarrow.scalar(0).cast(_number(kind)).cast(kind)
        filled = column.fill_null(zero) if column.null_count else column
        values = filled.to_numpy()
    if column.null_count == 0:
        return values
    return numpy.ma.masked_array(values, mask=column.is_null().to_numpy())


def _number(kind: pyarrow.DataType) -> pyarrow.DataType:
    """The number that stands for a moment or a duration."""
    import pyarrow

    if pyarrow.types.is_temporal(kind):
        return pyarrow.int32() if kind.bit_width == 32 else pyarrow.int64()
    return kind
