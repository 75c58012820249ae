"""Ranges of a column, derived from a comparison of a cast or a function of the column with a literal.

All ranges are necessary conditions, widened where engines round.
"""

from __future__ import annotations

import calendar
import datetime as dt
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext

import pyarrow as pa

from lance_df.expr.literals import compare, is_text, plain_scalar
from lance_df.expr.nodes import And, Column, Comparison, Operator, Or, Predicate

_RELATIVE_ERROR = Decimal("1e-12")  # for a decimal's or an integer's cast to double, with a margin
_MAX_CODE_POINT = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)
_LAST_YEAR = 2262  # of timestamps in nanoseconds; other timestamps exceed Python's dates
_EPOCH = dt.date(1970, 1, 1)
_LOWER = (Operator.GT, Operator.GE)
_UPPER = (Operator.LT, Operator.LE)


def cast_range(
    column: Column,
    data_type: pa.DataType,
    operator: Operator,
    value: pa.Scalar,
    is_cast: bool,
) -> Predicate | None:
    """Return a predicate that ``CAST(column AS type of value) operator value`` implies, or None.

    If ``is_cast`` is false, the column has the type of the value.
    """
    value = plain_scalar(value)
    if operator is Operator.NE:
        return None
    if not is_cast:
        return compare(column, data_type, operator, value)
    kinds = pa.types
    if kinds.is_decimal(data_type) or (kinds.is_integer(data_type) and kinds.is_decimal(value.type)):
        return _decimal_range(column, data_type, operator, value)
    if kinds.is_timestamp(data_type) and kinds.is_date(value.type):
        return _days_range(column, data_type, operator, value.as_py())
    if kinds.is_date32(data_type) and kinds.is_timestamp(value.type) and value.type.tz is None:
        return _date_range(column, operator, value)
    if _cast_keeps_order_and_value(data_type, value.type):
        return compare(column, data_type, operator, value)
    return None


def _cast_keeps_order_and_value(source: pa.DataType, target: pa.DataType) -> bool:
    kinds = pa.types
    if kinds.is_integer(source):
        return kinds.is_integer(target) or kinds.is_float64(target)  # compare() handles doubles beyond 2**53
    if kinds.is_floating(source):
        return kinds.is_floating(target) and source.bit_width <= target.bit_width
    return is_text(source) and is_text(target)


def _decimal_range(
    column: Column, data_type: pa.DataType, operator: Operator, value: pa.Scalar
) -> Predicate | None:
    if pa.types.is_decimal(value.type):
        low = high = value.as_py()
        if pa.types.is_decimal(data_type) and value.type.scale < data_type.scale:
            return None  # the cast rounds
    elif pa.types.is_float64(value.type):
        number = value.as_py()
        if number - number != 0:  # NaN, infinities
            return None
        exact = Decimal(number)
        low, high = exact - abs(exact) * _RELATIVE_ERROR, exact + abs(exact) * _RELATIVE_ERROR
    else:
        return None
    scale = data_type.scale if pa.types.is_decimal(data_type) else 0
    parts = []
    if operator in (*_LOWER, Operator.EQ):
        parts.append((Operator.GE, _rounded(low, scale, ROUND_FLOOR)))
    if operator in (*_UPPER, Operator.EQ):
        parts.append((Operator.LE, _rounded(high, scale, ROUND_CEILING)))
    bounds = [_comparison(column, each, bound, data_type) for each, bound in parts]
    return And(tuple(bound for bound in bounds if bound is not None)) if any(bounds) else None


def _rounded(number: Decimal, scale: int, rounding: str) -> Decimal:
    with localcontext() as context:
        context.prec = 200
        return number.quantize(Decimal(1).scaleb(-scale), rounding=rounding)


def _comparison(
    column: Column, operator: Operator, value: object, data_type: pa.DataType
) -> Comparison | None:
    """Return a comparison with a Python value; None if the column's type cannot hold the value."""
    if pa.types.is_integer(data_type) and isinstance(value, Decimal):
        value = int(value)
    try:
        return Comparison(column, operator, pa.scalar(value, data_type))
    except (pa.ArrowInvalid, OverflowError):
        return None


def _date_range(column: Column, operator: Operator, value: pa.Scalar) -> Predicate | None:
    """Return the range of a date for a comparison with a timestamp."""
    moment = value.cast(pa.timestamp("us"), safe=False).as_py()
    low = _comparison(column, Operator.GE, moment.date(), pa.date32())
    high = _comparison(column, Operator.LE, moment.date(), pa.date32())
    return _either(operator, low, high)


def _either(operator: Operator, low: Predicate | None, high: Predicate | None) -> Predicate | None:
    """Return the bounds that ``operator`` implies, given the bounds that equality implies."""
    if operator in _LOWER:
        return low
    if operator in _UPPER:
        return high
    return And(tuple(part for part in (low, high) if part is not None)) if operator is Operator.EQ else None


def _between(
    column: Column,
    data_type: pa.DataType,
    operator: Operator,
    start: dt.datetime,
    stop: dt.datetime | None,
) -> Predicate | None:
    """Return the range of a date or timestamp for the period from ``start`` to ``stop`` (excluded).

    For columns with a time zone, the period is in local time, and old engines rounded times before 1970 up.
    In both cases the range is one day wider on either side.
    """
    slack = dt.timedelta(days=1 if getattr(data_type, "tz", None) or start.date() <= _EPOCH else 0)
    try:
        low = _time_bound(column, Operator.GE, start - slack, data_type)
        high = None if stop is None else _time_bound(column, Operator.LT, stop + slack, data_type)
    except OverflowError:
        return None
    return _either(operator, low, high)


def _time_bound(
    column: Column, operator: Operator, moment: dt.datetime, data_type: pa.DataType
) -> Predicate | None:
    if pa.types.is_date32(data_type):
        return _comparison(column, operator, moment.date(), data_type)
    if not pa.types.is_timestamp(data_type):
        return None
    naive = pa.scalar(moment, pa.timestamp("us"))
    try:
        return Comparison(
            column, operator, naive.cast(pa.timestamp(data_type.unit)).cast(pa.int64()).cast(data_type)
        )
    except pa.ArrowInvalid:
        return None


def _days_range(column: Column, data_type: pa.DataType, operator: Operator, day: dt.date) -> Predicate | None:
    start = dt.datetime(day.year, day.month, day.day)
    return _between(column, data_type, operator, start, _later(start, "day"))


def truncated_range(
    column: Column, data_type: pa.DataType, unit: str, operator: Operator, value: pa.Scalar
) -> Predicate | None:
    """Return a predicate that ``date_trunc(unit, column) operator value`` implies, or None."""
    if not pa.types.is_timestamp(value.type):
        return None
    local = value.cast(pa.timestamp("us", value.type.tz), safe=False).as_py().replace(tzinfo=None)
    in_range = _between(column, data_type, operator, local, _later(local, unit))
    reaches_end = operator in _LOWER or (operator is Operator.EQ and local.year >= _LAST_YEAR)
    if in_range is None or not reaches_end or not pa.types.is_timestamp(data_type):
        return in_range
    # the start of the first period is below all timestamps, so DataFusion's result overflows to a late
    # timestamp
    first = dt.datetime(1677, 9, 23) if data_type.unit == "ns" else dt.datetime(1, 1, 2)
    wrapped = _time_bound(column, Operator.LT, first, data_type)
    return None if wrapped is None else And((Or((in_range, wrapped)),))


def calendar_range(
    column: Column, data_type: pa.DataType, operator: Operator, value: pa.Scalar
) -> Predicate | None:
    """Return a predicate that ``date_part('year', column) operator value`` implies, or None."""
    year = value.as_py()
    if not isinstance(year, int | float) or year != int(year) or not 1 <= year <= dt.MAXYEAR:
        return None
    start = dt.datetime(int(year), 1, 1)
    return _between(column, data_type, operator, start, _later(start, "year"))


def _later(start: dt.datetime, unit: str) -> dt.datetime | None:
    """Return the start of the next period; None if there is none or the unit is unknown."""
    months = {"month": 1, "quarter": 3, "year": 12}.get(unit)
    try:
        if months is not None:
            year, month = divmod(start.year * 12 + start.month - 1 + months, 12)
            day = min(start.day, calendar.monthrange(year, month + 1)[1])
            return start.replace(year=year, month=month + 1, day=day)
        return start + dt.timedelta(**{f"{unit}s": 1})
    except (OverflowError, ValueError, TypeError):
        return None


def prefix_range(column: Column, data_type: pa.DataType, prefix: str) -> Predicate | None:
    """Return a predicate that "the text starts with ``prefix``" implies, or None."""
    if not prefix or not is_text(data_type):
        return None
    low = Comparison(column, Operator.GE, pa.scalar(prefix, data_type))
    successor = _successor(prefix)
    if successor is None:
        return low
    return And((low, Comparison(column, Operator.LT, pa.scalar(successor, data_type))))


def _successor(prefix: str) -> str | None:
    """Return the smallest text that is greater than all texts with ``prefix``, in code point order."""
    stem = prefix.rstrip(chr(_MAX_CODE_POINT))
    if not stem:
        return None
    following = ord(stem[-1]) + 1
    if following in _SURROGATES:
        following = _SURROGATES.stop
    return stem[:-1] + chr(following)
