"""Check which values of a Spark type a stored type holds; unsigned numbers and others hold only some."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import functions as F

from lance_df.spark.ingesting.conversions import Conversion, all_fit, each_fits, is_infinite

if TYPE_CHECKING:
    from pyspark.sql import Column

_MAX_FLOAT16: Final = 65504.0
_UNSIGNED_BITS: Final = {pa.uint8(): 8, pa.uint16(): 16, pa.uint32(): 32, pa.uint64(): 64}
# the range of int64 nanoseconds
_NANOSECONDS: Final = ("1677-09-21 00:12:43.145225", "2262-04-11 23:47:16.854775")
_STEPS: Final = {"s": "second", "ms": "millisecond"}


def stored(conversion: Conversion, data_type: pa.DataType) -> Conversion:
    """Narrow a conversion to the values that a stored type holds, if it holds fewer than Spark's."""
    held = _held(conversion.value, data_type)
    if held is None:
        return conversion
    fits = held if conversion.fits is None else conversion.fits & held
    return Conversion(F.when(held, conversion.value), fits)


def _held(value: Column, data_type: pa.DataType) -> Column | None:
    """Return whether a stored type holds a value of Spark, or None if it holds all values."""
    if isinstance(data_type, pa.ExtensionType):
        return _held(value, data_type.storage_type)
    if pa.types.is_dictionary(data_type):
        return _held(value, data_type.value_type)
    if data_type in _UNSIGNED_BITS:
        return (value >= 0) & (value <= F.lit(str(2 ** _UNSIGNED_BITS[data_type] - 1)).cast("decimal(20,0)"))
    if pa.types.is_float16(data_type):
        return (F.abs(value) <= _MAX_FLOAT16) | is_infinite(value) | F.isnan(value)
    if pa.types.is_fixed_size_binary(data_type):
        return F.octet_length(value) == data_type.byte_width
    if pa.types.is_timestamp(data_type):
        return _held_moment(value, data_type)
    return _held_items(value, data_type)


def _held_items(value: Column, data_type: pa.DataType) -> Column | None:
    types = pa.types
    if types.is_struct(data_type):
        fields = [(value.getField(field.name), field.type) for field in data_type]
        return all_fit((part, _held(part, part_type)) for part, part_type in fields)
    if types.is_map(data_type):
        keys = each_fits(F.map_keys(value), lambda key: _held(key, data_type.key_type))
        items = each_fits(F.map_values(value), lambda item: _held(item, data_type.item_type))
        return all_fit([(value, keys), (value, items)])
    if types.is_list(data_type) or types.is_large_list(data_type) or types.is_fixed_size_list(data_type):
        items = each_fits(value, lambda item: _held(item, data_type.value_type))
        length = F.size(value) == data_type.list_size if types.is_fixed_size_list(data_type) else None
        return all_fit([(value, length), (value, items)])
    return None


def _held_moment(value: Column, data_type: pa.DataType) -> Column | None:
    name = "timestamp_ntz" if data_type.tz is None else "timestamp"
    if data_type.unit == "ns":
        zone = "" if data_type.tz is None else "Z"
        first, last = (F.lit(f"{text}{zone}").cast(name) for text in _NANOSECONDS)
        return value.between(first, last)
    if data_type.unit in _STEPS:
        return F.date_trunc(_STEPS[data_type.unit], value).cast(name) == value
    return None
