"""Find key types of merges for which Spark compares other values than the stored ones."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from pyspark.sql import types as T

_MAX_DIGITS: Final = 38


def loses_values(data_type: pa.DataType) -> bool:
    """Whether Spark's type for a column lacks some of its values."""
    types = pa.types
    if types.is_nested(data_type):
        return any(loses_values(data_type.field(number).type) for number in range(data_type.num_fields))
    if types.is_timestamp(data_type) or types.is_duration(data_type):
        return bool(data_type.unit == "ns")
    return bool(types.is_date64(data_type))


def are_equal_as_stored(given: T.DataType, stored: T.DataType) -> bool:
    """Whether values that Spark considers equal are equal as stored; a join may round both sides."""
    floats = [isinstance(each, T.FloatType | T.DoubleType) for each in (given, stored)]
    if any(floats) and not all(floats):
        number, other = (given, stored) if floats[0] else (stored, given)
        if isinstance(number, T.DoubleType) and isinstance(other, T.IntegerType):
            return True
        return isinstance(other, T.ByteType | T.ShortType)
    whole, scale = (max(parts) for parts in zip(_digits(given), _digits(stored), strict=True))
    return whole + scale <= _MAX_DIGITS


def _digits(data_type: T.DataType) -> tuple[int, int]:
    """Return the number of digits before and after the decimal point; for other types as for integers."""
    if not isinstance(data_type, T.DecimalType):
        return 20, 0
    return data_type.precision - data_type.scale, data_type.scale
