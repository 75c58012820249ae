"""Derive conditions on calendar parts from ranges of a date or timestamp.

A year with its months, days and hours is compared as a whole: "from November 2023 on" becomes ``year > 2023
OR (year = 2023 AND month >= 11)``. Without a year, parts repeat: a range shorter than a cycle covers some of
them, and may wrap around.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_df.expr.nodes import And, Column, Comparison, In, IsNull, Literal, Not, Operator, Or, Predicate
from lance_df.namespace.spec.partition_spec import PartitionField
from lance_df.namespace.spec.transforms import CALENDAR_PARTS, TransformKind
from lance_df.records import dataclass

TICKS_PER_SECOND: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
DAY_SECONDS: Final = 86_400
_UTC: Final = ("UTC", "Etc/UTC", "Z", "+00:00")
# The years of DataFusion's proleptic calendar; outside it, parts are NULL.
YEARS: Final = (-200_000, 200_000)

_UNITS: Final = {TransformKind.MONTH: "M", TransformKind.DAY: "D", TransformKind.HOUR: "h"}
_CYCLES: Final = {TransformKind.MONTH: 12, TransformKind.DAY: 31, TransformKind.HOUR: 24}
_FIRST: Final = {TransformKind.MONTH: 1, TransformKind.DAY: 1, TransformKind.HOUR: 0}
_LAST: Final = {TransformKind.MONTH: 12, TransformKind.DAY: 31, TransformKind.HOUR: 23}


@dataclass(frozen=True, slots=True)
class CalendarFields:
    """The partition fields of one spec that are calendar parts of one column.

    Attributes
    ----------
    data_type
        The type of the column.
    """

    fields: Mapping[TransformKind, PartitionField]
    data_type: pa.DataType

    @property
    def chain(self) -> tuple[TransformKind, ...]:
        """The contiguous parts from the year on: year, month, day, hour, up to the first missing one."""
        kinds: list[TransformKind] = []
        for kind in CALENDAR_PARTS:
            if kind not in self.fields:
                break
            kinds.append(kind)
        return tuple(kinds)

    def of_end(self, operator: Operator, value: pa.Scalar) -> Predicate:
        """Return the condition that ``column >= value`` or ``column <= value`` implies."""
        if not self.chain:
            return Literal(True)
        slack = zone_slack(self.data_type)
        moment = seconds_of(value) + (slack if operator is Operator.LE else -slack)
        if not _has_parts(moment):
            return Literal(True)
        parts = _parts(moment)
        limits = _FIRST if operator is Operator.GE else _LAST
        ordered = [(self._column(kind), parts[kind], limits.get(kind)) for kind in self.chain]
        implied = _lexicographic(operator, ordered)
        return Or((implied, IsNull(self._column(TransformKind.YEAR)))) if self._has_unreachable else implied

    def of_range(self, low: pa.Scalar, high: pa.Scalar) -> list[Predicate]:
        """Return the conditions that ``column BETWEEN low AND high`` implies for parts outside the chain."""
        chain, slack = self.chain, zone_slack(self.data_type)
        touched = {
            kind: _touched(kind, seconds_of(low) - slack, seconds_of(high) + slack)
            for kind in self.fields
            if kind not in chain
        }
        return [
            In(self._column(kind), pa.array(numbers, pa.int32())) if len(numbers) else Literal(False)
            for kind, numbers in touched.items()
            if numbers is not None
        ]

    @property
    def has_one_value(self) -> bool:
        """Whether all rows of a partition whose year is not NULL have the same value."""
        return pa.types.is_date32(self.data_type) and TransformKind.DAY in self.chain

    def of_others(self, listed: Predicate) -> Predicate:
        """Return the condition implied if the column has none of the values that imply ``listed``."""
        return Or((Not(listed), *(IsNull(self._column(kind)) for kind in self.chain)))

    @property
    def _has_unreachable(self) -> bool:
        """Whether the type has values outside the calendar, whose parts are NULL."""
        return not (pa.types.is_timestamp(self.data_type) and self.data_type.unit == "ns")

    def _column(self, kind: TransformKind) -> Column:
        return Column((self.fields[kind].column,))


def zone_slack(data_type: pa.DataType) -> int:
    """Return the most seconds by which local time may differ from UTC, as parts are in local time."""
    return 0 if getattr(data_type, "tz", None) in (None, *_UTC) else DAY_SECONDS


def seconds_of(value: pa.Scalar) -> int:
    """Return a date or timestamp as seconds since 1970, rounded down; in UTC if it has a time zone."""
    ticks = pa.repeat(value, 1)
    if pa.types.is_date32(value.type):
        return int(ticks.view(pa.int32())[0].as_py()) * DAY_SECONDS
    per_second = TICKS_PER_SECOND["ms" if pa.types.is_date64(value.type) else value.type.unit]
    return int(ticks.view(pa.int64())[0].as_py()) // per_second


def _parts(seconds: int) -> dict[TransformKind, int]:
    moment = np.datetime64(seconds, "s")
    year, month, day, hour = (moment.astype(f"datetime64[{unit}]") for unit in "YMDh")
    return {
        TransformKind.YEAR: int(year.astype(np.int64)) + 1970,
        TransformKind.MONTH: int((month - year.astype("datetime64[M]")).astype(np.int64)) + 1,
        TransformKind.DAY: int((day - month.astype("datetime64[D]")).astype(np.int64)) + 1,
        TransformKind.HOUR: int((hour - day.astype("datetime64[h]")).astype(np.int64)),
    }


def _lexicographic(operator: Operator, parts: Sequence[tuple[Column, int, int | None]]) -> Predicate:
    (column, number, _), *rest = parts
    value = pa.scalar(number, pa.int32())
    if all(part == limit for _, part, limit in rest):
        return Comparison(column, operator, value)
    beyond = Operator.GT if operator is Operator.GE else Operator.LT
    same = And((Comparison(column, Operator.EQ, value), _lexicographic(operator, rest)))
    return Or((Comparison(column, beyond, value), same))


def _has_parts(seconds: int) -> bool:
    """Whether a time is in the calendar and valid in numpy, whose least integer is not a time."""
    return -(2**63) < seconds < 2**63 and YEARS[0] < _parts(seconds)[TransformKind.YEAR] < YEARS[1]


def _touched(kind: TransformKind, low: int, high: int) -> npt.NDArray[np.int64] | None:
    """Return the months, days or hours between two times as numbers, or None if all may occur."""
    if not (_has_parts(low) and _has_parts(high)):
        return None
    unit = f"datetime64[{_UNITS[kind]}]"
    begin, end = (int(np.datetime64(each, "s").astype(unit).astype(np.int64)) for each in (low, high))
    count = end - begin + 1
    if count >= _CYCLES[kind]:
        return None
    steps = begin + np.arange(max(count, 0))
    if kind is TransformKind.DAY:
        days = steps.astype(unit)
        return np.unique((days - days.astype("datetime64[M]").astype(unit)).astype(np.int64) + 1)
    return np.unique(steps % _CYCLES[kind] + _FIRST[kind])
