"""Pick values out of arrays by position.

Callers have checked positions that come from a file, such as dictionary indices.
"""

import numpy as np

from lance_df.encodings.kernels.jit import copy_bytes, kernel, load_8_bytes, load_byte, store_8_bytes

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
def rare_positions(mask, wanted, out):  # type: ignore[no-untyped-def]
    """Write the positions of the bytes 0 or 1 that are ``wanted``, fast where few are; return how many.

    ``out`` is one longer than the most that are found.
    """
    found = 0
    source = _U(mask.ctypes.data)
    whole = len(mask) & ~7
    others = np.uint64(0) if wanted else np.uint64(0x0101010101010101)
    flip = np.uint8(0) if wanted else np.uint8(1)
    for i in range(0, whole, 8):
        if load_8_bytes(source + _U(i)) == others:
            continue
        for k in range(i, i + 8):
            out[found] = k
            found += load_byte(source + _U(k)) ^ flip
    for k in range(whole, len(mask)):
        out[found] = k
        found += load_byte(source + _U(k)) ^ flip
    return found


@kernel
def copy_between(data, width, dropped, out):  # type: ignore[no-untyped-def]
    """Write values of ``width`` bytes but for those at ascending positions.

    ``data`` holds whole values, among them those at ``dropped``; ``out`` has room for the others.
    """
    source = _U(data.ctypes.data)
    to = _U(out.ctypes.data)
    begin = _U(0)
    for i in range(len(dropped)):
        end = _U(dropped[i]) * _U(width)
        copy_bytes(to, source + begin, end - begin)
        to += end - begin
        begin = end + _U(width)
    copy_bytes(to, source + begin, _U(len(data)) - begin)


@kernel
def gather_bits(bits, offset, positions, out):  # type: ignore[no-untyped-def]
    """Write the bits at ``offset + positions[i]``; return how many are set. ``out`` has whole bytes."""
    found = _U(0)
    whole = len(positions) >> 3
    out[whole:] = 0
    for i in range(whole << 3, len(positions)):
        position = _U(positions[i]) + _U(offset)
        bit = (_U(bits[position >> _U(3)]) >> (position & _U(7))) & _U(1)
        out[whole] |= bit << _U(i & 7)
        found += bit
    for j in range(whole):
        byte = _U(0)
        for k in range(8):
            position = _U(positions[8 * j + k]) + _U(offset)
            bit = (_U(bits[position >> _U(3)]) >> (position & _U(7))) & _U(1)
            byte |= bit << _U(k)
            found += bit
        out[j] = byte
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
def look_up_pairs(pairs, indices, positions, out):  # type: ignore[no-untyped-def]
    """Write ``pairs[indices[positions[i]]]``. The caller has checked that all lie within."""
    for i in range(len(positions)):
        index = _U(indices[_U(positions[i])])
        out[i, 0] = pairs[index, 0]
        out[i, 1] = pairs[index, 1]


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
