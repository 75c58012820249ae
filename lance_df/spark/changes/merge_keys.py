"""Find key types of merges for which Spark compares other values than the stored ones."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from pyspark.sql import types as T

_MAX_DIGITS: Final = 38
# Spark compares integers with decimals as decimals of so many digits
_DIGITS_OF_INTEGERS: Final[dict[type[T.DataType], int]] = {
    T.ByteType: 3,
    T.ShortType: 5,
    T.IntegerType: 10,
    T.LongType: 20,
}


def loses_values(data_type: pa.DataType) -> bool:
    """Whether Spark's type for a column lacks some of its values."""
    types = pa.types
    if types.is_nested(data_type):
        return any(loses_values(data_type.field(number).type) for number in range(data_type.num_fields))
    if types.is_timestamp(data_type) or types.is_duration(data_type):
        return bool(data_type.unit == "ns")
    return bool(types.is_date64(data_type))


def is_rounded(data_type: pa.DataType) -> bool:
    """Whether values of Spark's type for a column are rounded when they are stored."""
    if pa.types.is_nested(data_type):
        return any(is_rounded(data_type.field(number).type) for number in range(data_type.num_fields))
    return bool(pa.types.is_float16(data_type))


def are_equal_as_stored(given: T.DataType, stored: T.DataType) -> bool:
    """Whether Spark considers values of two types equal exactly if they are equal in the stored type.

    Spark converts both sides to a common type. Other pairs than these can lose digits there, or when the
    given value is stored.
    """
    if given.simpleString() == stored.simpleString():
        return True
    ours, theirs = _digits(given), _digits(stored)
    if ours is None or theirs is None:
        return False
    return max(ours[0], theirs[0]) + max(ours[1], theirs[1]) <= _MAX_DIGITS


def _digits(data_type: T.DataType) -> tuple[int, int] | None:
    """Return the numbers of digits before and after the decimal point, or None if the type has no such."""
    if isinstance(data_type, T.DecimalType):
        return data_type.precision - data_type.scale, data_type.scale
    digits = _DIGITS_OF_INTEGERS.get(type(data_type))
    return None if digits is None else (digits, 0)
