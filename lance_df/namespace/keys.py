"""Partition values as keys: equal values, NULL among them, have equal bytes, and others have not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.hashing import canonical_bytes

_NULL_LENGTH = 2**32 - 1
_MAX_SHORT = 2**15
# A table of so many times as many numbers as there are rows is made faster than they are sorted.
_MANY_TIMES = 8


def value_keys(columns: Sequence[pa.Array]) -> pa.Array:
    """Return one key (large_binary) for each row of some columns of equal lengths."""
    empty = pa.scalar(b"", pa.large_binary())
    parts: list[pa.Array] = []
    for column in columns:
        data = canonical_bytes(_exact(column)).cast(pa.large_binary())
        lengths = pc.fill_null(pc.binary_length(data), _NULL_LENGTH).to_numpy(zero_copy_only=False)
        # a length before each value keeps ('a', 'bc') apart from ('ab', 'c')
        prefix = pa.Array.from_buffers(
            pa.binary(4), len(data), [None, pa.py_buffer(lengths.astype("<u4").tobytes())]
        )
        parts += [prefix.cast(pa.large_binary()), pc.fill_null(data, empty)]
    return pc.binary_join_element_wise(*parts, empty)


def group_rows(columns: Sequence[pa.Array]) -> tuple[np.ndarray | None, np.ndarray, np.ndarray]:
    """Group rows by their values.

    Returns
    -------
    The order that brings rows of a group together, otherwise as they came, or None where they are together;
    where each group begins in it; and the first row of each group.
    """
    codes = _codes(columns[0])
    for column in columns[1:]:
        further = _codes(column)
        codes = _dense(codes * (int(further.max(initial=0)) + 1) + further)
    runs = np.flatnonzero(np.diff(codes, prepend=-1))
    if len(runs) == np.count_nonzero(np.bincount(codes)):
        return None, runs, runs
    if codes.max(initial=0) < _MAX_SHORT:
        codes = codes.astype(np.int16)  # which are sorted in a time that grows with their number only
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    return order, starts, order[starts]


def _codes(column: pa.Array) -> np.ndarray:
    """Return numbers from 0 on, equal where values are equal."""
    encoded = pc.dictionary_encode(column, null_encoding="encode")
    codes: np.ndarray = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes


def _dense(codes: np.ndarray) -> np.ndarray:
    """Return as many numbers as there are distinct ones, in their order."""
    if codes.max(initial=0) >= _MANY_TIMES * len(codes):
        return np.unique(codes, return_inverse=True)[1]
    is_there = np.zeros(int(codes.max(initial=0)) + 1, bool)
    is_there[codes] = True
    numbers: np.ndarray = (np.cumsum(is_there) - 1)[codes]
    return numbers


def _exact(column: pa.Array) -> pa.Array:
    """Return dates and times as the integers that they are: hashes take them by the day or microsecond."""
    if not pa.types.is_temporal(column.type):
        return column
    return column.view(pa.int32() if column.type.bit_width == 32 else pa.int64())
