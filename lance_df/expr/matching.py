"""Which rows a predicate is TRUE for: what `evaluate` says, faster where only that is asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_df.encodings import kernels
from lance_df.encodings.gather import FEW
from lance_df.expr.evaluate import evaluate
from lance_df.expr.nodes import And, Comparison, In, Operator, Or
from lance_df.expr.whole_numbers import compared_numbers, whole_numbers

if TYPE_CHECKING:
    from collections.abc import Callable

    from lance_df.expr.nodes import Predicate

    _Columns: TypeAlias = Mapping[tuple[str, ...], pa.Array | pa.ChunkedArray]

_Mask: TypeAlias = npt.NDArray[np.bool_]

_LARGEST: Final = 2**127 - 1
_WORD: Final = 2**64


def matching_rows(predicate: Predicate, columns: _Columns, num_rows: int) -> _Mask:
    """Return whether the predicate is TRUE, neither FALSE nor NULL, for each row.

    Takes and raises what `evaluate` does. The result is the caller's own. Operands of AND that cannot matter
    any more are not evaluated.
    """
    match predicate:
        case And(operands) if operands:
            return _joined(operands, columns, num_rows, np.logical_and, decided=False)
        case Or(operands) if operands:
            return _joined(operands, columns, num_rows, np.logical_or, decided=True)
        case Comparison(column) | In(column):
            values = columns.get(column.path)
            if isinstance(values, pa.Array) and len(values) == num_rows:
                mask = _of_leaf(predicate, values)
                if mask is not None:
                    return mask
    return true_rows(evaluate(predicate, columns, num_rows))


def true_rows(values: pa.BooleanArray) -> _Mask:
    """Return which values are TRUE, neither FALSE nor NULL."""
    if values.null_count:
        values = values.fill_null(False)
    # several times as fast as pyarrow's own conversion
    return _unpacked(values.buffers()[1], values.offset, len(values))


def _joined(
    operands: tuple[Predicate, ...],
    columns: _Columns,
    num_rows: int,
    junction: Callable[..., Any],
    *,
    decided: bool,
) -> _Mask:
    mask = matching_rows(operands[0], columns, num_rows)
    for operand in operands[1:]:
        if mask.all() if decided else not mask.any():
            break
        junction(mask, matching_rows(operand, columns, num_rows), out=mask)
    return mask


def _of_leaf(predicate: Comparison | In, values: pa.Array) -> _Mask | None:
    """Return the mask of a comparison of one column; None for what has no short way."""
    if isinstance(values, pa.DictionaryArray):
        return _of_indices(predicate, values)
    if not isinstance(predicate, Comparison) or predicate.value.type != values.type:
        return None
    if pa.types.is_decimal128(values.type):
        mask = _compared_pairs(predicate.operator, _pairs(values), _pairs(pa.repeat(predicate.value, 1))[0])
    elif (numbers := whole_numbers(values)) is not None:
        mask = compared_numbers(predicate.operator, numbers, predicate.value)
    else:
        return None
    return _valid(values, mask)


def _of_indices(predicate: Comparison | In, values: pa.DictionaryArray) -> _Mask | None:
    """Judge each value of the dictionary, and look that up."""
    dictionary = values.dictionary
    if len(dictionary) > len(values):
        return None
    truth = matching_rows(predicate, {predicate.column.path: dictionary}, len(dictionary))
    if not truth.any():
        return np.zeros(len(values), np.bool_)
    indices = values.indices
    if indices.null_count:
        indices = indices.fill_null(0)
    numbers = indices.to_numpy()
    if len(numbers) < FEW:
        return _valid(values, truth.take(numbers, mode="clip"))
    mask = np.zeros(len(numbers), np.bool_)
    kernels.gather_words(truth.view(np.uint8), numbers, mask.view(np.uint8))
    return _valid(values, mask)


def _valid(values: pa.Array, mask: _Mask) -> _Mask:
    if values.null_count:
        mask &= _unpacked(values.buffers()[0], values.offset, len(values))
    return mask


def _unpacked(bitmap: pa.Buffer | None, offset: int, count: int) -> _Mask:
    packed = np.frombuffer(bitmap or b"", np.uint8)
    stop = offset + count
    bits = np.unpackbits(packed[: -(-stop // 8)], count=stop, bitorder="little")
    return bits[offset:].view(np.bool_)


def _pairs(values: pa.Array) -> npt.NDArray[np.uint64]:
    """Return decimals as rows of the lower and the upper word."""
    words = np.frombuffer(values.buffers()[1] or b"", "<u8", 2 * len(values), 16 * values.offset)
    return words.reshape(-1, 2)


def _compared_pairs(
    operator: Operator, pairs: npt.NDArray[np.uint64], literal: npt.NDArray[np.uint64]
) -> _Mask:
    low, high = literal.tolist()
    match operator:
        case Operator.EQ:
            return np.logical_and(pairs[:, 0] == low, pairs[:, 1] == high)
        case Operator.NE:
            return np.logical_or(pairs[:, 0] != low, pairs[:, 1] != high)
        case Operator.LT:
            return _below(pairs, high, low)
        case Operator.GE:
            return ~_below(pairs, high, low)
    number = low + _WORD * (high - _WORD if high >> 63 else high)
    if number == _LARGEST:
        everything = np.ones(len(pairs), np.bool_)
        return everything if operator is Operator.LE else ~everything
    above, rest = divmod(number + 1, _WORD)
    not_above = _below(pairs, above, rest)
    return not_above if operator is Operator.LE else ~not_above


def _below(pairs: npt.NDArray[np.uint64], high: int, low: int) -> _Mask:
    """Return what lies below a number of two words, of which the upper may be given signed or not."""
    upper, lower = np.uint64(high % _WORD).astype(np.int64), np.uint64(low)
    if len(pairs) < FEW:
        highs = pairs[:, 1].view(np.int64)
        return (highs < upper) | ((highs == upper) & (pairs[:, 0] < lower))
    out = np.empty(len(pairs), np.bool_)
    kernels.pairs_below(pairs, upper, lower, out)
    return out
