"""The possible values of many zones, and the possible outcomes of a comparison with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final, Self, assert_never

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

# decimals with at most this many digits are in the lower of their two words
_INT64_DIGITS: Final = 18


class Case(Enum):
    """The kind of a row's value, as far as comparisons are concerned."""

    VALUE = auto()
    NAN_ABOVE = auto()
    NAN_BELOW = auto()
    NULL = auto()


@dataclass(frozen=True, slots=True)
class Outcomes:
    """For each zone, whether a predicate may be TRUE, FALSE and NULL for its rows."""

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
        """Combine by Kleene's AND: for NULL, one part must be NULL and no other part FALSE."""
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
        """Return the outcomes that are possible in either of the two."""
        return Outcomes(self.true | other.true, self.false | other.false, self.null | other.null)

    def where(self, mask: _Flags) -> Outcomes:
        """Return the outcomes of the zones in ``mask``, and no outcomes for other zones."""
        return Outcomes(self.true & mask, self.false & mask, self.null & mask)


@dataclass(frozen=True, slots=True)
class ZoneValues:
    """Bounds in a form that can be compared, and the cases that each zone may contain.

    Attributes
    ----------
    type
        The type of the given bounds. Literals have the same type.
    numbers
        ``min`` and ``max`` as numpy arrays, if numpy can compare them. Most tables have few bounds, for which
        a call of pyarrow takes longer.
    has_min, has_max
        Which bounds are known.
    is_contradictory
        Which zones have bounds that cannot be true. They come from damaged files and prove nothing.
    """

    type: pa.DataType
    min: pa.Array
    max: pa.Array
    numbers: tuple[npt.NDArray[Any], npt.NDArray[Any]] | None
    has_min: _Flags
    has_max: _Flags
    cases: Mapping[Case, _Flags]
    is_contradictory: _Flags

    def __len__(self) -> int:
        return len(self.min)

    def below(self, literal: pa.Array) -> tuple[_Flags, _Flags]:
        """Return which zones have a known minimum below a literal, and which a known maximum below it."""
        return self._compared(np.less, pc.less, literal)

    def above(self, literal: pa.Array) -> tuple[_Flags, _Flags]:
        """Return which zones have a known minimum above a literal, and which a known maximum above it."""
        return self._compared(np.greater, pc.greater, literal)

    def _compared(self, ufunc: np.ufunc, kernel: Any, literal: pa.Array) -> tuple[_Flags, _Flags]:
        number = None if self.numbers is None else _numbers(literal)
        if self.numbers is not None and number is not None:
            low, high = self.numbers
            return ufunc(low, number) & self.has_min, ufunc(high, number) & self.has_max
        low, high = (
            np.asarray(pc.fill_null(kernel(bound, literal[0]), False)) for bound in (self.min, self.max)
        )
        return low, high


def from_bounds(bounds: ZoneBounds) -> ZoneValues:
    """Derive the cases from the counts. NaN bounds become unknown."""
    minimum, maximum = _comparable(bounds.min), _comparable(bounds.max)
    is_contradictory = _contradictory(bounds)
    everything = np.ones(len(bounds), dtype=np.bool_)
    nulls = bounds.null_count
    only_null = ~everything if nulls is None else nulls >= bounds.num_rows
    cases = {Case.VALUE: ~only_null, Case.NULL: everything if nulls is None else nulls > 0}
    if pa.types.is_floating(minimum.type):
        nan_bound = _is_nan(minimum) | _is_nan(maximum)
        has_nan = (~only_null if bounds.nan_count is None else bounds.nan_count > 0) | nan_bound
        if nulls is not None and bounds.nan_count is not None:
            cases[Case.VALUE] = nulls + bounds.nan_count < bounds.num_rows
        cases |= {Case.NAN_ABOVE: has_nan, Case.NAN_BELOW: has_nan}
        minimum, maximum = _without_nan(minimum), _without_nan(maximum)
    low, high = _numbers(minimum), _numbers(maximum)
    return ZoneValues(
        storage_type(bounds.min.type),
        minimum,
        maximum,
        None if low is None or high is None else (low, high),
        _is_valid(minimum),
        _is_valid(maximum),
        cases,
        is_contradictory,
    )


def _contradictory(bounds: ZoneBounds) -> _Flags:
    wrong = np.zeros(len(bounds), dtype=bool)
    for counts in (bounds.null_count, bounds.nan_count):
        if counts is not None:
            wrong |= (counts < 0) | (counts > bounds.num_rows)
    try:
        reversed_bounds = pc.greater(bounds.min, bounds.max)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):  # Arrow cannot order the type
        return wrong
    return wrong | reversed_bounds.fill_null(False).to_numpy(zero_copy_only=False)


def judge_leaf(predicate: Comparison | In | Truth, zone: ZoneValues, case: Case) -> Outcomes:
    """Return the outcomes of a comparison with literals of the zone's type, for rows of one case."""
    if case is Case.NULL:
        return Outcomes.constant(None, len(zone))
    match predicate:
        case Truth():
            return _judge_value(Operator.EQ, pa.array([True]), zone)
        case Comparison(_, operator, value):
            literal = _comparable(pa.repeat(value, 1))
            side = _literal_side(literal, case)
            if side is None:
                return _judge_value(operator, literal, zone)
            return _judge_apart(operator, side, len(zone))
        case In():
            return _judge_list(predicate, zone, case)
        case _:
            assert_never(predicate)


def is_variable_width(data_type: pa.DataType) -> bool:
    """Return whether values are strings or binary values of variable length."""
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
    """Return the side of the literal on which a case lies: -1 below, 1 above, 0 either; None: see bounds."""
    rank = {Case.VALUE: 0, Case.NAN_ABOVE: 1, Case.NAN_BELOW: -1}[case]
    if not pa.types.is_floating(literal.type) or not _is_nan(literal)[0]:
        return None if case is Case.VALUE else rank
    literal_rank = -1 if is_negative_nan(float_values(literal))[0] else 1
    return (rank > literal_rank) - (rank < literal_rank)


def _judge_apart(operator: Operator, side: int, num_zones: int) -> Outcomes:
    """Return the outcomes for rows on one side of the literal, or on either side if ``side`` is 0."""
    if side == 0:
        may = np.ones(num_zones, dtype=np.bool_)
        return Outcomes(may, may, ~may)
    true_on = {-1: (Operator.NE, Operator.LT, Operator.LE), 1: (Operator.NE, Operator.GT, Operator.GE)}
    return Outcomes.constant(operator in true_on[side], num_zones)


def _judge_value(operator: Operator, literal: pa.Array, zone: ZoneValues) -> Outcomes:
    """Return the outcomes for rows whose values are within the bounds. An unknown bound proves nothing."""
    never = np.zeros(len(zone), dtype=np.bool_)
    match operator:
        case Operator.LT | Operator.GE:
            min_below, all_below = zone.below(literal)
            none_below = zone.has_min & ~min_below
            outcomes = Outcomes(~none_below, ~all_below, never)
            return outcomes if operator is Operator.LT else outcomes.negated()
        case Operator.LE | Operator.GT:
            none_within, max_above = zone.above(literal)
            all_within = zone.has_max & ~max_above
            outcomes = Outcomes(~none_within, ~all_within, never)
            return outcomes if operator is Operator.LE else outcomes.negated()
        case Operator.EQ | Operator.NE:
            min_below, max_below = zone.below(literal)
            min_above, max_above = zone.above(literal)
            all_equal = zone.has_min & zone.has_max & ~(min_below | max_below | min_above | max_above)
            outcomes = Outcomes(~(min_above | max_below), ~all_equal, never)
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
    numbers = None if zone.numbers is None else _numbers(items)
    if zone.numbers is not None and numbers is not None:
        keys, (low, high) = numbers, zone.numbers
    else:
        keys, low, high = _order_keys_of(items, zone.min, zone.max)
    keys = np.sort(keys)
    first = np.where(zone.has_min, np.searchsorted(keys, low, side="left"), 0)
    last = np.where(zone.has_max, np.searchsorted(keys, high, side="right"), len(keys))
    may_be_listed = last > first
    all_listed = may_be_listed & zone.has_min & zone.has_max & (low == high)
    if pa.types.is_floating(items.type):
        all_listed &= low != 0  # lists distinguish -0.0 from 0.0, but bounds do not
    return _list_outcomes(predicate, may_be_listed, all_listed)


def _list_outcomes(predicate: In, may_be_listed: _Flags, all_listed: _Flags) -> Outcomes:
    """Return the outcomes of a list. If the list has a NULL, values that it lacks give NULL, not FALSE."""
    missed, never = ~all_listed, np.zeros_like(all_listed)
    return (
        Outcomes(may_be_listed, never, missed)
        if predicate.has_null
        else Outcomes(may_be_listed, missed, never)
    )


def _numbers(values: pa.Array) -> npt.NDArray[Any] | None:
    """Return values as a numpy array with the same order, except for NaN; None if numpy cannot compare them.

    The values at nulls are arbitrary.
    """
    data_type = values.type
    types = pa.types
    if types.is_floating(data_type):
        return float_values(values)
    if types.is_decimal128(data_type) and data_type.precision <= _INT64_DIGITS:
        words = _words(values, np.dtype((np.int64, 2)))
        low, high = words[:, 0], words[:, 1]
        is_whole = high == low >> 63
        return low if is_whole.all() or is_whole[_is_valid(values)].all() else None
    if types.is_integer(data_type):
        return _words(values, np.dtype(data_type.to_pandas_dtype()))
    if types.is_temporal(data_type) and not types.is_interval(data_type):
        return _words(values, np.dtype(f"i{data_type.bit_width // 8}"))
    return None


def _words(values: pa.Array, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    data = values.buffers()[1]
    if data is None or not len(values):
        return np.zeros(len(values), dtype)
    return np.frombuffer(data, dtype, len(values), values.offset * dtype.itemsize)


def _order_keys_of(*arrays: pa.Array) -> list[npt.NDArray[Any]]:
    """Return numpy keys with the order of the values across all arrays; keys of nulls are arbitrary.

    All arrays must have the same type and contain no NaN.
    """
    both = pa.concat_arrays(arrays)
    order = np.asarray(pc.array_sort_indices(both))
    ordered = both.take(pa.array(order))
    rises = np.asarray(pc.fill_null(pc.not_equal(ordered[1:], ordered[:-1]), True))
    keys = np.empty(len(both), dtype=np.int64)
    keys[order] = np.concatenate([[0], np.cumsum(rises)]) if len(both) else []
    return np.split(keys, np.cumsum([len(array) for array in arrays])[:-1])


def _comparable(values: pa.Array) -> pa.Array:
    """Return values in a type that pyarrow can compare and sort, in the same order."""
    plain = unscaled(without_views(plain_array(values)))
    return plain.cast(pa.float32()) if pa.types.is_float16(plain.type) else plain


def _is_valid(values: pa.Array) -> _Flags:
    return np.asarray(values.is_valid())


def _is_nan(values: pa.Array) -> _Flags:
    return np.isnan(float_values(values)) & _is_valid(values)


def _without_nan(values: pa.Array) -> pa.Array:
    return pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)
