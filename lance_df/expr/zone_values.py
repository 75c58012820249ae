"""What the values of many zones may be, and the outcomes that one comparison may have on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Self, assert_never

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.expr.floats import float_values, is_negative_nan
from lance_df.expr.literals import plain_array, storage_type, unscaled, without_views
from lance_df.expr.nodes import Comparison, In, Operator, Truth
from lance_df.records import dataclass

if TYPE_CHECKING:
    from lance_df.expr.bounds import ZoneBounds

_Flags = npt.NDArray[np.bool_]


class Case(Enum):
    """What a row's value may be, as far as comparing goes."""

    VALUE = auto()
    NAN_ABOVE = auto()
    NAN_BELOW = auto()
    NULL = auto()


@dataclass(frozen=True, slots=True)
class Outcomes:
    """For each zone, which of TRUE, FALSE and NULL a predicate may have on its rows."""

    true: _Flags
    false: _Flags
    null: _Flags

    @classmethod
    def constant(cls, value: bool | None, num_zones: int) -> Self:
        return cls(*(np.full(num_zones, value is each) for each in (True, False, None)))

    @classmethod
    def anything(cls, num_zones: int) -> Self:
        return cls(*(np.ones(num_zones, dtype=np.bool_) for _ in range(3)))

    @classmethod
    def nothing(cls, num_zones: int) -> Self:
        return cls(*(np.zeros(num_zones, dtype=np.bool_) for _ in range(3)))

    @classmethod
    def conjunction(cls, parts: Sequence[Outcomes], num_zones: int) -> Outcomes:
        """Combine by Kleene's AND: NULL needs a NULL, and every other part not FALSE."""
        result = Outcomes.constant(True, num_zones)
        for part in parts:
            null = (result.null & (part.null | part.true)) | (result.true & part.null)
            result = Outcomes(result.true & part.true, result.false | part.false, null)
        return result

    @classmethod
    def disjunction(cls, parts: Sequence[Outcomes], num_zones: int) -> Outcomes:
        """Combine by Kleene's OR."""
        return cls.conjunction([part.negated() for part in parts], num_zones).negated()

    def negated(self) -> Outcomes:
        return Outcomes(self.false, self.true, self.null)

    def tested_for_null(self) -> Outcomes:
        return Outcomes(self.null, self.true | self.false, np.zeros_like(self.null))

    def or_else(self, other: Outcomes) -> Outcomes:
        """Return what is possible in either."""
        return Outcomes(self.true | other.true, self.false | other.false, self.null | other.null)

    def where(self, mask: _Flags) -> Outcomes:
        """Return nothing for the zones outside of ``mask``."""
        return Outcomes(self.true & mask, self.false & mask, self.null & mask)


@dataclass(frozen=True, slots=True)
class ZoneValues:
    """Bounds in a form that compares: plain types, unknown bounds null, and the cases each zone may hold.

    ``type`` is the type of the bounds as they were given, which literals have, too.
    """

    type: pa.DataType
    min: pa.Array
    max: pa.Array
    cases: Mapping[Case, _Flags]

    def __len__(self) -> int:
        return len(self.min)


def from_bounds(bounds: ZoneBounds) -> ZoneValues:
    """Derive the cases from the counts, and forget bounds that are NaN."""
    data_type = storage_type(bounds.min.type)
    minimum, maximum = _comparable(bounds.min), _comparable(bounds.max)
    everything = np.ones(len(bounds), dtype=np.bool_)
    nulls = bounds.null_count
    only_null = ~everything if nulls is None else nulls >= bounds.num_rows
    cases = {Case.NULL: everything if nulls is None else nulls > 0}
    if not pa.types.is_floating(minimum.type):
        return ZoneValues(data_type, minimum, maximum, {Case.VALUE: ~only_null, **cases})
    nan_bound = _is_nan(minimum) | _is_nan(maximum)
    has_nan = (~only_null if bounds.nan_count is None else bounds.nan_count > 0) | nan_bound
    no_value = only_null
    if nulls is not None and bounds.nan_count is not None:
        no_value = nulls + bounds.nan_count >= bounds.num_rows
    cases |= {Case.VALUE: ~no_value, Case.NAN_ABOVE: has_nan, Case.NAN_BELOW: has_nan}
    return ZoneValues(data_type, _without_nan(minimum), _without_nan(maximum), cases)


def judge_leaf(predicate: Comparison | In | Truth, zone: ZoneValues, case: Case) -> Outcomes:
    """Return the outcomes of a comparison with literals of the zone's own type, for rows of one case."""
    if case is Case.NULL:
        return Outcomes.constant(None, len(zone))
    match predicate:
        case Truth():
            return _judge_value(Operator.EQ, pa.scalar(True), zone)
        case Comparison(_, operator, value):
            literal = _comparable(pa.repeat(value, 1))
            side = _literal_side(literal, case)
            if side is None:
                return _judge_value(operator, literal[0], zone)
            return _judge_apart(operator, side, len(zone))
        case In():
            return _judge_list(predicate, zone, case)
        case _:
            assert_never(predicate)


def is_variable_width(data_type: pa.DataType) -> bool:
    """Return whether values are strings or binary of any length."""
    kinds = pa.types
    return (
        kinds.is_string(data_type)
        or kinds.is_large_string(data_type)
        or kinds.is_binary(data_type)
        or kinds.is_large_binary(data_type)
        or kinds.is_string_view(data_type)
        or kinds.is_binary_view(data_type)
    )


def _literal_side(literal: pa.Array, case: Case) -> int | None:
    """Say where rows of a case lie: -1 below the literal, 1 above, 0 either; ``None``: ask the bounds."""
    rank = {Case.VALUE: 0, Case.NAN_ABOVE: 1, Case.NAN_BELOW: -1}[case]
    if not pa.types.is_floating(literal.type) or not _is_nan(literal)[0]:
        return None if case is Case.VALUE else rank
    literal_rank = -1 if is_negative_nan(float_values(literal))[0] else 1
    return (rank > literal_rank) - (rank < literal_rank)


def _judge_apart(operator: Operator, side: int, num_zones: int) -> Outcomes:
    """Judge rows that lie on one side of the literal, or anywhere around it when ``side`` is 0."""
    if side == 0:
        may = np.ones(num_zones, dtype=np.bool_)
        return Outcomes(may, may, ~may)
    true_on = {-1: (Operator.NE, Operator.LT, Operator.LE), 1: (Operator.NE, Operator.GT, Operator.GE)}
    return Outcomes.constant(operator in true_on[side], num_zones)


def _judge_value(operator: Operator, literal: pa.Scalar, zone: ZoneValues) -> Outcomes:
    """Judge rows whose values lie within the bounds. A null bound compares as NULL, which proves nothing."""

    def proven(kernel: Any, bound: pa.Array) -> _Flags:
        return np.asarray(pc.fill_null(kernel(bound, literal), False))

    match operator:
        case Operator.LT | Operator.GE:
            all_below = proven(pc.less, zone.max)
            none_below = proven(pc.greater_equal, zone.min)
            outcomes = Outcomes(~none_below, ~all_below, np.zeros_like(all_below))
            return outcomes if operator is Operator.LT else outcomes.negated()
        case Operator.LE | Operator.GT:
            all_within = proven(pc.less_equal, zone.max)
            none_within = proven(pc.greater, zone.min)
            outcomes = Outcomes(~none_within, ~all_within, np.zeros_like(all_within))
            return outcomes if operator is Operator.LE else outcomes.negated()
        case Operator.EQ | Operator.NE:
            none_equal = proven(pc.greater, zone.min) | proven(pc.less, zone.max)
            all_equal = proven(pc.equal, zone.min) & proven(pc.equal, zone.max)
            outcomes = Outcomes(~none_equal, ~all_equal, np.zeros_like(all_equal))
            return outcomes if operator is Operator.EQ else outcomes.negated()
        case _:
            assert_never(operator)


def _judge_list(predicate: In, zone: ZoneValues, case: Case) -> Outcomes:
    items = _comparable(predicate.values)
    if pa.types.is_floating(items.type):
        nans = _is_nan(items)
        if case is not Case.VALUE:
            below = is_negative_nan(float_values(items))
            is_listed = bool((nans & (below == (case is Case.NAN_BELOW))).any())
            may_be_listed, all_listed = np.full(len(zone), is_listed), np.zeros(len(zone), dtype=np.bool_)
            return _list_outcomes(predicate, may_be_listed, all_listed)
        items = items.filter(pa.array(~nans))
    keys, low, high = order_keys_of(items, zone.min, zone.max)
    keys = np.sort(keys)
    known_low, known_high = _is_valid(zone.min), _is_valid(zone.max)
    first = np.where(known_low, np.searchsorted(keys, low, side="left"), 0)
    last = np.where(known_high, np.searchsorted(keys, high, side="right"), len(keys))
    may_be_listed = last > first
    all_listed = may_be_listed & known_low & known_high & (low == high)
    if pa.types.is_floating(items.type):
        all_listed &= low != 0  # lists distinguish -0.0 from 0.0, bounds do not
    return _list_outcomes(predicate, may_be_listed, all_listed)


def _list_outcomes(predicate: In, may_be_listed: _Flags, all_listed: _Flags) -> Outcomes:
    """A value that is not in a list with a NULL gives NULL, not FALSE."""
    missed, never = ~all_listed, np.zeros_like(all_listed)
    return (
        Outcomes(may_be_listed, never, missed)
        if predicate.has_null
        else Outcomes(may_be_listed, missed, never)
    )


def order_keys_of(*arrays: pa.Array) -> list[npt.NDArray[Any]]:
    """Return numpy arrays that compare among each other as the values do; keys of nulls are arbitrary.

    All arrays have the same type, and hold no NaN.
    """
    data_type = arrays[0].type
    if pa.types.is_floating(data_type):
        return [float_values(array) for array in arrays]
    width = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}
    is_number = pa.types.is_integer(data_type) or pa.types.is_temporal(data_type)
    if is_number and not pa.types.is_interval(data_type):
        plain = data_type if pa.types.is_integer(data_type) else width[data_type.bit_width]
        return [np.asarray(array.view(plain).fill_null(0)) for array in arrays]
    both = pa.concat_arrays(arrays)
    order = np.asarray(pc.array_sort_indices(both))
    ordered = both.take(pa.array(order))
    rises = np.asarray(pc.fill_null(pc.not_equal(ordered[1:], ordered[:-1]), True))
    keys = np.empty(len(both), dtype=np.int64)
    keys[order] = np.concatenate([[0], np.cumsum(rises)]) if len(both) else []
    return np.split(keys, np.cumsum([len(array) for array in arrays])[:-1])


def _comparable(values: pa.Array) -> pa.Array:
    """Return values in a type that pyarrow compares and sorts, in the same order."""
    plain = unscaled(without_views(plain_array(values)))
    return plain.cast(pa.float32()) if pa.types.is_float16(plain.type) else plain


def _is_valid(values: pa.Array) -> _Flags:
    return np.asarray(values.is_valid())


def _is_nan(values: pa.Array) -> _Flags:
    return np.isnan(float_values(values)) & _is_valid(values)


def _without_nan(values: pa.Array) -> pa.Array:
    return pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)
