"""Find and expand the value buffers of mini-block chunks. Spec: 4.4, 5.1."""

import numpy as np

from lance_df.encodings.kernels.jit import (
    kernel,
    load_8_bytes,
    load_byte,
    store_4_bytes,
    store_8_bytes,
)
from lance_df.encodings.kernels.views import write_view

_U = np.uintp
_ESCAPE = np.uint64(255)
_LOW_BITS = np.uint64(0x7F7F7F7F7F7F7F7F)
_ONES = np.uint64(0x0101010101010101)
_HIGH_BITS = np.uint64(0x8080808080808080)


@kernel
def chunk_buffers(data, positions, items, chunks, levels, wide, starts, sizes):  # type: ignore[no-untyped-def]
    """Find the buffers of chunks; return the first chunk that they do not fit into, or -1.

    Parameters
    ----------
    data
        The chunks of a page.
    positions
        Where each of them starts, multiples of 8, and where the last one ends, which the caller has checked
        to ascend and to lie within.
    items
        The first value of each of them, and of what follows the last.
    chunks
        Which are meant.
    levels
        How many level buffers come before the values. Where there are some, values and levels are as many.
    wide
        Whether sizes of value buffers have 32 bits, not 16.
    starts, sizes
        Receive a row for each buffer: where it starts in ``data``, a multiple of 8, and its bytes.
    """
    num_buffers = len(starts)
    size_bytes = 4 if wide else 2
    header = (2 + 2 * levels + size_bytes * (num_buffers - levels) + 7) & ~7
    for i in range(len(chunks)):
        chunk = chunks[i]
        word = positions[chunk]
        stop = positions[chunk + 1]
        at = word + header
        if at > stop:
            return chunk
        slots = np.int64(data[word]) | np.int64(data[word + 1]) << 8
        if levels and slots != items[chunk + 1] - items[chunk]:
            return chunk
        word += 2
        for number in range(num_buffers):
            size = np.int64(data[word]) | np.int64(data[word + 1]) << 8
            word += 2
            if wide and number >= levels:
                size |= np.int64(data[word]) << 16 | np.int64(data[word + 1]) << 24
                word += 2
            if size > stop - at:
                return chunk
            starts[number, i] = at
            sizes[number, i] = size
            at += (size + 7) & ~7
    return -1


@kernel
def only_buffer(source, position, stop, levels, wide):  # type: ignore[no-untyped-def]
    """Return where the value buffer of a chunk that has one starts, and its bytes, -1 where it does not fit.

    Parameters
    ----------
    source
        Address of the chunks; the others are as :func:`chunk_buffers` has them.
    """
    header = load_8_bytes(source + _U(position))
    start = position + 8
    if levels:
        start += (np.int64(header >> np.uint64(16)) & 0xFFFF) + 7 & ~7
    header >>= np.uint64(16 + 16 * levels)
    size = np.int64(header) & (0xFFFFFFFF if wide else 0xFFFF)
    return start, size if size <= stop - start else np.int64(-1)


@kernel
def expand_fsst_chunks(data, words, starts, sizes, items, first, state, table, places, offsets, views, out):  # type: ignore[no-untyped-def]
    """Expand chunks of FSST-coded strings; return the first whose offsets or codes are broken, or -1.

    Parameters
    ----------
    data, words
        The same memory as bytes and as offsets (signed).
    starts, sizes
        Of the buffer of each chunk.
    items, first
        ``items[first + i]`` is the first value of chunk i, and where the chunk before ends.
    state
        Where to go on, and where it stopped: the chunk, and the bytes written. It stops before all chunks are
        done where ``out`` may be too small. The third entry is set to 1 where an escaped byte is no ASCII.
    table
        256 symbols (little-endian, first byte first), then their lengths, at most 8.
    places
        Room for one more than the bytes of any chunk, which are at most 2**27.
    offsets
        Receives where values end in ``out``; the first entry is left alone.
    views
        Receives views of the values instead, unless it is empty.
    out
        Written to in words of 8 bytes.
    """
    width = words.itemsize
    source = _U(data.ctypes.data)
    target = _U(out.ctypes.data)
    symbol = _U(table.ctypes.data)
    length = symbol + _U(256 * 8)
    as_views = len(views) > 0
    view = _U(views.ctypes.data) - _U(16)
    while state[0] < len(starts):
        chunk = state[0]
        count = items[first + chunk + 1] - items[first + chunk]
        base = starts[chunk] // width
        if (count + 1) * width > sizes[chunk]:
            return chunk
        low = np.int64(words[base])
        high = np.int64(words[base + count])
        if low < 0 or high < low or high > sizes[chunk]:
            return chunk
        if state[1] + 8 * (high - low) + 16 > len(out):
            return -1
        at = source + _U(starts[chunk] + low)
        stop = source + _U(starts[chunk] + high)
        to = target + _U(state[1])
        # of addresses only the low half is noted: a chunk does not reach further
        begin = np.int32(to)
        mark = _U(places.ctypes.data)
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
                return chunk
            literal = load_byte(at + _U(1))
            state[2] |= literal >> 7
            store_8_bytes(to, np.uint64(literal))
            store_4_bytes(mark, begin - np.int32(1))
            mark += _U(4)
            to += _U(1)
            at += _U(2)
        store_4_bytes(mark, np.int32(to))
        value = items[first + chunk] - items[first]
        written = target + _U(state[1])
        after = np.int64(0)
        previous = low
        for number in range(1, count + 1):
            offset = np.int64(words[base + number])
            if offset < previous or offset > high or np.int32(places[offset - low] - begin) < 0:
                return chunk
            end = np.int64(np.int32(places[offset - low] - begin))
            if as_views:
                write_view(
                    view + _U(16 * (value + number)), written + _U(after), state[1] + after, end - after
                )
            else:
                offsets[value + number] = state[1] + end
            after = end
            previous = offset
        state[1] = np.int64(to - target)
        state[0] = chunk + 1
    return -1
