"""Decide from bounds whether a predicate cannot, might or must be TRUE for the rows of a zone.

A predicate on one column is evaluated for four cases: a value within the bounds, a NaN of either sign, and
NULL. The result of a case states which of TRUE, FALSE and NULL are possible. The possible outcomes of a zone
are those of all cases that the zone may contain. A NaN that satisfies only one side of ``x >= 1 AND x <= 5``
therefore does not prevent pruning. Predicates on several columns are combined by Kleene's rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import IntEnum
from typing import TypeAlias, assert_never

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_df.expr import zone_values
from lance_df.expr.literals import bind_literals
from lance_df.expr.nodes import (
    And,
    Column,
    Comparison,
    In,
    IsNull,
    Literal,
    Not,
    Or,
    Predicate,
    Truth,
    Unknown,
)
from lance_df.expr.simplify import simplify
from lance_df.expr.walk import by_column, columns, has_unknown
from lance_df.expr.zone_values import Case, Outcomes, ZoneValues
from lance_df.records import dataclass

_Path: TypeAlias = tuple[str, ...]


class Match(IntEnum):
    """Whether a predicate is TRUE for no row of a zone, possibly for some rows, or for all rows."""

    CANNOT = 0
    MIGHT = 1
    MUST = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneBounds:
    """Bounds of one column for many zones. All arrays have one entry per zone.

    Attributes
    ----------
    min, max
        Lower and upper bounds of the values of a zone, without NULLs and NaNs. A null or NaN bound is
        unknown. Bounds need not be values that occur, so truncated strings are valid.
    null_count
        The number of NULLs; ``None`` if unknown.
    nan_count
        The number of NaNs; ``None`` if unknown. Has no meaning for types without NaN.
    num_rows
        The number of rows, or an upper bound. If there are as many NULLs and NaNs, the zone has no other
        values.
    """

    min: pa.Array
    max: pa.Array
    null_count: npt.NDArray[np.int64] | None = None
    nan_count: npt.NDArray[np.int64] | None = None
    num_rows: npt.NDArray[np.int64]
    _values: ZoneValues | None = field(default=None, init=False, repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.num_rows)

    @property
    def values(self) -> ZoneValues:
        """The bounds in a form that can be compared."""
        values = self._values
        if values is None:
            values = zone_values.from_bounds(self)
            object.__setattr__(self, "_values", values)
        return values


def bounds_of_legacy_pages(
    minimum: pa.Array, maximum: pa.Array, null_count: npt.ArrayLike, num_rows: npt.ArrayLike
) -> ZoneBounds:
    """Return what the statistics of a 0.1 file imply for the values that readers of the file get.

    The statistics describe the array before it was written, but pages store no validity. A NULL of a
    fixed-width type is stored as some value, which may be outside of the bounds, and is read as that value.
    Empty strings are read as NULL. For fixed-width pages that had NULLs, it is therefore only known that no
    row is NULL. For strings and binary, the number of NULLs is unknown.
    """
    rows = np.asarray(num_rows, dtype=np.int64)
    if zone_values.is_variable_width(minimum.type):
        return ZoneBounds(min=minimum, max=maximum, num_rows=rows)
    had_nulls = np.asarray(null_count, dtype=np.int64) > 0
    return ZoneBounds(
        min=_without(minimum, had_nulls),
        max=_without(maximum, had_nulls),
        null_count=np.zeros(len(rows), dtype=np.int64),
        num_rows=rows,
    )


def classify(
    predicate: Predicate, bounds: Mapping[_Path, ZoneBounds], num_zones: int
) -> npt.NDArray[np.int8]:
    """Return a `Match` for each zone, as int8.

    Parameters
    ----------
    predicate
        May contain `Unknown`, which may have any result.
    bounds
        Columns without bounds may contain any values. This is also true for zones with null bounds or
        contradictory bounds: a minimum above the maximum, or more NULLs than rows.
    num_zones
        The number of zones, which is the length of the bounds of each column.
    """
    if num_zones == 0:
        return np.empty(0, dtype=np.int8)
    values = {path: zone.values for path, zone in bounds.items()}
    outcomes = _judge(simplify(predicate), values, num_zones)
    result = np.full(num_zones, Match.MIGHT, dtype=np.int8)
    result[outcomes.true & ~outcomes.false & ~outcomes.null] = Match.MUST
    result[~outcomes.true] = Match.CANNOT
    for zone in values.values():
        result[zone.is_contradictory] = Match.MIGHT
    return result


def _judge(predicate: Predicate, values: Mapping[_Path, ZoneValues], num_zones: int) -> Outcomes:
    """Return the possible outcomes of a predicate on any columns."""
    paths = columns(predicate)
    if len(paths) == 1 and not has_unknown(predicate):
        (path,) = paths
        zone = values.get(path)
        return Outcomes.anything(num_zones) if zone is None else _judge_column(predicate, zone)
    match predicate:
        case Literal(value):
            return Outcomes.constant(value, num_zones)
        case Not(operand):
            return _judge(operand, values, num_zones).negated()
        case IsNull(operand) if not isinstance(operand, Column):
            return _judge(operand, values, num_zones).tested_for_null()
        case And(operands):
            parts = [_judge(part, values, num_zones) for part in by_column(And, operands)]
            return Outcomes.conjunction(parts, num_zones)
        case Or(operands):
            parts = [_judge(part, values, num_zones) for part in by_column(Or, operands)]
            return Outcomes.disjunction(parts, num_zones)
        case _:
            return Outcomes.anything(num_zones)


def _judge_column(predicate: Predicate, zone: ZoneValues) -> Outcomes:
    """Return the possible outcomes of a predicate on one column, over all cases that a zone may contain."""
    result = Outcomes.nothing(len(zone))
    bound = bind_literals(predicate, zone.type)
    for case, is_possible in zone.cases.items():
        if is_possible.any():
            result = result.or_else(_judge_case(bound, zone, case).where(is_possible))
    return result


def _judge_case(predicate: Predicate, zone: ZoneValues, case: Case) -> Outcomes:
    match predicate:
        case Truth():
            return zone_values.judge_leaf(predicate, zone, case)
        case Comparison() | In():
            return zone_values.judge_leaf(predicate, zone, case)
        case IsNull(operand):
            if isinstance(operand, Column):
                return Outcomes.constant(case is Case.NULL, len(zone))
            return _judge_case(operand, zone, case).tested_for_null()
        case Literal(value):
            return Outcomes.constant(value, len(zone))
        case Not(operand):
            return _judge_case(operand, zone, case).negated()
        case And(operands):
            return Outcomes.conjunction([_judge_case(part, zone, case) for part in operands], len(zone))
        case Or(operands):
            return Outcomes.disjunction([_judge_case(part, zone, case) for part in operands], len(zone))
        case Unknown():
            return Outcomes.anything(len(zone))
        case _:
            assert_never(predicate)


def _without(values: pa.Array, mask: npt.NDArray[np.bool_]) -> pa.Array:
    return values.take(pa.array(np.arange(len(mask)), mask=mask))
