"""Read ranges of rows of FSST-coded strings of pages in memory; see `page_rows`. Spec: 4.7.7, 4.7.10."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lance_df.encodings.kernels.chunks import only_buffer
from lance_df.encodings.kernels.jit import (
    kernel,
    load_8_bytes,
    load_byte,
    load_item,
    store_4_bytes,
    store_8_bytes,
    store_item,
)
from lance_df.encodings.kernels.page_map import DATA, ITEMS, LEVELS, NUM_CHUNKS, POSITIONS, TABLE, WIDE
from lance_df.encodings.kernels.page_rows import chunk_of, entry
from lance_df.encodings.kernels.views import write_view

if TYPE_CHECKING:
    from collections.abc import Callable

_U = np.uintp
_INT = np.int64(0)
_ESCAPE = np.uint64(255)
_LOW_BITS = np.uint64(0x7F7F7F7F7F7F7F7F)
_ONES = np.uint64(0x0101010101010101)
_HIGH_BITS = np.uint64(0x8080808080808080)


@kernel
def _expand(at, stop, symbol, to, marks):  # type: ignore[no-untyped-def]
    """Expand codes; return where their bytes end, 0 where an escape lacks its byte.

    Also return 1 where an escaped byte is no ASCII.

    Where the bytes of each code go is noted, as the low half of the address: a chunk does not reach further.
    For an escaped byte, it is before all others.
    """
    length = symbol + _U(256 * 8)
    before = np.int32(to) - np.int32(1)
    other = np.uint8(0)
    mark = marks
    while at < stop:
        if at + _U(8) <= stop:
            block = load_8_bytes(at)
            if ((block & _LOW_BITS) + _ONES) & block & _HIGH_BITS == np.uint64(0):
                for _ in range(8):
                    code = block & _ESCAPE
                    block >>= np.uint64(8)
                    store_4_bytes(mark, np.int32(to))
                    mark += _U(4)
                    store_8_bytes(to, load_8_bytes(symbol + (code << _U(3))))
                    to += _U(load_8_bytes(length + (code << _U(3))))
                at += _U(8)
                continue
        code = _U(load_byte(at))
        store_4_bytes(mark, np.int32(to))
        mark += _U(4)
        if code != _ESCAPE:
            store_8_bytes(to, load_8_bytes(symbol + (code << _U(3))))
            to += _U(load_8_bytes(length + (code << _U(3))))
            at += _U(1)
            continue
        if at + _U(1) == stop:
            return _U(0), other
        literal = load_byte(at + _U(1))
        other |= np.uint8(literal >> 7)
        store_8_bytes(to, np.uint64(literal))
        store_4_bytes(mark, before)
        mark += _U(4)
        to += _U(1)
        at += _U(2)
    store_4_bytes(mark, np.int32(to))
    return to, other


def _code_reader(width: int, offset_type: Callable[[Any], Any]) -> Callable[..., Any]:
    @kernel
    def read_codes(page, start, stop, places, as_views, placed, out, state):  # type: ignore[no-untyped-def]
        """Expand strings by the table of the page: 256 symbols of 8 bytes, then their lengths.

        Parameters
        ----------
        places
            Room to work in, one more than the bytes of the longest chunk, of which there are at most 2**27.
        as_views, placed
            Whether views are written to this address, not the ends of values in ``out``.
        out
            Address of words of 8 bytes.
        state
            The row to go on from, the bytes written, the room in ``out``, and 0. It stops before all rows are
            done where the room may be too small. The last is set to 1 where an escaped byte is no ASCII.
        """
        source, positions, items = _U(entry(page, DATA)), _U(entry(page, POSITIONS)), _U(entry(page, ITEMS))
        levels, wide, symbol = entry(page, LEVELS), entry(page, WIDE), _U(entry(page, TABLE))
        like = offset_type(0)
        first_row = start
        start = state[0]
        chunk = _U(chunk_of(items, entry(page, NUM_CHUNKS), start))
        while start < stop:
            first, after = load_item(items, chunk, _INT), load_item(items, chunk + _U(1), _INT)
            begin, end = load_item(positions, chunk, _INT), load_item(positions, chunk + _U(1), _INT)
            begin, size = only_buffer(source, begin, end, levels, wide)
            if after - first >= size // width:
                return np.int64(chunk)
            count = min(stop, after) - start
            offsets = source + _U(begin + (start - first) * width)
            low = np.int64(load_item(offsets, _U(0), like))
            high = np.int64(load_item(offsets, _U(count), like))
            if low < 0 or high < low or high > size:
                return np.int64(chunk)
            if state[1] + 8 * (high - low) + 16 > state[2]:
                return np.int64(-1)
            written = _U(out) + _U(state[1])
            codes = source + _U(begin)
            to, other = _expand(codes + _U(low), codes + _U(high), symbol, written, _U(places.ctypes.data))
            if to == 0:
                return np.int64(chunk)
            state[3] |= other
            after_last = np.int64(0)
            previous = low
            place = _U(start - first_row)
            for number in range(_U(count)):
                offset = np.int64(load_item(offsets, number + _U(1), like))
                if offset < previous or offset > high:
                    return np.int64(chunk)
                value_end = np.int64(np.int32(places[offset - low] - np.int32(written)))
                if value_end < after_last:
                    return np.int64(chunk)
                if as_views:
                    view = _U(placed) + ((place + number) << _U(4))
                    write_view(view, written + _U(after_last), state[1] + after_last, value_end - after_last)
                else:
                    store_item(_U(placed), place + number + _U(1), offset_type(state[1] + value_end))
                after_last = value_end
                previous = offset
            state[1] += np.int64(to - written)
            start += count
            state[0] = start
            chunk += _U(1)
        return np.int64(-1)

    return read_codes


read_codes_32 = _code_reader(4, np.int32)
read_codes_64 = _code_reader(8, np.int64)
