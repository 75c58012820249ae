"""Pick single values out of mini-block chunks, without decoding the others. Spec: 4.4, 4.7.

All take ``data``, the chunks of a page; ``positions``, where each chunk starts, multiples of 8, and where the
last one ends, which the caller has checked to ascend and to lie within; ``items``, the first value of each
chunk and of what follows the last; ``levels``, how many level buffers come before the values, 0 or 1;
``wide``, whether sizes of value buffers have 32 bits, not 16, 1 or 0; and ``rows``, ascending. They return
the first chunk that does not hold a value that it should, or -1.
"""

import numpy as np

from lance_df.encodings.kernels.chunks import only_buffer
from lance_df.encodings.kernels.jit import copy_bytes, kernel, load_8_bytes, load_byte, store_8_bytes

_U = np.uintp
_ESCAPE = _U(255)
_BLOCK = 1024
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_BLOCK_BYTES_PER_BIT = 128
# where the eighths of a block of 1024 values lie, which is its own inverse
_EIGHTHS = np.array([0, 4, 2, 6, 1, 5, 3, 7])


@kernel
def take_flat(data, positions, items, levels, wide, width, rows, out):  # type: ignore[no-untyped-def]
    """Pick flat values of ``width`` bytes. ``out`` has room for all of them."""
    source = _U(data.ctypes.data)
    target = out.ctypes.data
    num_chunks = len(positions) - 1
    chunk = -1
    start = np.int64(0)
    for i in range(len(rows)):
        row = rows[i]
        if chunk < 0 or row >= items[chunk + 1]:
            chunk += 1
            while chunk < num_chunks and row >= items[chunk + 1]:
                chunk += 1
            if chunk == num_chunks:
                return chunk
            start, size = only_buffer(source, positions[chunk], positions[chunk + 1], levels, wide)
            if (items[chunk + 1] - items[chunk]) * width > size:
                return chunk
        place = row - items[chunk]
        if place < 0:
            return chunk
        copy_bytes(target + _U(i * width), source + _U(start + place * width), width)
    return -1


@kernel
def take_packed(data, words, positions, items, levels, wide, rows, out):  # type: ignore[no-untyped-def]
    """Pick inline bit-packed values.

    ``words`` is the same memory as ``data``. ``out`` has room for all of them.
    """
    source = _U(data.ctypes.data)
    width = words.itemsize
    word_bits = 8 * width
    lanes = _BLOCK // word_bits
    num_chunks = len(positions) - 1
    chunk = -1
    first = bits = np.int64(0)
    mask = np.uint64(0)
    for i in range(len(rows)):
        row = rows[i]
        if chunk < 0 or row >= items[chunk + 1]:
            chunk += 1
            while chunk < num_chunks and row >= items[chunk + 1]:
                chunk += 1
            if chunk == num_chunks:
                return chunk
            start, size = only_buffer(source, positions[chunk], positions[chunk + 1], levels, wide)
            if size < width or items[chunk + 1] - items[chunk] > _BLOCK:
                return chunk
            first = start // width
            if np.uint64(words[first]) > np.uint64(word_bits):
                return chunk
            bits = np.int64(words[first])
            if width + bits * _BLOCK_BYTES_PER_BIT > size:
                return chunk
            first += 1
            mask = _ALL >> np.uint64(64 - bits) if bits else np.uint64(0)
        place = row - items[chunk]
        if place < 0:
            return chunk
        # a value is in one lane of one packed row of words; where, the unpacking of whole blocks says too
        bit = (_EIGHTHS[place % 128 // lanes * lanes // 16] * 8 + place // 128) * bits
        shift = bit % word_bits
        at = _U(first + bit // word_bits * lanes + place % lanes)
        value = np.uint64(0)
        if bits:
            value = np.uint64(words[at]) >> np.uint64(shift)
        if shift + bits > word_bits:
            value |= np.uint64(words[at + _U(lanes)]) << np.uint64(word_bits - shift)
        out[i] = value & mask
    return -1


@kernel
def take_runs(data, positions, items, levels, wide, width, rows, out):  # type: ignore[no-untyped-def]
    """Pick run-length encoded values of ``width`` bytes. ``out`` has room for all of them."""
    source = _U(data.ctypes.data)
    target = out.ctypes.data
    num_chunks = len(positions) - 1
    header = 16 if wide else 8
    chunk = -1
    start = lengths = run = num_runs = run_stop = np.int64(0)
    for i in range(len(rows)):
        row = rows[i]
        if chunk < 0 or row >= items[chunk + 1]:
            chunk += 1
            while chunk < num_chunks and row >= items[chunk + 1]:
                chunk += 1
            if chunk == num_chunks:
                return chunk
            start = positions[chunk]
            stop = positions[chunk + 1]
            if stop - start < header:
                return chunk
            at = start + 2
            start += header + ((np.int64(data[at]) | np.int64(data[at + 1]) << 8) + 7 & ~7) * levels
            at += 2 * levels
            size = np.int64(data[at]) | np.int64(data[at + 1]) << 8
            size |= (np.int64(data[at + 2]) << 16 | np.int64(data[at + 3]) << 24) * wide
            at += 2 + 2 * wide
            num_runs = np.int64(data[at]) | np.int64(data[at + 1]) << 8
            if wide:
                num_runs |= np.int64(data[at + 2]) << 16 | np.int64(data[at + 3]) << 24
            lengths = start + (size + 7 & ~7)
            if num_runs > stop - lengths:
                return chunk
            num_runs = min(num_runs, size // width)
            run = np.int64(-1)
            run_stop = np.int64(0)
        place = row - items[chunk]
        if place < 0:
            return chunk
        while run_stop <= place:
            run += 1
            if run == num_runs:
                return chunk
            run_stop += np.int64(data[lengths + run])
        copy_bytes(target + _U(i * width), source + _U(start + run * width), width)
    return -1


@kernel
def find_strings(data, words, positions, items, levels, wide, rows, starts, ends):  # type: ignore[no-untyped-def]
    """Find values of variable width: ``starts`` and ``ends`` receive where they lie in ``data``.

    ``words`` is the same memory as signed offsets.
    """
    source = _U(data.ctypes.data)
    width = words.itemsize
    num_chunks = len(positions) - 1
    chunk = -1
    start = size = np.int64(0)
    for i in range(len(rows)):
        row = rows[i]
        if chunk < 0 or row >= items[chunk + 1]:
            chunk += 1
            while chunk < num_chunks and row >= items[chunk + 1]:
                chunk += 1
            if chunk == num_chunks:
                return chunk
            start, size = only_buffer(source, positions[chunk], positions[chunk + 1], levels, wide)
            if (items[chunk + 1] - items[chunk] + 1) * width > size:
                return chunk
        place = row - items[chunk]
        if place < 0:
            return chunk
        low = np.int64(words[start // width + place])
        high = np.int64(words[start // width + place + 1])
        if low < 0 or high < low or high > size:
            return chunk
        starts[i] = start + low
        ends[i] = start + high
    return -1


@kernel
def expand_strings(data, starts, ends, table, state, offsets, out):  # type: ignore[no-untyped-def]
    """Expand FSST-coded strings one by one; return the first that ends within an escape, or -1.

    Parameters
    ----------
    starts, ends
        Where the codes of each lie in ``data``, as :func:`find_strings` says.
    table
        256 symbols (little-endian, first byte first), then their lengths, at most 8.
    state
        Receives what is not 0 where an escaped byte is no ASCII.
    offsets
        Receives where each string ends in ``out``; the first entry is left alone.
    out
        Room for 8 bytes a code, and 8 more.
    """
    source = _U(data.ctypes.data)
    target = _U(out.ctypes.data)
    symbol = _U(table.ctypes.data)
    length = symbol + _U(256 * 8)
    to = target
    for i in range(len(starts)):
        at = source + _U(starts[i])
        stop = source + _U(ends[i])
        while at < stop:
            code = _U(load_byte(at))
            if code != _ESCAPE:
                store_8_bytes(to, load_8_bytes(symbol + (code << _U(3))))
                to += _U(load_8_bytes(length + (code << _U(3))))
                at += _U(1)
                continue
            if at + _U(1) == stop:
                return i
            literal = load_byte(at + _U(1))
            state[0] |= literal >> 7
            store_8_bytes(to, np.uint64(literal))
            to += _U(1)
            at += _U(2)
        offsets[i + 1] = np.int64(to - target)
    return -1
