"""Pick values out of arrays by position.

Callers have checked positions that come from a file, such as dictionary indices.
"""

import numpy as np

from lance_df.encodings.kernels.jit import copy_bytes, kernel, load_8_bytes, store_8_bytes

# as unsigned numbers positions below 0 are beyond the end too, and need no look at their sign
_U = np.uintp


@kernel
def mask_positions(mask, out):  # type: ignore[no-untyped-def]
    """Write the positions of what is true; return how many there are. ``out`` is as long as ``mask``."""
    found = 0
    for i in range(len(mask)):
        out[found] = i
        found += mask[i]
    return found


@kernel
def gather_words(words, positions, out):  # type: ignore[no-untyped-def]
    """Write ``words[positions[i]]`` for each i. The caller has checked that positions lie within."""
    for i in range(len(positions)):
        out[i] = words[_U(positions[i])]


@kernel
def gather_pairs(words, positions, out):  # type: ignore[no-untyped-def]
    """Do the same with rows of two words."""
    for i in range(len(positions)):
        position = _U(positions[i])
        out[i, 0] = words[position, 0]
        out[i, 1] = words[position, 1]


@kernel
def sum_lengths(lengths, positions):  # type: ignore[no-untyped-def]
    """Return the sum of ``lengths[positions[i]]``. The caller has checked that positions lie within."""
    total = 0
    for i in range(len(positions)):
        total += int(lengths[_U(positions[i])])
    return total


@kernel
def gather_padded(words, lengths, positions, out_offsets, out):  # type: ignore[no-untyped-def]
    """Write short values back to back; return their bytes.

    Parameters
    ----------
    words, lengths
        Values as rows of two to four words, padded, and how many bytes of them count.
    positions
        The caller has checked that they lie within.
    out_offsets, out
        Room for one offset more than positions, and for the bytes of a row more than the values take.
    """
    source = _U(words.ctypes.data)
    to = _U(out.ctypes.data)
    begin = to
    out_offsets[0] = 0
    if words.shape[1] == 2:
        for i in range(len(positions)):
            position = _U(positions[i])
            row = source + (position << _U(4))
            store_8_bytes(to, load_8_bytes(row))
            store_8_bytes(to + _U(8), load_8_bytes(row + _U(8)))
            to += _U(lengths[position])
            out_offsets[i + 1] = to - begin
        return to - begin
    if words.shape[1] == 3:
        for i in range(len(positions)):
            position = _U(positions[i])
            row = source + position * _U(24)
            store_8_bytes(to, load_8_bytes(row))
            store_8_bytes(to + _U(8), load_8_bytes(row + _U(8)))
            store_8_bytes(to + _U(16), load_8_bytes(row + _U(16)))
            to += _U(lengths[position])
            out_offsets[i + 1] = to - begin
        return to - begin
    for i in range(len(positions)):
        position = _U(positions[i])
        row = source + (position << _U(5))
        store_8_bytes(to, load_8_bytes(row))
        store_8_bytes(to + _U(8), load_8_bytes(row + _U(8)))
        store_8_bytes(to + _U(16), load_8_bytes(row + _U(16)))
        store_8_bytes(to + _U(24), load_8_bytes(row + _U(24)))
        to += _U(lengths[position])
        out_offsets[i + 1] = to - begin
    return to - begin


@kernel
def gather_spans(offsets, data, positions, out_offsets, out):  # type: ignore[no-untyped-def]
    """Write values ``data[offsets[p]:offsets[p + 1]]`` back to back; neighbours are copied at once.

    The caller has checked that positions and offsets lie within, and that ``out`` has the right size.
    """
    target = out.ctypes.data
    source = data.ctypes.data
    end = 0
    out_offsets[0] = 0
    count = len(positions)
    i = 0
    while i < count:
        first = np.int64(positions[i])
        start = int(offsets[first])
        shift = end - start
        next_position = first
        while i < count and np.int64(positions[i]) == next_position:
            next_position += 1
            i += 1
            out_offsets[i] = int(offsets[next_position]) + shift
        size = int(offsets[next_position]) - start
        copy_bytes(target + end, source + start, size)
        end += size
