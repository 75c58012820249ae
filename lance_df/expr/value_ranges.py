"""Conditions on one column of an ordered type as ranges of numbers: each value is one, and is compared once.

Integers, dates and times are numbers already; floats are numbered in the order of `lance_df.expr.floats`,
decimals by their unscaled value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from lance_df.encodings import kernels
from lance_df.encodings.kept_rows import KeptRows
from lance_df.expr.floats import bit_values, float_values, order_keys
from lance_df.expr.nodes import And, Column, Comparison, In, IsNull, Literal, Not, Operator, Or
from lance_df.expr.whole_numbers import whole_numbers
from lance_df.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from lance_df.expr.nodes import Predicate

# Ascending, both ends included; they neither touch nor overlap.
Ranges: TypeAlias = tuple[tuple[int, int], ...]

_MAX_RANGES: Final = 4
_WORD: Final = 2**64


class RangeTest:
    """Finds the values of a type for which a predicate is TRUE; says nothing of nulls. Safe to share."""

    __slots__ = ("_bounds", "_inverted", "_kernel", "_words")

    def __init__(self, line: _NumberLine, ranges: Ranges) -> None:
        others = _complement(ranges, line)
        self._inverted = len(others) < len(ranges)
        self._bounds = [line.bounds(low, high) for low, high in (others if self._inverted else ranges)]
        self._kernel, self._words = line.kernel, line.words

    def rows(self, values: pa.Array) -> KeptRows:
        """Return where values lie within; nulls count as any value."""
        if not self._bounds:
            return KeptRows.everything(len(values)) if self._inverted else KeptRows.nothing(len(values))
        if not len(values):
            return KeptRows.nothing(0)
        words = self._words(values)
        words.flags.writeable = False  # as kernels are compiled for
        first, *others = self._bounds
        found = self._within(words, first, inverted=self._inverted)
        for bounds in others:
            part = self._within(words, bounds, inverted=self._inverted)
            found = found & part if self._inverted else found | part
        return found

    def _within(self, words: npt.NDArray[Any], bounds: npt.NDArray[Any], *, inverted: bool) -> KeptRows:
        mask = np.empty(len(words), np.bool_)
        return KeptRows(mask, self._kernel(words, bounds, inverted, mask.view(np.uint8)))


def range_test(predicate: Predicate, data_type: pa.DataType) -> RangeTest | None:
    """Return what finds values of a type for which a predicate on one column is TRUE; None if nothing does.

    Literals of other types than the column's are not looked into.
    """
    line = _line_of(data_type)
    if line is None or (truth := _truth(predicate, line)) is None:
        return None
    if min(len(truth.true), len(_complement(truth.true, line))) > _MAX_RANGES:
        return None
    return RangeTest(line, truth.true)


@dataclass(frozen=True, slots=True)
class _NumberLine:
    """The numbers of the values of a type, and how they are compared.

    Attributes
    ----------
    dtype, width
        The words that values are made of, and how many there are of a value.
    """

    data_type: pa.DataType
    kernel: Callable[..., int]
    dtype: np.dtype[Any]
    width: int
    lowest: int
    highest: int

    def number(self, value: pa.Scalar) -> int:
        """Return the number of a value of the type."""
        words = self.words(pa.repeat(value, 1))
        if pa.types.is_floating(self.data_type):
            words = order_keys(words.view(f"f{words.itemsize}"))
        if self.width == 1:
            return int(words[0])
        low, high = words[0].tolist()
        return int(low + _WORD * (high - _WORD if high >> 63 else high))

    def words(self, values: pa.Array) -> npt.NDArray[Any]:
        """Return the words of values, nulls as any; several to a row where a value has several."""
        count, size = len(values) * self.width, self.width * self.dtype.itemsize
        words = np.frombuffer(values.buffers()[1], self.dtype, count, values.offset * size)
        return words if self.width == 1 else words.reshape(-1, self.width)

    def bounds(self, low: int, high: int) -> npt.NDArray[Any]:
        """Return the ends of a range as the kernel takes them."""
        if self.width == 1:
            return _frozen(np.array([low, high], self.dtype))
        span = high - low
        return _frozen(np.array([_two_words(low), _two_words(span)], self.dtype))


def _line_of(data_type: pa.DataType) -> _NumberLine | None:
    if pa.types.is_decimal128(data_type):
        return _NumberLine(data_type, kernels.pairs_within, np.dtype("<u8"), 2, -(2**127), 2**127 - 1)
    empty = pa.array([], data_type)
    if pa.types.is_floating(data_type):
        kernel, dtype = kernels.floats_within, bit_values(float_values(empty)).dtype
    elif (numbers := whole_numbers(empty)) is not None:
        kernel, dtype = kernels.numbers_within, numbers.dtype
    else:
        return None
    limits = np.iinfo(dtype)
    return _NumberLine(data_type, kernel, dtype, 1, int(limits.min), int(limits.max))


def _two_words(number: int) -> tuple[int, int]:
    return number % _WORD, number // _WORD % _WORD


def _frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    array.flags.writeable = False
    return array


@dataclass(frozen=True, slots=True)
class _Truth:
    """Where a predicate is TRUE, and where it is FALSE, of values that are not null."""

    true: Ranges
    false: Ranges


def _truth(predicate: Predicate, line: _NumberLine) -> _Truth | None:
    everything: Ranges = ((line.lowest, line.highest),)
    match predicate:
        case Literal(value):
            return _Truth(everything if value is True else (), everything if value is False else ())
        case Comparison(_, operator, value) if value.type == line.data_type:
            true = _compared(operator, line.number(value), line)
            return _Truth(true, _complement(true, line))
        case In(_, values, has_null) if values.type == line.data_type and not _by_bits(line):
            if len(values) > 2 * _MAX_RANGES:
                return None
            true = _union(*(((number, number),) for number in map(line.number, values)))
            return _Truth(true, () if has_null else _complement(true, line))
        case IsNull(Column()):
            return _Truth((), everything)
        case IsNull(operand):
            if (inner := _truth(operand, line)) is None:  # type: ignore[arg-type]
                return None
            known = _union(inner.true, inner.false)
            return _Truth(_complement(known, line), known)
        case Not(operand):
            inner = _truth(operand, line)
            return None if inner is None else _Truth(inner.false, inner.true)
        case And(operands) | Or(operands):
            return _joined(predicate, [_truth(operand, line) for operand in operands], line)
        case _:
            return None


def _joined(kind: And | Or, parts: list[_Truth | None], line: _NumberLine) -> _Truth | None:
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    trues, falses = [part.true for part in known], [part.false for part in known]
    if isinstance(kind, And):
        return _Truth(_intersection(trues, line), _union(*falses))
    return _Truth(_union(*trues), _intersection(falses, line))


def _by_bits(line: _NumberLine) -> bool:
    """Whether lists find values by their bits, which tell zeros apart."""
    return bool(pa.types.is_floating(line.data_type))


def _compared(operator: Operator, number: int, line: _NumberLine) -> Ranges:
    point: Ranges = ((number, number),)
    below: Ranges = ((line.lowest, number - 1),) if number > line.lowest else ()
    above: Ranges = ((number + 1, line.highest),) if number < line.highest else ()
    match operator:
        case Operator.EQ:
            return point
        case Operator.NE:
            return below + above
        case Operator.LT:
            return below
        case Operator.LE:
            return _union(below, point)
        case Operator.GT:
            return above
        case Operator.GE:
            return _union(point, above)


def _union(*sets: Ranges) -> Ranges:
    joined: list[tuple[int, int]] = []
    for low, high in sorted(each for ranges in sets for each in ranges):
        if joined and low <= joined[-1][1] + 1:
            joined[-1] = joined[-1][0], max(joined[-1][1], high)
        else:
            joined.append((low, high))
    return tuple(joined)


def _intersection(sets: list[Ranges], line: _NumberLine) -> Ranges:
    return _complement(_union(*(_complement(ranges, line) for ranges in sets)), line)


def _complement(ranges: Ranges, line: _NumberLine) -> Ranges:
    edges = [line.lowest, *(edge for low, high in ranges for edge in (low, high + 1)), line.highest + 1]
    pairs = zip(edges[::2], edges[1::2], strict=True)
    return tuple((low, stop - 1) for low, stop in pairs if low < stop)
