"""Convert values of a column to another type, and check which of them fit without rounding or truncation.

Floating point numbers may lose digits in narrower ones, and decimals in floating point numbers. All other
conversions are exact.
"""

from __future__ import annotations

from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Final, NamedTuple

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
    from collections.abc import Callable, Iterable

    from pyspark.sql import Column

_INFINITY: Final = float("inf")
# of integer types: bits without the sign, and the decimal digits that hold all values
_BITS: Final = {"tinyint": 7, "smallint": 15, "int": 31, "bigint": 63}
_DIGITS: Final = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
_FLOAT_BITS: Final = {"float": 24, "double": 53}
# the years that int64 microseconds hold completely
_YEARS_OF_MICROS: Final = (-290307, 294246)
# The greatest BIGINT is less, but becomes this DOUBLE, which becomes the greatest BIGINT again.
_AFTER_BIGINT: Final = 2.0**63
# Complete texts: of the texts that Spark parses, those in which it neither ignores nor adds anything.
_BLANKS: Final = r"[\x00-\x20\x7f]*"
_NUMBER: Final = rf"^{_BLANKS}[+-]?(\d*)\.?(\d*)(?:[eE]([+-]?\d+))?{_BLANKS}$"
_NO_NUMBER: Final = rf"(?i)^{_BLANKS}[+-]?(nan|inf|infinity){_BLANKS}$"
_DAY: Final = rf"^{_BLANKS}[+-]?\d{{4,}}-\d{{1,2}}-\d{{1,2}}"
# The possessive (+) takes as much of a time as there is, so that what follows is not part of it.
_MOMENT: Final = rf"{_DAY}(?:[ T]\d{{1,2}}(?::\d{{1,2}}(?::\d{{1,2}}(?:\.\d{{0,6}}0*)?)?)?)?+"


class Conversion(NamedTuple):
    """A column in another type.

    Attributes
    ----------
    value
        The converted values, null for most values that do not fit.
    fits
        Whether a value that is not null fits; None if all values fit.
    """

    value: Column
    fits: Column | None = None


def converted(value: Column, source: DataType, target: DataType) -> Conversion | None:
    """Return the values of a column in another Spark type, or None if their meaning would change."""
    source, target = nullable_type(source), nullable_type(target)
    if source == target:
        return Conversion(value)
    cast = value.try_cast(target)
    match source, target:
        case NullType(), _:
            return Conversion(cast)
        case DateType(), TimestampType() | TimestampNTZType():
            return Conversion(cast, F.year(value).between(*_YEARS_OF_MICROS))
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
        case StructType(), StructType() if source.names == target.names:
            return _of_struct(value, cast, source, target)
        case ArrayType(), ArrayType():
            return _of_items(value, cast, source.elementType, target.elementType)
        case MapType(), MapType() if source.keyType == target.keyType:
            return _of_items(F.map_values(value), cast, source.valueType, target.valueType)
    return None


def lacks(value: Column, data_type: DataType, *, nullable: bool) -> Column | None:
    """Return whether a value has a null that its type does not allow, or None if it allows all nulls."""
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


def each_fits(items: Column, check: Callable[[Column], Column | None]) -> Column | None:
    """Return whether all items of a list fit, or None if any item would."""
    return (
        None if check(F.lit(None)) is None else F.forall(items, lambda item: _fits_or_null(item, check(item)))
    )


def all_fit(parts: Iterable[tuple[Column, Column | None]]) -> Column | None:
    """Return whether all values fit, from pairs of a value and whether it fits; None if all do."""
    fits = [_fits_or_null(value, each) for value, each in parts if each is not None]
    return reduce(and_, fits) if fits else None


def is_infinite(value: Column) -> Column:
    """Return whether a number is infinite."""
    return F.abs(value) == F.lit(_INFINITY)


def _some(items: Column, data_type: DataType, *, nullable: bool) -> Column | None:
    if lacks(F.lit(None), data_type, nullable=nullable) is None:
        return None

    def is_wrong(item: Column) -> Column:
        nulls = lacks(item, data_type, nullable=nullable)
        return F.lit(False) if nulls is None else nulls

    return F.exists(items, is_wrong)


def _of_struct(value: Column, cast: Column, source: StructType, target: StructType) -> Conversion | None:
    parts = []
    for ours, theirs in zip(source, target, strict=True):
        part = value.getField(ours.name)
        conversion = converted(part, ours.dataType, theirs.dataType)
        if conversion is None:
            return None
        parts.append((part, conversion.fits))
    return Conversion(cast, all_fit(parts))


def _of_items(items: Column, cast: Column, source: DataType, target: DataType) -> Conversion | None:
    if converted(F.lit(None), source, target) is None:
        return None

    def fits(item: Column) -> Column | None:
        conversion = converted(item, source, target)
        return None if conversion is None else conversion.fits

    return Conversion(cast, each_fits(items, fits))


def _fits_or_null(value: Column, fits: Column | None) -> Column:
    return F.lit(True) if fits is None else value.isNull() | F.coalesce(fits, F.lit(False))


def _number_fits(value: Column, cast: Column, source: DataType, target: DataType) -> Column | None:
    if _holds_all(source, target):
        return None
    to_float = isinstance(target, FloatType | DoubleType)
    if to_float and not isinstance(source, IntegralType):
        return ~is_infinite(cast) | is_infinite(value.cast("double"))
    same = cast.try_cast(source).eqNullSafe(value)
    if to_float or (isinstance(source, FloatType | DoubleType) and isinstance(target, IntegralType)):
        return same & ((cast if to_float else value) < _AFTER_BIGINT)
    return same


def _holds_all(source: DataType, target: DataType) -> bool:
    """Whether another type holds every number of a type."""
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
            is_finite = value.rlike(_NUMBER) & ~is_infinite(cast)
            return Conversion(cast, known & (is_finite | value.rlike(_NO_NUMBER)))
        case DecimalType():
            # checked first, because most numbers have this form and the other check is slow
            is_plain = value.rlike(rf"^{_BLANKS}[+-]?\d*(?:\.\d{{0,{target.scale}}}0*)?{_BLANKS}$")
            is_short = value.rlike(_NUMBER) & (_fraction_digits(value) <= target.scale)
            return Conversion(cast, known & (is_plain | is_short))
        case DateType():
            moment = value.try_cast("timestamp_ntz")
            is_midnight = moment.cast("date").cast("timestamp_ntz") == moment
            is_moment = value.rlike(rf"{_MOMENT}{_BLANKS}$")
            return Conversion(cast, known & (value.rlike(rf"{_DAY}{_BLANKS}$") | (is_moment & is_midnight)))
        case TimestampType():
            # what follows is a zone in Spark's form; Spark would take a time without a day as one of today
            return Conversion(cast, known & value.rlike(rf"{_MOMENT}(?![\d.:])"))
        case TimestampNTZType():
            return Conversion(cast, known & value.rlike(rf"{_MOMENT}{_BLANKS}$"))
        case BinaryType():
            return Conversion(cast)
    return None


def _fraction_digits(number: Column) -> Column:
    """Return the number of digits that a number in text needs after the point; 0 for zero."""
    whole, fraction, exponent = (F.regexp_extract(number, _NUMBER, group) for group in (1, 2, 3))
    digits = F.concat(whole, fraction)
    needed = F.rtrim(digits, F.lit("0"))
    shift = F.coalesce(exponent.try_cast("int"), F.lit(0))
    return F.when(needed == "", 0).otherwise(F.length(needed) - F.length(whole) - shift)
