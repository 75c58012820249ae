"""Split the values of a mini-block page into chunks, before levels and headers are added.

Format: docs/format/mini_block.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from lance_df.encodings.buffers import Chunked
from lance_df.encodings.leaf_values import (
    BooleanValues,
    FixedListValues,
    FixedValues,
    LeafValues,
    VariableValues,
    pack_bits,
)
from lance_df.format.encodings_v2_1 import Encoding, FixedSizeList, Flat
from lance_df.records import dataclass

if TYPE_CHECKING:
    from lance_df.encodings.buffers import Bytes, Counts

# The target size of a chunk: small enough for random access, large enough for a negligible header.
_TARGET_CHUNK_BYTES = 16 * 1024
MAX_CHUNK_ITEMS = 4096


@dataclass(frozen=True, slots=True)
class ChunkBuffer:
    """One buffer of every chunk: its parts one after another, padded with zeros to ``sizes[i]``."""

    parts: tuple[Chunked, ...]
    sizes: Counts

    @classmethod
    def of(cls, *parts: Chunked) -> ChunkBuffer:
        """Return a buffer made of these parts, without padding."""
        sizes = parts[0].sizes
        for part in parts[1:]:
            sizes = sizes + part.sizes
        return cls(parts, sizes)

    @property
    def num_bytes(self) -> int:
        return int(self.sizes.sum())

    def copy_to(self, out: Bytes, starts: Counts) -> None:
        """Copy every chunk's buffer to its position in ``out``, which is zeroed."""
        for part in self.parts:
            part.copy_to(out, starts)
            starts = starts + part.sizes

    def joined(self) -> Bytes:
        """Return the buffers of all chunks, back to back."""
        out = np.zeros(self.num_bytes, np.uint8)
        self.copy_to(out, np.cumsum(self.sizes) - self.sizes)
        return out


@dataclass(frozen=True, slots=True)
class ChunkedValues:
    """The encoded values of a page: ``buffers[i]`` is value buffer ``i`` of its chunks."""

    encoding: Encoding
    buffers: tuple[ChunkBuffer, ...]


@dataclass(frozen=True, slots=True)
class ValueCutter:
    """Encodes values in chunks of a given number of items.

    Attributes
    ----------
    chunk_items
        The best number of items per chunk for this encoding, a power of two.
    cut
        Encodes values into chunks of the given number of items; the last chunk has the rest.
    num_bytes
        The approximate size of the encoded values.
    """

    chunk_items: int
    cut: Callable[[int], ChunkedValues]
    num_bytes: int


def value_cutter(values: LeafValues, *, target_bytes: int = _TARGET_CHUNK_BYTES) -> ValueCutter:
    """Return the cutter that stores ``values`` without compression."""
    match values:
        case FixedValues():
            items = _chunk_items(values.width_bytes, target_bytes)
            return ValueCutter(items, lambda items: _cut_fixed(values, items), len(values.data))
        case BooleanValues():
            return ValueCutter(MAX_CHUNK_ITEMS, lambda items: _cut_bits(values, items), len(values) // 8)
        case FixedListValues():
            bits = _list_bits(values)
            items = max(8, _chunk_items(bits // 8 + 1, target_bytes))
            return ValueCutter(items, lambda items: _cut_lists(values, items), len(values) * bits // 8)
        case VariableValues():
            num_bytes = len(values.data) + len(values) * values.offset_bits // 8
            items = _chunk_items(num_bytes // max(1, len(values)), target_bytes)
            return ValueCutter(items, lambda items: _cut_variable(values, items), num_bytes)


def chunk_ends(num_items: int, chunk_items: int) -> Counts:
    """Return the end of each chunk's items; there is at least one chunk."""
    ends = np.arange(chunk_items, max(num_items, 1) + chunk_items, chunk_items, dtype=np.int64)
    ends[-1] = num_items
    return ends


def _chunk_items(width_bytes: int, target_bytes: int) -> int:
    """Return the largest power of two (at least 2) of items that fit in a chunk."""
    fitting = max(2, min(MAX_CHUNK_ITEMS, target_bytes // max(1, width_bytes)))
    return 1 << (fitting.bit_length() - 1)


def _evenly(data: Bytes, chunk_bytes: int) -> ChunkBuffer:
    return ChunkBuffer.of(Chunked.consecutive(data, np.diff(chunk_ends(len(data), chunk_bytes), prepend=0)))


def _cut_fixed(values: FixedValues, items: int) -> ChunkedValues:
    return ChunkedValues(values.encoding, (_evenly(values.data, items * values.width_bytes),))


def _cut_bits(values: BooleanValues, items: int) -> ChunkedValues:
    if items % 8 == 0:
        return ChunkedValues(Flat(1), (_evenly(values.bitmap, items // 8),))
    flags = np.unpackbits(values.bitmap, bitorder="little", count=len(values))
    flags = np.concatenate([flags, np.zeros(-len(flags) % items, np.uint8)])
    packed = np.packbits(flags.reshape(-1, items), axis=1, bitorder="little")
    return ChunkedValues(Flat(1), (_evenly(packed.reshape(-1), packed.shape[1]),))


def _cut_lists(values: FixedListValues, items: int) -> ChunkedValues:
    encoding: Encoding = Flat(1) if isinstance(values.items, BooleanValues) else values.items.encoding
    buffers: list[ChunkBuffer] = []
    per_value = 1
    for layer in values.layers:
        per_value *= layer.dimension
        if layer.validity is not None:
            bitmap = BooleanValues(pack_bits(layer.validity), len(layer.validity))
            buffers.extend(_cut_bits(bitmap, items * per_value).buffers)
    for layer in reversed(values.layers):
        encoding = FixedSizeList(layer.dimension, encoding, layer.validity is not None)
    if isinstance(values.items, BooleanValues):
        buffers.extend(_cut_bits(values.items, items * per_value).buffers)
    else:
        buffers.extend(_cut_fixed(values.items, items * per_value).buffers)
    return ChunkedValues(encoding, tuple(buffers))


def _list_bits(values: FixedListValues) -> int:
    per_value, bits = 1, 0
    for layer in values.layers:
        per_value *= layer.dimension
        bits += per_value if layer.validity is not None else 0
    return bits + per_value * (1 if isinstance(values.items, BooleanValues) else values.items.width_bytes * 8)


def _cut_variable(values: VariableValues, items: int) -> ChunkedValues:
    """Store in every chunk its own offsets, counted from the start of the buffer, and its bytes."""
    dtype = np.dtype(f"<u{values.offset_bits // 8}")
    ends = chunk_ends(len(values), items)
    counts = np.diff(ends, prepend=0)
    head_bytes = (counts + 1) * dtype.itemsize
    starts, stops = values.offsets[ends - counts], values.offsets[ends]
    # a chunk has the offsets of its values and the last end, which is the first offset of the next chunk
    heads = np.insert(values.offsets, ends[:-1], values.offsets[ends[:-1]])
    heads += np.repeat(head_bytes - starts, counts + 1)
    parts = (
        Chunked.consecutive(heads.astype(dtype).view(np.uint8), head_bytes),
        Chunked(values.data, starts, stops - starts),
    )
    sizes = head_bytes + stops - starts
    padded = sizes + -sizes % dtype.itemsize
    return ChunkedValues(values.encoding, (ChunkBuffer(parts, padded),))
