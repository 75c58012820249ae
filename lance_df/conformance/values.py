"""Convert Arrow arrays to and from JSON, as defined in the README of the corpus.

Types are `JsonArrowDataType`. Each kind of type has one form of values; those that JSON cannot express
(bytes, decimals, times, NaN) are strings.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import pyarrow as pa

from lance_df.errors import InvalidInputError
from lance_df.namespace.spec.json_arrow import type_from_json

_SPECIAL_FLOATS: Final[Mapping[str, float]] = {
    "NaN": math.nan,
    "Infinity": math.inf,
    "-Infinity": -math.inf,
    "-0.0": -0.0,
}
_DIGITS: Final = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_EPOCH: Final = dt.datetime(1970, 1, 1)


def to_array(column: Mapping[str, Any]) -> pa.Array:
    """Return the array that ``{"type": …, "values": […]}`` describes.

    Raises
    ------
    InvalidInputError
        A value does not have the type.
    """
    data_type = type_from_json(column["type"], source="the type of a column")
    try:
        return _array(column["values"], data_type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, ValueError, TypeError) as err:
        raise InvalidInputError(f"values cannot be converted to type {data_type}: {err}") from err


def to_table(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    """Return rows as a table."""
    columns = [_array([row.get(field.name) for row in rows], field.type) for field in schema]
    return pa.table(columns, schema=schema)


def from_array(array: pa.Array) -> list[Any]:
    """Return the values of an array."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if isinstance(array, pa.DictionaryArray):
        array = array.dictionary_decode()
    nested = _nested(array)
    values = _flat(array) if nested is None else nested
    if not array.null_count:
        return values
    return [
        value if valid else None for value, valid in zip(values, array.is_valid().to_pylist(), strict=True)
    ]


def from_table(table: pa.Table) -> list[dict[str, Any]]:
    """Return the rows of a table."""
    columns = [
        [value for chunk in column.chunks for value in from_array(chunk)] for column in table.itercolumns()
    ]
    names = table.column_names
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


def _array(values: Sequence[Any], data_type: pa.DataType) -> pa.Array:
    types = pa.types
    if (
        types.is_binary(data_type)
        or types.is_large_binary(data_type)
        or types.is_fixed_size_binary(data_type)
    ):
        return pa.array([None if value is None else bytes.fromhex(value) for value in values], data_type)
    if types.is_floating(data_type):
        return pa.array([_SPECIAL_FLOATS.get(value, value) for value in values], pa.float64()).cast(data_type)
    if types.is_duration(data_type):
        return pa.array(values, pa.int64()).cast(data_type)
    if types.is_time(data_type):
        moments = [None if value is None else f"1970-01-01T{value}" for value in values]
        return pa.array(moments, pa.string()).cast(pa.timestamp(data_type.unit)).cast(data_type)
    if types.is_temporal(data_type) or types.is_decimal(data_type):
        return pa.array(values, pa.string()).cast(data_type)
    return pa.array(values, data_type)


def _nested(array: pa.Array) -> list[Any] | None:
    """Return the values of lists, structs or maps, or None for other arrays. Null slots are arbitrary."""
    types, length = pa.types, len(array)
    if types.is_struct(array.type):
        names = [field.name for field in array.type]
        fields = [from_array(array.field(index)) for index in range(len(names))]
        return [
            {name: values[row] for name, values in zip(names, fields, strict=True)} for row in range(length)
        ]
    if types.is_fixed_size_list(array.type):
        size, items = array.type.list_size, from_array(array.values)
        starts = range(array.offset * size, (array.offset + length) * size, size) if size else [0] * length
        return [items[start : start + size] for start in starts]
    if types.is_map(array.type):
        keys, items = from_array(array.keys), from_array(array.items)
        pairs = [list(pair) for pair in zip(keys, items, strict=True)]
        return _slices(pairs, array.offsets)
    if types.is_list(array.type) or types.is_large_list(array.type):
        return _slices(from_array(array.values), array.offsets)
    return None


def _slices(items: list[Any], offsets: pa.Array) -> list[Any]:
    bounds = offsets.to_pylist()
    return [items[start:stop] for start, stop in pairwise(bounds)]


def _flat(array: pa.Array) -> list[Any]:
    types, data_type = pa.types, array.type
    write: Callable[[Any], Any] | None = None
    if types.is_floating(data_type):
        write = _float_text
        array = array.cast(pa.float64())
    elif types.is_decimal(data_type):
        write = "{:f}".format
    elif types.is_date32(data_type):
        array, write = array.view(pa.int32()), _date_text
    elif types.is_date64(data_type):
        array, write = array.view(pa.int64()), lambda count: _date_text(count // 86_400_000)
    elif types.is_time(data_type):
        unit = data_type.unit
        array = array.view(pa.int32() if data_type.bit_width == 32 else pa.int64())
        write = lambda count: _moment_text(count, unit)[11:]  # noqa: E731
    elif types.is_timestamp(data_type):
        unit, zone = data_type.unit, "" if data_type.tz is None else "Z"
        array, write = array.view(pa.int64()), lambda count: _moment_text(count, unit) + zone
    elif types.is_duration(data_type):
        array = array.view(pa.int64())
    elif types.is_string(data_type) or types.is_large_string(data_type) or data_type == pa.string_view():
        pass
    elif not (types.is_integer(data_type) or types.is_boolean(data_type) or types.is_null(data_type)):
        write = bytes.hex
    values = array.to_pylist()
    return values if write is None else [None if value is None else write(value) for value in values]


def _float_text(value: float) -> float | str:
    if math.isfinite(value) and (value or math.copysign(1, value) > 0):
        return value
    return next(text for text, special in _SPECIAL_FLOATS.items() if repr(special) == repr(value))


def _date_text(days: int) -> str:
    return (_EPOCH + dt.timedelta(days)).date().isoformat()


def _moment_text(count: int, unit: str) -> str:
    """Return a count of units since 1970 as ISO 8601, with all digits of the unit."""
    digits = _DIGITS[unit]
    seconds, fraction = divmod(count, 10**digits)
    text = (_EPOCH + dt.timedelta(seconds=seconds)).isoformat()
    return f"{text}.{fraction:0{digits}}" if digits else text
