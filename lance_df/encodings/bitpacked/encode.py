"""FastLanes bit-packing: blocks of 1024 unsigned values, transposed so that lanes are packed independently.

Format: docs/format/bitpacked.md. Packing is the inverse of the decoder's unpacking.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from lance_df.encodings.buffers import Chunked
from lance_df.encodings.encode_chunks import ChunkBuffer, ChunkedValues, ValueCutter
from lance_df.encodings.kernels import fastlanes
from lance_df.format.encodings_v2_1 import InlineBitpacking

if TYPE_CHECKING:
    from lance_df.encodings.buffers import Counts

Words: TypeAlias = npt.NDArray[np.unsignedinteger]

BLOCK_VALUES = 1024


def bitpacking_cutter(words: Words) -> ValueCutter:
    """Return a cutter that bit-packs unsigned words (at least one), each block with its own width."""
    widths = bit_widths(words)

    def cut(items: int) -> ChunkedValues:
        if items == BLOCK_VALUES:
            return _cut(words, widths)
        chunks = pad_to_blocks(words, items)
        return _cut(
            np.pad(chunks, ((0, 0), (0, BLOCK_VALUES - items))).reshape(-1), bit_widths(chunks, items)
        )

    num_bytes = int(widths.sum()) * BLOCK_VALUES // 8 + len(widths) * words.itemsize
    return ValueCutter(BLOCK_VALUES, cut, num_bytes)


def bit_widths(words: Words, block_values: int = BLOCK_VALUES) -> Counts:
    """Return the bits that the largest value of each block of ``words`` needs; 0 if all values are 0."""
    words = words.reshape(-1)
    whole = len(words) // block_values * block_values
    used = np.bitwise_or.reduce(words[:whole].reshape(-1, block_values), axis=1)
    if whole < len(words):
        used = np.append(used, np.bitwise_or.reduce(words[whole:]))
    return _bit_length(used)


def pack_blocks(blocks: Words, width: int) -> Words:
    """Pack rows of 1024 values into ``width`` bits each.

    Parameters
    ----------
    blocks
        Shape ``(n, 1024)``; every value fits in ``width`` bits.
    width
        0 to the bits of the dtype.

    Returns
    -------
    Shape ``(n, width * 1024 // bits of the dtype)``: words in the order in which they are stored.
    """
    word_bits = blocks.dtype.itemsize * 8
    block_words = width * BLOCK_VALUES // word_bits
    packed = np.empty((len(blocks), block_words), blocks.dtype)
    starts = np.arange(len(blocks)) * block_words
    _pack_into(packed.reshape(-1), blocks.reshape(-1), np.full(len(blocks), width), starts)
    return packed


def pad_to_blocks(values: Words, block_values: int = BLOCK_VALUES) -> Words:
    """Return ``values`` as rows of one block each, a view if no zeros are needed to fill the last one."""
    rest = -len(values) % block_values
    if rest:
        values = np.concatenate([values, np.zeros(rest, values.dtype)])
    return values.reshape(-1, block_values)


def _cut(words: Words, widths: Counts) -> ChunkedValues:
    """Store each block of 1024 words (the last one may be shorter) after its width."""
    word_bits = words.itemsize * 8
    sizes = 1 + widths * (BLOCK_VALUES // word_bits)
    starts = np.cumsum(sizes) - sizes
    out = np.zeros(int(sizes.sum()), words.dtype)
    out[starts] = widths
    whole = len(words) // BLOCK_VALUES
    _pack_into(out, words[: whole * BLOCK_VALUES], widths[:whole], starts[:whole] + 1)
    if whole < len(widths):
        _pack_into(out, pad_to_blocks(words[whole * BLOCK_VALUES :]), widths[whole:], starts[whole:] + 1)
    encoded = Chunked(out.view(np.uint8), starts * words.itemsize, sizes * words.itemsize)
    return ChunkedValues(InlineBitpacking(word_bits), (ChunkBuffer.of(encoded),))


def _pack_into(out: Words, words: Words, widths: Counts, starts: Counts) -> None:
    itemsize = words.itemsize
    fastlanes.pack_blocks(
        words.reshape(-1).view(np.uint8), widths, starts * itemsize, 8 * itemsize, out.view(np.uint8)
    )


def _bit_length(values: Words) -> Counts:
    wide = values.astype(np.uint64)
    length = np.zeros(len(wide), np.int64)
    for step in (32, 16, 8, 4, 2, 1):
        large = wide >= np.uint64(1 << step)
        length += large * step
        wide = np.where(large, wide >> np.uint64(step), wide)
    return length + (wide > 0)
