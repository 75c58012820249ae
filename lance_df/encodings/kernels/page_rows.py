"""Read ranges of rows of mini-block pages in memory. Spec: 4.4.

All take ``page``, the address of the entries of `page_map`; rows ``start`` to ``stop`` (exclusive), of which
there are some, and which exist; and the address ``out`` of as many values. They return -1, the first chunk
that does not hold its values, or, where an index is beyond the table, -2 less that index.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lance_df.encodings.kernels.bitpacking import unpack_block
from lance_df.encodings.kernels.chunks import only_buffer
from lance_df.encodings.kernels.jit import copy_bytes, kernel, load_item, room_of_8_kib
from lance_df.encodings.kernels.lookup import present_words
from lance_df.encodings.kernels.page_map import (
    DATA,
    ITEMS,
    LEVELS,
    NUM_CHUNKS,
    OUT_WIDTH,
    POSITIONS,
    TABLE,
    TABLE_SIZE,
    WIDE,
    WIDTH,
)

if TYPE_CHECKING:
    from collections.abc import Callable

_U = np.uintp
_INT = np.int64(0)
_BLOCK = 1024
_BLOCK_BYTES_PER_BIT = 128


@kernel
def entry(page, number):  # type: ignore[no-untyped-def]
    """Return an entry of a page."""
    return load_item(_U(page), _U(number), _INT)


@kernel
def chunk_of(items, num_chunks, row):  # type: ignore[no-untyped-def]
    """Return the chunk of a row that exists."""
    low = np.int64(0)
    high = num_chunks
    while high - low > 1:
        middle = (low + high) // 2
        if load_item(items, _U(middle), _INT) <= row:
            low = middle
        else:
            high = middle
    return low


@kernel
def read_flat(page, start, stop, out):  # type: ignore[no-untyped-def]
    """Read values that lie back to back in each chunk."""
    source, positions, items = _U(entry(page, DATA)), _U(entry(page, POSITIONS)), _U(entry(page, ITEMS))
    levels, wide, width = entry(page, LEVELS), entry(page, WIDE), entry(page, WIDTH)
    target = _U(out)
    chunk = _U(chunk_of(items, entry(page, NUM_CHUNKS), start))
    while start < stop:
        first, after = load_item(items, chunk, _INT), load_item(items, chunk + _U(1), _INT)
        begin, end = load_item(positions, chunk, _INT), load_item(positions, chunk + _U(1), _INT)
        at, size = only_buffer(source, begin, end, levels, wide)
        if after - first > size // width:
            return np.int64(chunk)
        count = min(stop, after) - start
        copy_bytes(target, source + _U(at + (start - first) * width), count * width)
        target += _U(count * width)
        start += count
        chunk += _U(1)
    return np.int64(-1)


def _packed_reader(bits: int, word_type: Callable[[Any], Any]) -> Callable[..., Any]:
    word_bytes = bits // 8

    @kernel
    def read_packed(page, start, stop, out):  # type: ignore[no-untyped-def]
        source, positions, items = _U(entry(page, DATA)), _U(entry(page, POSITIONS)), _U(entry(page, ITEMS))
        levels, wide, out_width = entry(page, LEVELS), entry(page, WIDE), _U(entry(page, OUT_WIDTH))
        table, table_size = _U(entry(page, TABLE)), entry(page, TABLE_SIZE)
        target, scratch = _U(out), room_of_8_kib()
        chunk = _U(chunk_of(items, entry(page, NUM_CHUNKS), start))
        while start < stop:
            first, after = load_item(items, chunk, _INT), load_item(items, chunk + _U(1), _INT)
            begin, end = load_item(positions, chunk, _INT), load_item(positions, chunk + _U(1), _INT)
            at, size = only_buffer(source, begin, end, levels, wide)
            if size < word_bytes or after - first > _BLOCK:
                return np.int64(chunk)
            block = source + _U(at)
            width = np.uint64(load_item(block, _U(0), word_type(0)))
            if width > np.uint64(bits) or word_bytes + np.int64(width) * _BLOCK_BYTES_PER_BIT > size:
                return np.int64(chunk)
            block += _U(word_bytes)
            count = min(stop, after) - start
            if table_size < 0 and count == _BLOCK:
                unpack_block(block, width, target, bits, word_type(0))
            else:
                unpack_block(block, width, scratch, bits, word_type(0))
                words = scratch + _U((start - first) * word_bytes)
                if table_size < 0:
                    copy_bytes(target, words, count * word_bytes)
                else:
                    beyond = present_words(words, count, table, table_size, out_width, target, word_type(0))
                    if beyond != -1:
                        return beyond
            target += _U(count) * out_width
            start += count
            chunk += _U(1)
        return np.int64(-1)

    return read_packed


read_packed_8 = _packed_reader(8, np.uint8)
read_packed_16 = _packed_reader(16, np.uint16)
read_packed_32 = _packed_reader(32, np.uint32)
read_packed_64 = _packed_reader(64, np.uint64)
