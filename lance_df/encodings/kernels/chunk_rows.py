"""Pick single strings out of mini-block chunks, without decoding the others. Spec: 4.4, 4.7.

All take ``data``, the chunks of a page; ``positions``, where each chunk starts, multiples of 8, and where the
last one ends, which the caller has checked to ascend and to lie within; ``items``, the first value of each
chunk and of what follows the last; ``levels``, how many level buffers come before the values, 0 or 1;
``wide``, whether sizes of value buffers have 32 bits, not 16, 1 or 0; and ``rows``, ascending. They return
the first chunk that does not hold a value that it should, or -1.
"""

import numpy as np

from lance_df.encodings.kernels.chunks import only_buffer
from lance_df.encodings.kernels.jit import kernel, load_8_bytes, load_byte, store_8_bytes

_U = np.uintp
_ESCAPE = _U(255)


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
