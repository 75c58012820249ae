"""FastLanes bit-packing: blocks of 1024 values.

Inline: ``width word | packed block`` in each chunk. Out of line: whole blocks, then a tail that is either
packed too or stored plainly; the size of the buffer shows which. Format: docs/format/bitpacked.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lance_df.encodings.buffers import Bytes, Chunked, Counts, allocate
from lance_df.encodings.kernels import fastlanes
from lance_df.errors import CorruptDataError

if TYPE_CHECKING:
    from lance_df.format.encodings_v2_1 import InlineBitpacking, OutOfLineBitpacking

BLOCK = 1024
_AS_STORED = -1


def decode_inline(encoding: InlineBitpacking, buffer: Chunked, counts: Counts) -> Bytes:
    """Unpack one block of each chunk, and keep its first ``counts[i]`` values."""
    word_bytes = _word_bytes(encoding.bits_per_value)
    buffer.require(word_bytes, "bit-packed values")
    if (counts > BLOCK).any():
        raise CorruptDataError(f"a bit-packed chunk has {int(counts.max())} values, expected at most {BLOCK}")
    words = buffer.words(word_bytes)
    widths = np.minimum(words[buffer.starts // word_bytes], np.array(255, words.dtype)).astype(np.int64)
    _check_width(int(widths.max(initial=0)), encoding.bits_per_value)
    buffer.require(word_bytes + widths * (BLOCK // 8), "bit-packed values")
    return _unpack(buffer.data, buffer.starts + word_bytes, widths, counts, word_bytes)


def decode_out_of_line(encoding: OutOfLineBitpacking, buffer: Chunked, counts: Counts) -> Bytes:
    """Unpack the blocks and the tail of each chunk."""
    word_bytes, width = _word_bytes(encoding.bits_per_value), encoding.packed_bits
    _check_width(width, encoding.bits_per_value)
    block_bytes = width * BLOCK // 8
    whole, tail = np.divmod(counts, BLOCK)
    stored = whole * block_bytes + tail * word_bytes
    tail_is_stored = (tail > 0) & (buffer.sizes // word_bytes * word_bytes == stored)
    num_blocks = whole + (tail > 0)
    buffer.require(np.where(tail_is_stored, stored, num_blocks * block_bytes), "bit-packed values")
    total = int(num_blocks.sum())
    chunk_of_block = np.repeat(np.arange(len(counts)), num_blocks)
    last = np.cumsum(num_blocks)[num_blocks > 0] - 1
    block_in_chunk = np.arange(total) - np.repeat(np.cumsum(num_blocks) - num_blocks, num_blocks)
    starts = buffer.starts[chunk_of_block] + block_in_chunk * block_bytes
    block_counts = np.full(total, BLOCK, np.int64)
    widths = np.full(total, width, np.int64)
    has_tail = tail[num_blocks > 0]
    block_counts[last] = np.where(has_tail > 0, has_tail, BLOCK)
    widths[last[tail_is_stored[num_blocks > 0]]] = _AS_STORED
    return _unpack(buffer.data, starts, widths, block_counts, word_bytes)


def _unpack(data: Bytes, starts: Counts, widths: Counts, counts: Counts, word_bytes: int) -> Bytes:
    total = int(counts.sum())
    _, out = allocate((total + BLOCK) * word_bytes)
    counts = np.ascontiguousarray(counts)
    fastlanes.unpack_blocks(data, starts, widths, counts, 8 * word_bytes, out)
    return out[: total * word_bytes]


def _word_bytes(bits: int) -> int:
    if bits not in (8, 16, 32, 64):
        raise CorruptDataError(f"bit-packed values have {bits} bits, expected 8, 16, 32 or 64")
    return bits // 8


def _check_width(width: int, bits: int) -> None:
    if width > bits:
        raise CorruptDataError(f"values are bit-packed to {width} bits, expected at most {bits}")
