"""Test conditions on one column as sets of values, so that each value is tested once."""

from __future__ import annotations

from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar

import numpy as np

from lance_df.encodings.kernels.compare import look_up_truth
from lance_df.encodings.selected_rows import SelectedRows
from lance_df.expr.nodes import And, Column, Comparison, In, IsNull, Literal, Not, Or
from lance_df.expr.value_ranges import NumberLine
from lance_df.expr.value_words import Vocabulary
from lance_df.expr.whole_numbers import whole_numbers

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt
    import pyarrow as pa

    from lance_df.expr.nodes import Operator, Predicate

S = TypeVar("S")

_MAX_PARTS: Final = 4
_MAX_LISTED: Final = 2 * _MAX_PARTS
_MAX_TABLE: Final = 1 << 22  # bytes
_MAX_SPARSE: Final = 1024  # numbers in the table per listed number


class ValueSets(Protocol[S]):
    """Set operations on the values of a type, and the kernel that finds the values of a set."""

    @property
    def data_type(self) -> pa.DataType: ...

    @property
    def everything(self) -> S: ...

    @property
    def nothing(self) -> S: ...

    @property
    def kernel(self) -> Callable[..., int]: ...

    def compared(self, operator: Operator, value: pa.Scalar) -> S | None: ...

    def listed(self, values: pa.Array) -> S | None: ...

    def union(self, *sets: S) -> S: ...

    def complement(self, values: S, /) -> S: ...

    def parts(self, values: S, /) -> tuple[list[npt.NDArray[Any]], bool]: ...

    def operands(self, values: pa.Array) -> tuple[Any, ...]: ...


class ColumnTest:
    """Finds the values that are in a set of values of a type. Safe to share between threads."""

    __slots__ = ("_inverted", "_kernel", "_operands", "_parts")

    def __init__(self, sets: ValueSets[S], values: S) -> None:
        self._parts, self._inverted = sets.parts(values)
        self._kernel, self._operands = sets.kernel, sets.operands

    @property
    def num_parts(self) -> int:
        """The number of tests for each value."""
        return len(self._parts)

    def rows(self, values: pa.Array) -> SelectedRows:
        """Return the rows whose values are in the set. Nulls may count as any value."""
        if not len(values):
            return SelectedRows.nothing(0)
        if not self._parts:
            return (
                SelectedRows.everything(len(values)) if self._inverted else SelectedRows.nothing(len(values))
            )
        operands = self._operands(values)
        selections = (self._find(operands, part, len(values)) for part in self._parts)
        return reduce(and_ if self._inverted else or_, selections)

    def _find(self, operands: tuple[Any, ...], part: npt.NDArray[Any], count: int) -> SelectedRows:
        mask = np.empty(count, np.bool_)
        return SelectedRows(mask, self._kernel(*operands, part, self._inverted, mask.view(np.uint8)))


class ListedNumbers:
    """Finds the numbers of a long list, with a table of all numbers between the smallest and the largest."""

    __slots__ = ("_least", "_truth")

    def __init__(self, listed: npt.NDArray[np.integer[Any]], least: int, greatest: int) -> None:
        self._least = np.uint64(least % 2**64)
        self._truth = np.zeros(greatest - least + 2, np.uint8)  # the last entry is for all other numbers
        self._truth[listed.astype(np.uint64) - self._least] = 1

    def rows(self, values: pa.Array) -> SelectedRows:
        """Return the rows whose values are listed. Nulls may count as any value."""
        numbers = whole_numbers(values)
        assert numbers is not None
        indices = numbers.astype(np.uint64)
        indices -= self._least
        np.minimum(indices, np.uint64(len(self._truth) - 1), out=indices)
        mask = np.empty(len(indices), np.bool_)
        num_true = look_up_truth(self._truth, indices.view(np.uint8), 8, mask.view(np.uint8))
        return SelectedRows(mask, num_true)


def column_test(predicate: Predicate, data_type: pa.DataType) -> ColumnTest | ListedNumbers | None:
    """Return a test for the values for which a predicate on one column is TRUE; None if unsupported.

    Literals whose type differs from the column's are not supported.
    """
    if isinstance(predicate, In) and len(predicate.values) > _MAX_LISTED:
        return _listed(predicate.values, data_type)
    sets: ValueSets[Any] | None = NumberLine.of(data_type) or Vocabulary.of(data_type)
    if sets is None or (truth := _truth(predicate, sets)) is None:
        return None
    test = ColumnTest(sets, truth.true)
    return test if test.num_parts <= _MAX_PARTS else None


def _listed(values: pa.Array, data_type: pa.DataType) -> ListedNumbers | None:
    numbers = whole_numbers(values) if values.type == data_type else None
    if numbers is None:
        return None
    least, greatest = int(numbers.min()), int(numbers.max())
    dense = greatest - least < _MAX_TABLE and greatest - least <= _MAX_SPARSE * len(numbers)
    return ListedNumbers(numbers, least, greatest) if dense else None


class _Truth(NamedTuple):
    """The sets of non-null values for which a predicate is TRUE and FALSE."""

    true: Any
    false: Any


def _truth(predicate: Predicate, sets: ValueSets[Any]) -> _Truth | None:
    match predicate:
        case Literal(value):
            return _Truth(
                sets.everything if value is True else sets.nothing,
                sets.everything if value is False else sets.nothing,
            )
        case Comparison(_, operator, value) if value.type == sets.data_type:
            true = sets.compared(operator, value)
            return None if true is None else _Truth(true, sets.complement(true))
        case In(_, values, has_null) if values.type == sets.data_type and len(values) <= _MAX_LISTED:
            true = sets.listed(values)
            if true is None:
                return None
            return _Truth(true, sets.nothing if has_null else sets.complement(true))
        case IsNull(Column()):
            return _Truth(sets.nothing, sets.everything)
        case IsNull(operand):
            inner = _truth(operand, sets)  # type: ignore[arg-type]
            if inner is None:
                return None
            known = sets.union(inner.true, inner.false)
            return _Truth(sets.complement(known), known)
        case Not(operand):
            inner = _truth(operand, sets)
            return None if inner is None else _Truth(inner.false, inner.true)
        case And(operands) | Or(operands):
            return _joined(predicate, operands, sets)
        case _:
            return None


def _joined(kind: And | Or, operands: tuple[Predicate, ...], sets: ValueSets[Any]) -> _Truth | None:
    parts: list[_Truth] = []
    for operand in operands:
        if (part := _truth(operand, sets)) is None:
            return None
        parts.append(part)
    trues, falses = [part.true for part in parts], [part.false for part in parts]
    if isinstance(kind, And):
        return _Truth(_intersection(trues, sets), sets.union(*falses))
    return _Truth(sets.union(*trues), _intersection(falses, sets))


def _intersection(each: list[S], sets: ValueSets[S]) -> S:
    return sets.complement(sets.union(*map(sets.complement, each)))
