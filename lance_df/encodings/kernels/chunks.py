"""Find, copy and expand the value buffers of mini-block chunks without levels. Spec: 4.4, 5.1.

All take ``data``, the chunks of a page; ``positions``, where each chunk starts, multiples of 8, and where the
last one ends, which the caller has checked to ascend and to lie within; ``first`` and ``count``, which chunks
are meant; and ``wide``, whether sizes in their headers have 32 bits, not 16.
"""

import numpy as np

from lance_df.encodings.kernels.jit import (
    copy_bytes,
    kernel,
    load_8_bytes,
    load_byte,
    store_4_bytes,
    store_8_bytes,
)

_U = np.uintp
_BLOCK = 1024
_BLOCK_BYTES_PER_BIT = 128
_ESCAPE = np.uint64(255)
_LOW_BITS = np.uint64(0x7F7F7F7F7F7F7F7F)
_ONES = np.uint64(0x0101010101010101)
_HIGH_BITS = np.uint64(0x8080808080808080)


@kernel
def chunk_buffers(data, positions, first, count, wide, starts, sizes):  # type: ignore[no-untyped-def]
    """Find the value buffers of chunks; return the first chunk that they do not fit into, or -1.

    Parameters
    ----------
    starts, sizes
        Receive a row for each buffer: where it starts in ``data``, a multiple of 8, and its bytes.
    """
    num_buffers = len(starts)
    size_bytes = 4 if wide else 2
    header = (2 + size_bytes * num_buffers + 7) & ~7
    for chunk in range(count):
        start = positions[first + chunk]
        stop = positions[first + chunk + 1]
        at = start + header
        if at > stop:
            return first + chunk
        for number in range(num_buffers):
            word = start + 2 + size_bytes * number
            size = np.int64(data[word]) | np.int64(data[word + 1]) << 8
            if wide:
                size |= np.int64(data[word + 2]) << 16 | np.int64(data[word + 3]) << 24
            if size > stop - at:
                return first + chunk
            starts[number, chunk] = at
            sizes[number, chunk] = size
            at += (size + 7) & ~7
    return -1


@kernel
def copy_flat(data, positions, first, count, wide, items, width, out):  # type: ignore[no-untyped-def]
    """Copy flat values; return the first chunk that has too few, or -1.

    Parameters
    ----------
    items
        The first value of each chunk, and of what follows the last.
    width
        Bytes of a value.
    out
        Room for the values of the chunks.
    """
    source = data.ctypes.data
    target = out.ctypes.data
    room = len(out)
    for chunk in range(first, first + count):
        start = positions[chunk]
        if positions[chunk + 1] - start < 8:
            return chunk
        size = np.int64(data[start + 2]) | np.int64(data[start + 3]) << 8
        if wide:
            size |= np.int64(data[start + 4]) << 16 | np.int64(data[start + 5]) << 24
        num_bytes = (items[chunk + 1] - items[chunk]) * width
        if num_bytes > size or size > positions[chunk + 1] - start - 8 or num_bytes > room:
            return chunk
        copy_bytes(target, source + _U(start + 8), num_bytes)
        target += _U(num_bytes)
        room -= num_bytes
    return -1


@kernel
def packed_blocks(data, positions, first, count, wide, items, word_bytes, starts, widths):  # type: ignore[no-untyped-def]
    """Find inline bit-packed blocks; return the first chunk that does not hold its block, or -1.

    Parameters
    ----------
    items
        The first value of each chunk, and of what follows the last.
    word_bytes
        Bytes of a value.
    starts, widths
        Receive, for each chunk, the first packed word and the packed bits of a value.
    """
    for chunk in range(count):
        start = positions[first + chunk]
        room = positions[first + chunk + 1] - start - 8
        if room < word_bytes or items[first + chunk + 1] - items[first + chunk] > _BLOCK:
            return first + chunk
        size = np.int64(data[start + 2]) | np.int64(data[start + 3]) << 8
        if wide:
            size |= np.int64(data[start + 4]) << 16 | np.int64(data[start + 5]) << 24
        width = np.int64(data[start + 8])
        for place in range(1, word_bytes):
            if data[start + 8 + place] != 0:
                return first + chunk
        if width > 8 * word_bytes or size > room or word_bytes + width * _BLOCK_BYTES_PER_BIT > size:
            return first + chunk
        starts[chunk] = (start + 8) // word_bytes + 1
        widths[chunk] = width
    return -1


@kernel
def expand_fsst_chunks(data, words, starts, sizes, items, first, state, table, places, offsets, out):  # type: ignore[no-untyped-def]
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
    out
        Written to in words of 8 bytes.
    """
    width = words.itemsize
    source = _U(data.ctypes.data)
    target = _U(out.ctypes.data)
    symbol = _U(table.ctypes.data)
    length = symbol + _U(256 * 8)
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
        previous = low
        for number in range(1, count + 1):
            offset = np.int64(words[base + number])
            if offset < previous or offset > high:
                return chunk
            end = np.int32(places[offset - low] - begin)
            if end < 0:
                return chunk
            offsets[value + number] = state[1] + end
            previous = offset
        state[1] = np.int64(to - target)
        state[0] = chunk + 1
    return -1
