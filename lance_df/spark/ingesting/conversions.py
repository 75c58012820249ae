"""Values of a column in the type of another one, and which of them fit: nothing is cut, rounded or guessed.

Floating point numbers may lose digits to narrower ones, and decimals to floating point; all else is exact.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    MapType,
    NullType,
    NumericType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from lance_df.spark.types import nullable_type

if TYPE_CHECKING:
    from pyspark.sql import Column

_INFINITY: Final = float("inf")
_MAX_FLOAT16: Final = 65504.0
# of whole numbers: bits without the sign, and decimal digits that hold all of them
_BITS: Final = {"tinyint": 7, "smallint": 15, "int": 31, "bigint": 63}
_DIGITS: Final = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
_FLOAT_BITS: Final = {"float": 24, "double": 53}
_UNSIGNED_BITS: Final = {pa.uint8(): 8, pa.uint16(): 16, pa.uint32(): 32, pa.uint64(): 64}
# of int64 nanoseconds
_NANOSECONDS: Final = ("1677-09-21 00:12:43.145225", "2262-04-11 23:47:16.854775")
_STEPS: Final = {"s": "second", "ms": "millisecond"}
_YEAR: Final = r"^\s*[+-]?\d{4}"
_ZONE: Final = r"(?i):\d{1,2}(\.\d*)?\s*(Z|UTC?|GMT|[+-]\d.*|[a-z]+/.*)\s*$"


class Conversion(NamedTuple):
    """A column in another type.

    Attributes
    ----------
    value
        Null for most values that do not fit.
    fits
        Whether a value that is not null fits; None if all of them do.
    """

    value: Column
    fits: Column | None = None


def converted(value: Column, source: DataType, target: DataType) -> Conversion | None:
    """Return the values of a column in another type of Spark, None if they would change their meaning."""
    source, target = nullable_type(source), nullable_type(target)
    if source == target:
        return Conversion(value)
    cast = value.try_cast(target)
    match source, target:
        case (NullType(), _) | (DateType(), TimestampType() | TimestampNTZType()):
            return Conversion(cast)
        case NumericType(), NumericType():
            return Conversion(cast, _number_fits(value, cast, source, target))
        case StringType(), _:
            return _of_text(value, cast, target)
        case (
            NumericType() | BooleanType() | DateType() | TimestampType() | TimestampNTZType(),
            StringType(),
        ):
            return Conversion(cast)
        case TimestampType() | TimestampNTZType(), DateType():
            return Conversion(cast, cast.cast(source) == value)
        case _ if _converts_by_item(source, target):
            # maps cannot be compared
            return Conversion(cast, _as_json(cast.try_cast(source)).eqNullSafe(_as_json(value)))
    return None


def stored(conversion: Conversion, data_type: pa.DataType) -> Conversion:
    """Narrow a conversion to what a stored type holds, where that is less than Spark's."""
    held = _held(conversion.value, data_type)
    if held is None:
        return conversion
    fits = held if conversion.fits is None else conversion.fits & held
    return Conversion(F.when(held, conversion.value), fits)


def lacks(value: Column, data_type: DataType, *, nullable: bool) -> Column | None:
    """Return whether there is null in a value where its type has none; None if null may be everywhere."""
    inner: Column | None = None
    match data_type:
        case StructType():
            for each in data_type:
                nulls = lacks(value.getField(each.name), each.dataType, nullable=each.nullable)
                if nulls is not None:
                    inner = nulls if inner is None else inner | nulls
        case ArrayType():
            inner = _some(value, data_type.elementType, nullable=data_type.containsNull)
        case MapType():
            inner = _some(F.map_values(value), data_type.valueType, nullable=data_type.valueContainsNull)
    if inner is not None:
        inner = value.isNotNull() & F.coalesce(inner, F.lit(False))
    if nullable:
        return inner
    return value.isNull() if inner is None else value.isNull() | inner


def _some(items: Column, data_type: DataType, *, nullable: bool) -> Column | None:
    if lacks(F.lit(None), data_type, nullable=nullable) is None:
        return None

    def is_wrong(item: Column) -> Column:
        nulls = lacks(item, data_type, nullable=nullable)
        return F.lit(False) if nulls is None else nulls

    return F.exists(items, is_wrong)


def _number_fits(value: Column, cast: Column, source: DataType, target: DataType) -> Column | None:
    if _holds_all(source, target):
        return None
    if isinstance(target, FloatType | DoubleType) and not isinstance(source, IntegralType):
        return ~_is_infinite(cast) | _is_infinite(value.cast("double"))
    return cast.try_cast(source).eqNullSafe(value)


def _holds_all(source: DataType, target: DataType) -> bool:
    """Whether every number of a type is one of another type."""
    name, other = source.simpleString(), target.simpleString()
    match source, target:
        case DecimalType(), DecimalType():
            whole = target.precision - target.scale
            return source.precision - source.scale <= whole and source.scale <= target.scale
        case IntegralType(), DecimalType():
            return _DIGITS[name] <= target.precision - target.scale
        case IntegralType(), IntegralType():
            return _BITS[name] <= _BITS[other]
        case IntegralType(), FloatType() | DoubleType():
            return _BITS[name] <= _FLOAT_BITS[other]
    return isinstance(source, FloatType) and isinstance(target, DoubleType)


def _of_text(value: Column, cast: Column, target: DataType) -> Conversion | None:
    known = cast.isNotNull()
    match target:
        case IntegralType() | BooleanType():
            return Conversion(cast, known)
        case FloatType() | DoubleType():
            return Conversion(cast, known & (~_is_infinite(cast) | value.rlike("(?i)inf")))
        case DecimalType():
            # with as many digits behind the point as there is room for
            exact = value.try_cast(DecimalType(38, 38 - (target.precision - target.scale)))
            return Conversion(cast, known & cast.eqNullSafe(exact))
        case DateType():
            midnight = cast.cast("timestamp_ntz")
            return Conversion(
                cast, known & (F.coalesce(value.try_cast("timestamp_ntz"), midnight) == midnight)
            )
        case TimestampType():
            # a time without a day would be one of today
            return Conversion(cast, known & value.rlike(_YEAR))
        case TimestampNTZType():
            return Conversion(cast, known & value.rlike(_YEAR) & ~value.rlike(_ZONE))
        case BinaryType():
            return Conversion(value.cast(target))
    return None


def _converts_by_item(source: DataType, target: DataType) -> bool:
    """Whether two types have the same shape, with numbers in the place of numbers."""
    match source, target:
        case StructType(), StructType():
            return source.names == target.names and all(
                _converts_by_item(ours.dataType, theirs.dataType)
                for ours, theirs in zip(source, target, strict=True)
            )
        case ArrayType(), ArrayType():
            return _converts_by_item(source.elementType, target.elementType)
        case MapType(), MapType():
            return source.keyType == target.keyType and _converts_by_item(source.valueType, target.valueType)
        case NumericType(), NumericType():
            return True
    return source == target or isinstance(source, NullType)


def _held(value: Column, data_type: pa.DataType) -> Column | None:
    """Return whether a stored type holds a value of Spark; None if it holds all of them."""
    if isinstance(data_type, pa.ExtensionType):
        return _held(value, data_type.storage_type)
    if pa.types.is_dictionary(data_type):
        return _held(value, data_type.value_type)
    if data_type in _UNSIGNED_BITS:
        return (value >= 0) & (value <= F.lit(str(2 ** _UNSIGNED_BITS[data_type] - 1)).cast("decimal(20,0)"))
    if pa.types.is_float16(data_type):
        return (F.abs(value) <= _MAX_FLOAT16) | _is_infinite(value) | F.isnan(value)
    if pa.types.is_fixed_size_binary(data_type):
        return F.octet_length(value) == data_type.byte_width
    if pa.types.is_fixed_size_list(data_type):
        return F.size(value) == data_type.list_size
    if pa.types.is_timestamp(data_type):
        return _held_moment(value, data_type)
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


def _is_infinite(value: Column) -> Column:
    return F.abs(value) == F.lit(_INFINITY)


def _as_json(value: Column) -> Column:
    return F.to_json(F.struct(value.alias("v")))
