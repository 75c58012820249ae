"""Pick values out of arrays by position.

Positions are checked here only where they come from a file: dictionary indices are, selected rows are not.
"""

import numpy as np

from lance_df.encodings.kernels.jit import copy_bytes, kernel, store_8_bytes

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
    """Write ``words[positions[i]]`` for each i; return the first i outside of ``words``, or -1."""
    count = _U(len(words))
    for i in range(len(positions)):
        position = _U(positions[i])
        if position >= count:
            return i
        out[i] = words[position]
    return -1


@kernel
def gather_pairs(words, positions, out):  # type: ignore[no-untyped-def]
    """Do the same with rows of two words."""
    count = _U(len(words))
    for i in range(len(positions)):
        position = _U(positions[i])
        if position >= count:
            return i
        out[i, 0] = words[position, 0]
        out[i, 1] = words[position, 1]
    return -1


@kernel
def sum_lengths(lengths, positions):  # type: ignore[no-untyped-def]
    """Return the sum of ``lengths[positions[i]]``, or -1 - i for the first i outside of ``lengths``."""
    count = _U(len(lengths))
    total = 0
    for i in range(len(positions)):
        position = _U(positions[i])
        if position >= count:
            return -1 - i
        total += int(lengths[position])
    return total


@kernel
def gather_padded(words, lengths, positions, out_offsets, out):  # type: ignore[no-untyped-def]
    """Write short values back to back.

    Parameters
    ----------
    words, lengths
        Values as rows of two or four words, padded, and how many bytes of them count.
    positions
        The caller has checked that they lie within.
    out_offsets, out
        Room for one offset more than positions, and for the bytes of a row more than the values take.
    """
    target = out.ctypes.data
    end = 0
    out_offsets[0] = 0
    if words.shape[1] == 2:
        for i in range(len(positions)):
            position = positions[i]
            store_8_bytes(target + end, words[position, 0])
            store_8_bytes(target + end + 8, words[position, 1])
            end += int(lengths[position])
            out_offsets[i + 1] = end
        return
    for i in range(len(positions)):
        position = _U(positions[i])
        store_8_bytes(target + end, words[position, 0])
        store_8_bytes(target + end + 8, words[position, 1])
        store_8_bytes(target + end + 16, words[position, 2])
        store_8_bytes(target + end + 24, words[position, 3])
        end += int(lengths[position])
        out_offsets[i + 1] = end


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
