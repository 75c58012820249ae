"""Encode partition values as keys: keys are equal if and only if the values, including NULL, are equal."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.hashing import canonical_bytes

_NULL_LENGTH = 2**32 - 1
_MAX_SHORT = 2**15
# Up to so many times the number of rows, a lookup table of the codes is faster than sorting them.
_MANY_TIMES = 8


def value_keys(columns: Sequence[pa.Array]) -> pa.Array:
    """Return one key (large_binary) for each row of columns of equal length."""
    empty = pa.scalar(b"", pa.large_binary())
    parts: list[pa.Array] = []
    for column in columns:
        data = canonical_bytes(_exact(column)).cast(pa.large_binary())
        lengths = pc.fill_null(pc.binary_length(data), _NULL_LENGTH).to_numpy(zero_copy_only=False)
        # the length before each value distinguishes ('a', 'bc') from ('ab', 'c')
        prefix = pa.Array.from_buffers(
            pa.binary(4), len(data), [None, pa.py_buffer(lengths.astype("<u4").tobytes())]
        )
        parts += [prefix.cast(pa.large_binary()), pc.fill_null(data, empty)]
    return pc.binary_join_element_wise(*parts, empty)


def group_rows(columns: Sequence[pa.Array]) -> tuple[np.ndarray | None, np.ndarray, np.ndarray]:
    """Group rows by their values.

    Returns
    -------
    The stable order that makes the rows of each group contiguous, or None if they are contiguous already; the
    start of each group in that order; and the first row of each group.
    """
    codes = _codes(columns[0])
    for column in columns[1:]:
        further = _codes(column)
        codes = _dense(codes * (int(further.max(initial=0)) + 1) + further)
    runs = np.flatnonzero(np.diff(codes, prepend=-1))
    if len(runs) == np.count_nonzero(np.bincount(codes)):
        return None, runs, runs
    if codes.max(initial=0) < _MAX_SHORT:
        codes = codes.astype(np.int16)  # 16-bit integers are sorted in linear time
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    return order, starts, order[starts]


def _codes(column: pa.Array) -> np.ndarray:
    """Return integers from 0 on that are equal where the values are equal."""
    encoded = pc.dictionary_encode(column, null_encoding="encode")
    codes: np.ndarray = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes


def _dense(codes: np.ndarray) -> np.ndarray:
    """Return the rank of each code among the distinct codes."""
    if codes.max(initial=0) >= _MANY_TIMES * len(codes):
        return np.unique(codes, return_inverse=True)[1]
    is_there = np.zeros(int(codes.max(initial=0)) + 1, bool)
    is_there[codes] = True
    numbers: np.ndarray = (np.cumsum(is_there) - 1)[codes]
    return numbers


def _exact(column: pa.Array) -> pa.Array:
    """Return dates and times as their integers, because hashes round them to days or microseconds."""
    if not pa.types.is_temporal(column.type):
        return column
    return column.view(pa.int32() if column.type.bit_width == 32 else pa.int64())
