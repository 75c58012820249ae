"""Bloom filter indices: which values may occur in each run of rows of a fragment.

``bloomfilter.lance`` has one row for each zone: ``fragment_id``, ``zone_start``, ``zone_length``,
``has_null`` and ``bloom_filter_data``, a split block filter: blocks of eight little-endian u32. The high half
of a value's hash selects a block, the low half one bit of each word. Spec: table format, 14.4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_df.errors import CorruptDataError
from lance_df.expr.literals import is_text, without_views
from lance_df.expr.nodes import And, Column, Comparison, In, IsNull, Literal, Operator, Or, Predicate
from lance_df.table.indices.answer import Answer, FragmentIds
from lance_df.table.indices.index_file import IndexFile
from lance_df.table.indices.split_block_filter import (
    BLOCK_BYTES,
    blocks_and_bits,
    both_zeros,
    hash_values,
)
from lance_df.table.indices.zone_map import Zones, exact_nulls

if TYPE_CHECKING:
    from lance_df.table.indices.split_block_filter import Hashes

# Each value costs a probe of every zone, and is a false positive in some of them.
_MAX_VALUES = 256

_Flags = npt.NDArray[np.bool_]


class BloomFilter:
    """An open Bloom filter index: zones are in memory, filters are read when a value is searched."""

    def __init__(self, file: IndexFile) -> None:
        self._file = file
        self._zones = Zones.read(file)
        (has_null,) = file.read(["has_null"], types=[pa.bool_()])
        self._has_null = np.asarray(has_null)

    @property
    def key_type(self) -> pa.DataType | None:
        return None

    def search(self, predicate: Predicate, fragment_ids: FragmentIds) -> Answer | None:
        if (nulls := exact_nulls(predicate, self._file, self._zones)) is not None:
            return nulls
        candidates = self._zones.within(fragment_ids)
        rows = np.flatnonzero(candidates)
        candidates[rows] = self._may_match(predicate, rows)
        return Answer(self._zones.ranges(candidates), is_exact=not candidates.any())

    def _may_match(self, predicate: Predicate, rows: npt.NDArray[np.intp]) -> _Flags:
        """Return for the given zones whether a row may make the predicate TRUE."""
        match predicate:
            case Comparison(_, Operator.EQ, value):
                return self._may_hold(pa.repeat(value, 1), rows)
            case In(_, values):
                return self._may_hold(values, rows)
            case IsNull(Column()):
                return self._has_null[rows]
            case Literal(value):
                return np.full(len(rows), value is True)
            case And(operands):
                return np.logical_and.reduce([self._may_match(part, rows) for part in operands])
            case Or(operands):
                return np.logical_or.reduce([self._may_match(part, rows) for part in operands])
            case _:
                return np.ones(len(rows), dtype=np.bool_)

    def _may_hold(self, values: pa.Array, rows: npt.NDArray[np.intp]) -> _Flags:
        hashes = _hashes(values)
        if hashes is None or len(rows) == 0:
            return np.ones(len(rows), dtype=np.bool_)
        (filters,) = self._file.read(["bloom_filter_data"], rows)
        if not pa.types.is_binary(filters.type) and not pa.types.is_large_binary(filters.type):
            raise CorruptDataError(
                f"{self._file.name}: bloom filters have type {filters.type}, expected binary"
            )
        wide = filters.cast(pa.large_binary())
        offsets = np.frombuffer(wide.buffers()[1], np.int64, len(wide) + 1, wide.offset * 8)
        sizes = np.diff(offsets)
        if filters.null_count or (sizes % BLOCK_BYTES).any() or (sizes <= 0).any():
            raise CorruptDataError(
                f"{self._file.name}: the size of a bloom filter is not a multiple of {BLOCK_BYTES} bytes"
            )
        data = np.frombuffer(wide.buffers()[2], np.uint8)
        matches = np.zeros(len(rows), dtype=np.bool_)
        for hashed in hashes[:, None]:
            matches |= _probe(data, offsets[:-1], sizes // BLOCK_BYTES, hashed)
        return matches


def _probe(
    data: npt.NDArray[np.uint8],
    starts: npt.NDArray[np.int64],
    num_blocks: npt.NDArray[np.int64],
    hashed: Hashes,
) -> _Flags:
    """Return which filters have all eight bits of their hash."""
    blocks, bits = blocks_and_bits(hashed, num_blocks)
    # bit b of word j is bit b % 8 of the block's byte 4 j + b / 8
    in_block = np.arange(8) * 4 + (bits >> np.uint32(3)).astype(np.int64)
    positions = (starts + blocks * BLOCK_BYTES)[:, None] + in_block
    hits: _Flags = ((data[positions] >> (bits & np.uint32(7)).astype(np.uint8)) & 1 == 1).all(axis=1)
    return hits


def _hashes(values: pa.Array) -> Hashes | None:
    """Return the hashes of literals; ``None`` if there are too many, or the hash of their type is unknown."""
    if len(values) > _MAX_VALUES or not _is_hashed(values.type):
        return None
    return np.concatenate([hash_values(each) for each in both_zeros(without_views(values))])


def _is_hashed(kind: pa.DataType) -> bool:
    kinds = pa.types
    return (
        is_text(kind)
        or kinds.is_binary(kind)
        or kinds.is_large_binary(kind)
        or kinds.is_binary_view(kind)
        or kinds.is_float32(kind)
        or kinds.is_float64(kind)
        or kinds.is_timestamp(kind)
        or kinds.is_date(kind)
        or kinds.is_time(kind)
        or kinds.is_integer(kind)
    )
