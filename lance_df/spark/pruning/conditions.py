"""Translate Spark conditions to SQL filters that are true for at least the same rows.

Spark evaluates its conditions again, so a filter may keep more rows than its condition. A condition without
translation keeps all rows. If Spark and DataFusion differ, as in floats, times and casts, the filter keeps
more rows or is left out.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import types as T

from lance_df.format.column_path import quoted_name
from lance_df.records import dataclass
from lance_df.spark.pruning.nodes import attribute_id, children, class_of, items
from lance_df.spark.pruning.times import compared_time, times_listed_in
from lance_df.sql.splice import quote_string

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

_COMPARISONS: Final = {
    "EqualTo": "=",
    "EqualNullSafe": "=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
}
_FLIPPED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}
_NEGATED: Final = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "=": "<>"}
_PARTS: Final = {"Year": "year", "Month": "month", "DayOfMonth": "day", "Hour": "hour"}
_UTC: Final = frozenset({"UTC", "Etc/UTC", "Z", "GMT", "+00:00"})
_PLAIN_NAME: Final = re.compile(r"[^.\"`\x00-\x1f]+")
_ALL_VALUES: Final = range(-(2**31), 2**31)
# years that int64 nanoseconds hold completely; DataFusion 55 compares with NULL for other years
_YEARS_OF_NANOS: Final = range(1678, 2262)
_MAX_ITEMS: Final = 1000
_BELOW_ALL: Final = "-1e999"
# Days before the first or after the last have no text that all parsers accept.
_FIRST_DAY: Final = np.datetime64("0001-01-01").astype(np.int64).item()
_LAST_DAY: Final = np.datetime64("9999-12-31").astype(np.int64).item()
_DAY_MICROS: Final = 86_400_000_000


@dataclass(frozen=True, slots=True)
class StoredColumn:
    """A column of a scan with its type in Spark and its stored type.

    Attributes
    ----------
    spark_type
        The type of its values: the decimal if decimals are passed as integers.
    is_digits
        Whether the attribute has the digits of a decimal.
    """

    name: str
    spark_type: T.DataType
    stored_type: pa.DataType
    is_digits: bool = False


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a date or a time, in SQL.

    Attributes
    ----------
    values
        The values with which a filter compares the part as Spark does.
    unknown
        A filter that is true where the part is NULL in DataFusion but not in Spark; None if there is no such
        case.
    """

    text: str
    values: range
    unknown: str | None

    def filter(self, comparison: str) -> str:
        """Return a filter for rows for which the comparison is true, or may be true only in Spark."""
        known = f"{self.text} {comparison}"
        return known if self.unknown is None else f"({known} OR {self.unknown})"


class Translator:
    """Translates conditions over the columns of one relation, given by the ids of their attributes."""

    def __init__(self, columns: Mapping[int, StoredColumn]) -> None:
        self._columns = columns

    def implied(self, condition: Any) -> str | None:
        """Return a filter that is true wherever a condition is, or None if there is no translation."""
        return self._implied(condition, negated=False)

    def _implied(self, condition: Any, *, negated: bool) -> str | None:
        kind = class_of(condition)
        if kind == "Not":
            return self._implied(condition.child(), negated=not negated)
        if kind in ("And", "Or"):
            texts = [self._implied(each, negated=negated) for each in children(condition)]
            return all_of(texts) if (kind == "And") is not negated else any_of(texts)
        if kind in ("IsNull", "IsNotNull"):
            column = self._column(condition.child(), digits=True)
            is_null = (kind == "IsNull") is not negated
            words = "IS NULL" if is_null else "IS NOT NULL"
            return None if column is None else f"{quoted_name(column.name)} {words}"
        if kind in _COMPARISONS:
            # negated, <=> is true for NULL and a value, where <> is NULL
            return None if negated and kind == "EqualNullSafe" else self._compared(condition, kind, negated)
        if kind in ("In", "InSet"):
            return self._listed(condition, kind, negated)
        if kind == "StartsWith" and not negated:
            return self._prefixed(condition)
        if kind == "AttributeReference":
            column = self._column(condition)
            if column is not None and isinstance(column.spark_type, T.BooleanType):
                return f"NOT {quoted_name(column.name)}" if negated else quoted_name(column.name)
        return None

    def _compared(self, condition: Any, kind: str, negated: bool) -> str | None:
        left, right = children(condition)
        operator = _COMPARISONS[kind]
        if class_of(left) == "Literal":
            left, right, operator = right, left, _FLIPPED[operator]
        if class_of(right) != "Literal":
            return None
        operator = _NEGATED[operator] if negated else operator
        value = right.value()
        if value is None:
            return None
        column = self._column(left)
        if column is not None:
            return compared(column, operator, _plain(value)) if _is_of(right, column) else None
        part = self._part(left)
        return None if part is None or value not in part.values else part.filter(f"{operator} {value}")

    def _listed(self, condition: Any, kind: str, negated: bool) -> str | None:
        value, *listed = children(condition)
        column, part = self._column(value), self._part(value)
        if column is None and part is None:
            return None
        if kind == "InSet":
            values = _values_of_set(condition.hset())
        elif all(class_of(each) == "Literal" for each in listed):
            values = [each.value() for each in listed]
            if column is not None and not all(_is_of(each, column) for each in listed):
                return None
        else:
            return None
        if values is None or len(values) > _MAX_ITEMS or (negated and None in values):
            return None
        values = [_plain(each) for each in values if each is not None]
        if column is not None:
            return listed_in(column, values, negated=negated)
        if part is None or not all(each in part.values for each in values):
            return None
        return part.filter(f"{'NOT ' if negated else ''}IN ({', '.join(map(str, values))})")

    def _prefixed(self, condition: Any) -> str | None:
        value, prefix = children(condition)
        column = self._column(value)
        if column is None or class_of(prefix) != "Literal" or not _is_of(prefix, column):
            return None
        text = _plain(prefix.value())
        if not isinstance(text, str) or not text:
            return None
        low = compared(column, ">=", text)
        after = _next_text(text)
        return low if after is None or low is None else all_of([low, compared(column, "<", after)])

    def _column(self, value: Any, *, digits: bool = False) -> StoredColumn | None:
        """Return the column of an expression, or None; a column of digits only if ``digits`` is set."""
        kind = class_of(value)
        if kind == "MakeDecimal":
            column = self._column(value.child(), digits=True)
            is_whole = column is not None and column.is_digits
            same = T.DecimalType(value.precision(), value.scale())
            return column if column is not None and is_whole and column.spark_type == same else None
        if kind != "AttributeReference":
            return None
        column = self._columns.get(attribute_id(value))
        return None if column is None or (column.is_digits and not digits) else column

    def _part(self, value: Any) -> _Part | None:
        """Return the part of a date or time that an expression computes, or None for others."""
        name = _PARTS.get(class_of(value))
        if name is None:
            return None
        (child,) = children(value)
        zone = _zone(value) if name == "hour" else None
        if class_of(child) == "Cast" and isinstance(_type_of(child), T.DateType):
            zone, child = _zone(child), child.child()
        column = self._column(child)
        if column is None:
            return None
        if isinstance(column.spark_type, T.TimestampType):
            is_same = zone in _UTC and getattr(column.stored_type, "tz", None) in _UTC
        else:
            is_same = isinstance(column.spark_type, T.DateType | T.TimestampNTZType)
        if not is_same:
            return None
        is_nanos = getattr(column.stored_type, "unit", None) == "ns"
        values = _YEARS_OF_NANOS if name == "year" and is_nanos else _ALL_VALUES
        text = f"date_part('{name}', {quoted_name(column.name)})"
        # for years, a filter in a form that also prunes partitions and zones
        unknown = _beyond_calendar(column) if name == "year" else f"{text} IS NULL"
        return _Part(text, values, None if is_nanos else unknown)


def all_of(texts: Iterable[str | None]) -> str | None:
    """Return a filter that is true where all known filters are; None if all are unknown."""
    known = [text for text in dict.fromkeys(texts) if text is not None]
    return None if not known else known[0] if len(known) == 1 else f"({' AND '.join(known)})"


def any_of(texts: Iterable[str | None]) -> str | None:
    """Return a filter that is true where any of these filters is; None if one is unknown."""
    known = list(dict.fromkeys(texts))
    if not known or None in known:
        return None
    return known[0] if len(known) == 1 else f"({' OR '.join(map(str, known))})"


def compared(column: StoredColumn, operator: str, value: object) -> str | None:
    """Return a filter for a comparison of a column with a value in the form of Spark's internal rows."""
    name = quoted_name(column.name)
    kind = column.spark_type
    if isinstance(kind, T.FloatType | T.DoubleType):
        return _compared_float(name, operator, value, is_double=isinstance(kind, T.DoubleType))
    if isinstance(kind, T.BooleanType):
        truth = {("=", True): name, ("=", False): f"NOT {name}"}
        return truth.get((operator, bool(value)))
    if pa.types.is_timestamp(column.stored_type):
        return compared_time(name, column.stored_type, operator, value) if isinstance(value, int) else None
    text = literal(column, value)
    return None if text is None else f"{name} {operator} {text}"


def listed_in(column: StoredColumn, values: Sequence[object], *, negated: bool = False) -> str | None:
    """Return a filter for the values in a list, or if negated for all other values."""
    if not values:
        return None if negated else "false"
    stored = column.stored_type
    is_single = isinstance(column.spark_type, T.FloatType | T.DoubleType | T.BooleanType)
    if is_single or getattr(stored, "unit", None) == "ns":
        return None if negated else any_of([compared(column, "=", each) for each in values])
    name = quoted_name(column.name)
    if pa.types.is_timestamp(stored):
        times = [each for each in values if isinstance(each, int)]
        return times_listed_in(name, stored, times, negated=negated) if len(times) == len(values) else None
    texts = [literal(column, each) for each in values]
    if None in texts:
        return None
    return f"{name} {'NOT IN' if negated else 'IN'} ({', '.join(map(str, texts))})"


def literal(column: StoredColumn, value: object) -> str | None:
    """Return a value as SQL, in a type that compares with the stored column without a cast."""
    for kind, write in _LITERALS:
        if isinstance(column.spark_type, kind):
            return write(column, value)
    return None


def _integer(_: StoredColumn, value: object) -> str | None:
    return str(value) if isinstance(value, int) and abs(value) < 10**18 else None


def _text(_: StoredColumn, value: object) -> str | None:
    # a text that is not valid in Python arrives with the replacement character
    if not isinstance(value, str) or any(each < " " or each == "\ufffd" for each in value):
        return None
    return quote_string(value)


def _date(_: StoredColumn, value: object) -> str | None:
    if not isinstance(value, int) or not _FIRST_DAY <= value <= _LAST_DAY:
        return None
    return f"DATE '{np.datetime64(value, 'D')}'"


def _decimal(column: StoredColumn, value: object) -> str | None:
    stored = column.stored_type
    return f"arrow_cast('{value}', 'Decimal128({stored.precision}, {stored.scale})')"


_LITERALS: Final[Sequence[tuple[type[T.DataType], Callable[[StoredColumn, object], str | None]]]] = (
    (T.IntegralType, _integer),
    (T.StringType, _text),
    (T.DateType, _date),
    (T.DecimalType, _decimal),
)


def stored_column(
    name: str, spark_type: T.DataType, stored: pa.DataType, *, is_digits: bool = False
) -> StoredColumn | None:
    """Return a column, or None if Spark's values differ from the stored ones or have no literals."""
    if not _PLAIN_NAME.fullmatch(name):
        return None
    fits = next((fits for kind, fits in _SAME_VALUES if isinstance(spark_type, kind)), None)
    if fits is None or not fits(spark_type, stored):
        return None
    return StoredColumn(name, spark_type, stored, is_digits)


def _beyond_calendar(column: StoredColumn) -> str | None:
    """Return a filter for days and times that may be beyond the years that DataFusion's parts support."""
    ticks = 1 if isinstance(column.spark_type, T.DateType) else _DAY_MICROS
    before = compared(column, "<", _FIRST_DAY * ticks)
    return any_of([before, compared(column, ">=", _LAST_DAY * ticks)])


def _is_text(spark_type: T.DataType, stored: pa.DataType) -> bool:
    is_text = pa.types.is_string(stored) or pa.types.is_large_string(stored)
    # the type may have another collation, or be padded
    return is_text and spark_type == T.StringType() and type(spark_type) is T.StringType


_SAME_VALUES: Final[Sequence[tuple[type[T.DataType], Callable[[T.DataType, pa.DataType], bool]]]] = (
    (T.BooleanType, lambda _, stored: pa.types.is_boolean(stored)),
    (T.IntegralType, lambda _, stored: pa.types.is_integer(stored)),
    (T.FloatType, lambda _, stored: pa.types.is_float32(stored)),
    (T.DoubleType, lambda _, stored: pa.types.is_float64(stored)),
    (T.StringType, _is_text),
    (T.DateType, lambda _, stored: pa.types.is_date32(stored)),
    (T.TimestampType, lambda _, stored: pa.types.is_timestamp(stored) and stored.tz is not None),
    (T.TimestampNTZType, lambda _, stored: pa.types.is_timestamp(stored) and stored.tz is None),
    (
        T.DecimalType,
        lambda kind, stored: (
            pa.types.is_decimal128(stored)
            and isinstance(kind, T.DecimalType)
            and (stored.precision, stored.scale) == (kind.precision, kind.scale)
        ),
    ),
)


def _compared_float(name: str, operator: str, value: object, *, is_double: bool) -> str | None:
    """Return a comparison of floats, in which -0.0 equals 0.0, and NaN of either sign is the greatest."""
    if not isinstance(value, float) or not math.isfinite(value):
        return None

    def text(number: float | str) -> str:
        return str(number) if is_double else f"arrow_cast({number}, 'Float32')"

    low, high = text(-0.0 if value == 0 else value), text(abs(value) if value == 0 else value)
    if operator == "=":
        return f"({name} >= {low} AND {name} <= {high})" if value == 0 else f"{name} = {low}"
    if operator in ("<", "<="):
        return f"{name} {operator} {high}"
    if operator in (">", ">="):
        # to Arrow, a NaN with its sign set is less than all other values
        return f"({name} {operator} {low} OR {name} < {text(_BELOW_ALL)})"
    return None if value == 0 else f"{name} <> {low}"


def _next_text(prefix: str) -> str | None:
    """Return the first text after all texts that begin with a prefix, or None."""
    code = ord(prefix[-1]) + 1
    if code == 0xD800:  # skip the surrogates
        code = 0xE000
    return None if code > 0x10FFFF else prefix[:-1] + chr(code)


def _plain(value: Any) -> object:
    """Return the value of a JVM literal in Python."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if class_of(value) == "Decimal":
        return format(value.toJavaBigDecimal(), "f")
    return bytes(value.getBytes()).decode(errors="replace")  # of a UTF8String


def _values_of_set(values: Any) -> list[object] | None:
    if values.size() > _MAX_ITEMS:
        return None
    held = values.toSeq()
    return list(items(held))


def _type_of(expression: Any) -> T.DataType | None:
    from pyspark.sql.types import _parse_datatype_json_string

    return _parse_datatype_json_string(expression.dataType().json())


def _is_of(expression: Any, column: StoredColumn) -> bool:
    return _type_of(expression) == column.spark_type


def _zone(expression: Any) -> str | None:
    """Return the time zone of an expression that may have one."""
    zone = expression.timeZoneId()
    return str(zone.get()) if zone.isDefined() else None
