"""Read ranges of rows of (offsets, bytes) in chunks of pages in memory; see `page_rows`. Spec: 4.7.7."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lance_df.encodings.kernels.chunks import only_buffer
from lance_df.encodings.kernels.jit import copy_bytes, kernel, load_item, store_item
from lance_df.encodings.kernels.page_map import (
    DATA,
    DATA_BYTES,
    ITEMS,
    LEVELS,
    NUM_CHUNKS,
    POSITIONS,
    WIDE,
    WIDTH,
)
from lance_df.encodings.kernels.page_rows import chunk_of, entry
from lance_df.encodings.kernels.views import has_other_bytes, write_views

if TYPE_CHECKING:
    from collections.abc import Callable

_U = np.uintp
_INT = np.int64(0)
_OFFSET = np.int32(0)


@kernel
def read_views(page, start, stop, out):  # type: ignore[no-untyped-def]
    """Write views that count from the chunk of the first row, of chunks of less than 2**31 bytes.

    Offsets have 4 bytes. Returns -2 where all is well, but some bytes are no ASCII.
    """
    source, positions, items = _U(entry(page, DATA)), _U(entry(page, POSITIONS)), _U(entry(page, ITEMS))
    levels, wide, end = entry(page, LEVELS), entry(page, WIDE), entry(page, DATA_BYTES)
    view = _U(out)
    has_other = False
    chunk = _U(chunk_of(items, entry(page, NUM_CHUNKS), start))
    base = load_item(positions, chunk, _INT)
    while start < stop:
        first, after = load_item(items, chunk, _INT), load_item(items, chunk + _U(1), _INT)
        begin, limit = load_item(positions, chunk, _INT), load_item(positions, chunk + _U(1), _INT)
        begin, size = only_buffer(source, begin, limit, levels, wide)
        if after - first >= size // 4:
            return np.int64(chunk)
        count = min(stop, after) - start
        offsets = source + _U(begin + (start - first) * 4)
        low = np.int64(load_item(offsets, _U(0), _OFFSET))
        high = np.int64(load_item(offsets, _U(count), _OFFSET))
        if low < 0 or high < low or high > size:
            return np.int64(chunk)
        has_other |= has_other_bytes(source + _U(begin + low), high - low)
        if not write_views(offsets, count, source + _U(base), begin - base, end - base, view, _OFFSET):
            return np.int64(chunk)
        view += _U(count) << _U(4)
        start += count
        chunk += _U(1)
    return np.int64(-2 if has_other else -1)


@kernel
def room_for_strings(page, start, stop):  # type: ignore[no-untyped-def]
    """Return how many bytes the values of the chunks of rows take, or -1 less the first broken chunk."""
    source, positions, items = _U(entry(page, DATA)), _U(entry(page, POSITIONS)), _U(entry(page, ITEMS))
    levels, wide, width = entry(page, LEVELS), entry(page, WIDE), entry(page, WIDTH)
    room = np.int64(0)
    chunk = _U(chunk_of(items, entry(page, NUM_CHUNKS), start))
    while start < stop:
        count = load_item(items, chunk + _U(1), _INT) - load_item(items, chunk, _INT)
        begin, limit = load_item(positions, chunk, _INT), load_item(positions, chunk + _U(1), _INT)
        begin, size = only_buffer(source, begin, limit, levels, wide)
        if count >= size // width:
            return -1 - np.int64(chunk)
        room += size - (count + 1) * width
        chunk += _U(1)
        start = load_item(items, chunk, _INT)
    return room


def _string_reader(width: int, offset_type: Callable[[Any], Any]) -> Callable[..., Any]:
    @kernel
    def read_strings(page, start, stop, out_offsets, out, room):  # type: ignore[no-untyped-def]
        """Write offsets, and at most ``room`` bytes, as :func:`room_for_strings` says."""
        source, positions, items = _U(entry(page, DATA)), _U(entry(page, POSITIONS)), _U(entry(page, ITEMS))
        levels, wide, like = entry(page, LEVELS), entry(page, WIDE), offset_type(0)
        target, ends = _U(out), _U(out_offsets)
        store_item(ends, _U(0), like)
        chunk = _U(chunk_of(items, entry(page, NUM_CHUNKS), start))
        while start < stop:
            first, after = load_item(items, chunk, _INT), load_item(items, chunk + _U(1), _INT)
            begin, limit = load_item(positions, chunk, _INT), load_item(positions, chunk + _U(1), _INT)
            begin, size = only_buffer(source, begin, limit, levels, wide)
            count = min(stop, after) - start
            offsets = source + _U(begin + (start - first) * width)
            low = np.int64(load_item(offsets, _U(0), like))
            high = np.int64(load_item(offsets, _U(count), like))
            if low < 0 or high < low or high > size or high - low > room:
                return np.int64(chunk)
            room -= high - low
            # loops over neighbours without a way out take many at a time
            shift = np.int64(target - _U(out)) - low
            is_broken = False
            for i in range(_U(count)):
                is_broken |= load_item(offsets, i + _U(1), like) < load_item(offsets, i, like)
            for i in range(_U(1), _U(count + 1)):
                store_item(ends, i, offset_type(np.int64(load_item(offsets, i, like)) + shift))
            if is_broken:
                return np.int64(chunk)
            copy_bytes(target, source + _U(begin + low), high - low)
            target += _U(high - low)
            ends += _U(count * width)
            start += count
            chunk += _U(1)
        return np.int64(-1)

    return read_strings


read_strings_32 = _string_reader(4, np.int32)
read_strings_64 = _string_reader(8, np.int64)
