"""FastLanes bit-packing: blocks of 1024 unsigned values, transposed so that every lane packs alone.

Spec: file format, 4.7.3 and 4.7.4. Packing is the mirror image of the decoder's unpacking.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from lance_df.encodings import kernels
from lance_df.encodings.v2_1.encode_chunks import ChunkBuffer, ChunkedValues, Spans, ValueCutter
from lance_df.format.encodings_v2_1 import InlineBitpacking

if TYPE_CHECKING:
    from lance_df.encodings.v2_1.buffers import Counts

Words: TypeAlias = npt.NDArray[np.unsignedinteger]

BLOCK_VALUES = 1024
_ROW_GROUPS = (0, 4, 2, 6, 1, 5, 3, 7)
# Compiled loops take long to load, which few blocks are not worth; numpy takes so many times as long for one.
_FEW_BLOCKS = 64
_NUMPY_TIMES = 8


def bitpacking_cutter(words: Words) -> ValueCutter:
    """Return how to store at least one unsigned word bit-packed, each block with its own width."""
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
    """Return the bits that the largest value of each block of ``words`` needs; 0 for all zeros."""
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
    lanes = BLOCK_VALUES // word_bits
    packed = np.zeros((len(blocks), width, lanes), blocks.dtype)
    if width == 0:
        return packed.reshape(len(blocks), 0)
    for row in range(word_bits):
        first = _ROW_GROUPS[row // 8] * 16 + row % 8 * 128
        values = blocks[:, first : first + lanes]
        word, shift = divmod(row * width, word_bits)
        packed[:, word] |= values << blocks.dtype.type(shift)
        if shift + width > word_bits:
            packed[:, word + 1] |= values >> blocks.dtype.type(word_bits - shift)
    return packed.reshape(len(blocks), width * lanes)


def pad_to_blocks(values: Words, block_values: int = BLOCK_VALUES) -> Words:
    """Return ``values`` as rows of one block each, the last one filled with zeros; a view if it is full."""
    rest = -len(values) % block_values
    if rest:
        values = np.concatenate([values, np.zeros(rest, values.dtype)])
    return values.reshape(-1, block_values)


def _cut(words: Words, widths: Counts) -> ChunkedValues:
    """Store each block of 1024 words (of which the last one may be short) after its width."""
    word_bits = words.itemsize * 8
    sizes = 1 + widths * (BLOCK_VALUES // word_bits)
    starts = np.cumsum(sizes) - sizes
    out = np.zeros(int(sizes.sum()), words.dtype)
    out[starts] = widths
    whole = len(words) // BLOCK_VALUES
    _pack_into(out, words[: whole * BLOCK_VALUES], widths[:whole], starts[:whole] + 1)
    if whole < len(widths):
        _pack_into(out, pad_to_blocks(words[whole * BLOCK_VALUES :]), widths[whole:], starts[whole:] + 1)
    encoded = Spans(out.view(np.uint8), starts * words.itemsize, sizes * words.itemsize)
    return ChunkedValues(InlineBitpacking(word_bits), (ChunkBuffer.of(encoded),))


def _pack_into(out: Words, words: Words, widths: Counts, starts: Counts) -> None:
    if len(widths) > _FEW_BLOCKS or kernels.are_worth(_NUMPY_TIMES * words.size):
        pack = getattr(kernels, f"pack_blocks_{8 * words.itemsize}")
        pack(words.reshape(-1), widths, out, starts)
        return
    blocks = words.reshape(-1, BLOCK_VALUES)
    for width in np.unique(widths).tolist():
        (chosen,) = np.nonzero(widths == width)
        packed = pack_blocks(blocks[chosen], width)
        out[starts[chosen, None] + np.arange(packed.shape[1])] = packed


def _bit_length(values: Words) -> Counts:
    wide = values.astype(np.uint64)
    length = np.zeros(len(wide), np.int64)
    for step in (32, 16, 8, 4, 2, 1):
        large = wide >= np.uint64(1 << step)
        length += large * step
        wide = np.where(large, wide >> np.uint64(step), wide)
    return length + (wide > 0)
