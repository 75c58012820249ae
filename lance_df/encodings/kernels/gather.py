"""Take values from arrays by position.

Positions are unsigned little-endian integers of 1, 2, 4 or 8 bytes, and callers have checked that they are in
range (dictionary indices come from a file).
"""

from __future__ import annotations

import cython

if cython.compiled:
    from cython.cimports.lance_df.encodings.kernels.memory import (
        copy_ahead,
        load_64,
        load_word,
        store_64,
        store_word,
    )
else:
    from lance_df.encodings.kernels.memory import (
        copy_ahead,
        load_64,
        load_word,
        run_uncompiled,
        store_64,
        store_word,
    )


# for each byte, the bits that are set, ascending
_BITS_OF = cython.declare(cython.longlong[2048])
_NUM_BITS = cython.declare(cython.Py_ssize_t[256])


@cython.cfunc
def _fill_tables() -> cython.void:
    byte: cython.int
    bit: cython.int
    count: cython.int
    for byte in range(256):
        count = 0
        for bit in range(8):
            _BITS_OF[8 * byte + bit] = 0
            if byte >> bit & 1:
                _BITS_OF[8 * byte + count] = bit
                count += 1
        _NUM_BITS[byte] = count


if not cython.compiled:
    _BITS_OF = [0] * 2048
    _NUM_BITS = [0] * 256
_fill_tables()


def find_positions(
    mask: cython.const[cython.uchar][::1], wanted: cython.bint, out: cython.longlong[::1]
) -> cython.Py_ssize_t:
    """Write the positions of the bytes (0 or 1) equal to ``wanted``; return their number.

    Parameters
    ----------
    mask
        Bytes that are 0 or 1.
    out
        The output, longer by 8 than the number of positions, which the caller has counted.

    Raises
    ------
    ValueError
        There are more positions.
    """
    total: cython.Py_ssize_t
    with cython.nogil:
        total = _find_positions(mask, wanted, out)
    if total < 0:
        raise ValueError(f"the mask has more than the {out.shape[0] - 8} positions counted before")
    return total


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _find_positions(
    mask: cython.const[cython.uchar][::1], wanted: cython.bint, out: cython.longlong[::1]
) -> cython.Py_ssize_t:
    i: cython.Py_ssize_t = 0
    k: cython.Py_ssize_t
    total: cython.Py_ssize_t = 0
    count: cython.Py_ssize_t = mask.shape[0]
    room: cython.Py_ssize_t = out.shape[0]
    flip: cython.ulonglong = 0x0101010101010101
    if wanted:
        flip = 0
    # if few are wanted, it pays off to check first whether any of several is
    if out.shape[0] * 16 < count:
        while i + 32 <= count:
            if (
                load_64(mask, i) ^ flip
                | load_64(mask, i + 8) ^ flip
                | load_64(mask, i + 16) ^ flip
                | load_64(mask, i + 24) ^ flip
            ):
                for k in range(i, i + 32, 8):
                    if load_64(mask, k) != flip:
                        if total + 8 > room:
                            return -1
                        total = _note(load_64(mask, k) ^ flip, k, total, out)
            i += 32
    while i + 8 <= count:
        if total + 8 > room:
            return -1
        total = _note(load_64(mask, i) ^ flip, i, total, out)
        i += 8
    while i < count:
        if total >= room:
            return -1
        out[total] = i
        total += (mask[i] != 0) == wanted
        i += 1
    return total


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
@cython.overflowcheck(False)
def _note(
    eight: cython.ulonglong, base: cython.Py_ssize_t, total: cython.Py_ssize_t, out: cython.longlong[::1]
) -> cython.Py_ssize_t:
    """Write the positions of those of eight bytes that are 1; return the new total."""
    i: cython.int
    everything: cython.ulonglong = 0xFFFFFFFFFFFFFFFF
    ones: cython.ulonglong = 0x0101010101010101
    pack: cython.ulonglong = 0x0102040810204080
    at: cython.Py_ssize_t = 8 * (((eight * pack) & everything) >> 56)
    line: cython.longlong[8]
    if not cython.compiled:
        line = [0] * 8
    for i in range(8):
        line[i] = base + _BITS_OF[at + i]
    for i in range(8):
        out[total + i] = line[i]
    return total + (((eight * ones) & everything) >> 56)


def copy_between(
    data: cython.const[cython.uchar][::1],
    width: cython.Py_ssize_t,
    dropped: cython.const[cython.longlong][::1],
    out: cython.uchar[::1],
) -> None:
    """Write values of ``width`` bytes except those at ascending positions.

    ``data`` has whole values, including those at ``dropped``; ``out`` has room for the others.
    """
    i: cython.Py_ssize_t
    begin: cython.Py_ssize_t = 0
    end: cython.Py_ssize_t
    to: cython.Py_ssize_t = 0
    with cython.nogil:
        for i in range(dropped.shape[0]):
            end = dropped[i] * width
            copy_ahead(out, to, data, begin, end - begin)
            to += end - begin
            begin = end + width
        copy_ahead(out, to, data, begin, data.shape[0] - begin)


def gather_bits(
    bits: cython.const[cython.uchar][::1],
    offset: cython.Py_ssize_t,
    positions: cython.const[cython.longlong][::1],
    out: cython.uchar[::1],
) -> cython.Py_ssize_t:
    """Write the bits at ``offset + positions[i]``; return the number of set bits. ``out`` has whole bytes."""
    total: cython.Py_ssize_t
    with cython.nogil:
        total = _gather_bits(bits, offset, positions, out)
    return total


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _gather_bits(
    bits: cython.const[cython.uchar][::1],
    offset: cython.Py_ssize_t,
    positions: cython.const[cython.longlong][::1],
    out: cython.uchar[::1],
) -> cython.Py_ssize_t:
    i: cython.Py_ssize_t
    count: cython.Py_ssize_t = positions.shape[0]
    whole: cython.Py_ssize_t = count & ~7
    total: cython.Py_ssize_t = 0
    bit: cython.uint
    byte: cython.uint
    for i in range(0, whole, 8):
        byte = _bit(bits, positions[i] + offset)
        byte |= _bit(bits, positions[i + 1] + offset) << 1
        byte |= _bit(bits, positions[i + 2] + offset) << 2
        byte |= _bit(bits, positions[i + 3] + offset) << 3
        byte |= _bit(bits, positions[i + 4] + offset) << 4
        byte |= _bit(bits, positions[i + 5] + offset) << 5
        byte |= _bit(bits, positions[i + 6] + offset) << 6
        byte |= _bit(bits, positions[i + 7] + offset) << 7
        out[i >> 3] = byte
        total += _NUM_BITS[byte]
    if whole < count:
        byte = 0
        for i in range(whole, count):
            bit = _bit(bits, positions[i] + offset)
            byte |= bit << (i - whole)
        out[whole >> 3] = byte
        total += _NUM_BITS[byte]
    return total


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _bit(bits: cython.const[cython.uchar][::1], at: cython.Py_ssize_t) -> cython.uint:
    return (bits[at >> 3] >> (at & 7)) & 1


def gather_values(
    values: cython.const[cython.uchar][::1],
    width: cython.Py_ssize_t,
    positions: cython.const[cython.uchar][::1],
    position_bytes: cython.Py_ssize_t,
    out: cython.uchar[::1],
) -> None:
    """Write the values at positions back to back.

    Parameters
    ----------
    width
        Bytes of a value: 1, 2, 4, 8 or 16.
    positions, position_bytes
        The bytes of all positions, and the bytes of each.
    out
        The output, with room for the values.
    """
    count: cython.Py_ssize_t = positions.shape[0] // position_bytes
    if out.shape[0] < count * width:
        raise ValueError(f"{count} values of {width} bytes do not fit into {out.shape[0]} bytes")
    with cython.nogil:
        _gather(values, width, positions, position_bytes, count, out)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _gather(
    values: cython.const[cython.uchar][::1],
    width: cython.Py_ssize_t,
    positions: cython.const[cython.uchar][::1],
    position_bytes: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    out: cython.uchar[::1],
) -> cython.void:
    # with constants, the compiler makes a separate loop for each case
    if width == 1:
        _gather_width(values, 1, positions, position_bytes, count, out)
    elif width == 2:
        _gather_width(values, 2, positions, position_bytes, count, out)
    elif width == 4:
        _gather_width(values, 4, positions, position_bytes, count, out)
    elif width == 8:
        _gather_width(values, 8, positions, position_bytes, count, out)
    else:
        _gather_width(values, 16, positions, position_bytes, count, out)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _gather_width(
    values: cython.const[cython.uchar][::1],
    width: cython.Py_ssize_t,
    positions: cython.const[cython.uchar][::1],
    position_bytes: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    out: cython.uchar[::1],
) -> cython.void:
    if position_bytes == 1:
        _gather_by(values, width, positions, 1, count, out)
    elif position_bytes == 2:
        _gather_by(values, width, positions, 2, count, out)
    elif position_bytes == 4:
        _gather_by(values, width, positions, 4, count, out)
    else:
        _gather_by(values, width, positions, 8, count, out)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _gather_by(
    values: cython.const[cython.uchar][::1],
    width: cython.Py_ssize_t,
    positions: cython.const[cython.uchar][::1],
    position_bytes: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    out: cython.uchar[::1],
) -> cython.void:
    i: cython.Py_ssize_t = 0
    a: cython.ulonglong
    b: cython.ulonglong
    c: cython.ulonglong
    d: cython.ulonglong
    if width == 16:
        for i in range(count):
            _copy_pair(values, 16 * _at(positions, i, position_bytes), out, 16 * i)
        return
    # reading four values before writing any lets the processor read them together
    while i + 4 <= count:
        a = load_word(values, width * _at(positions, i, position_bytes), width)
        b = load_word(values, width * _at(positions, i + 1, position_bytes), width)
        c = load_word(values, width * _at(positions, i + 2, position_bytes), width)
        d = load_word(values, width * _at(positions, i + 3, position_bytes), width)
        store_word(out, width * i, a, width)
        store_word(out, width * (i + 1), b, width)
        store_word(out, width * (i + 2), c, width)
        store_word(out, width * (i + 3), d, width)
        i += 4
    while i < count:
        a = load_word(values, width * _at(positions, i, position_bytes), width)
        store_word(out, width * i, a, width)
        i += 1


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _at(
    positions: cython.const[cython.uchar][::1], i: cython.Py_ssize_t, position_bytes: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    return load_word(positions, i * position_bytes, position_bytes)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _copy_pair(
    data: cython.const[cython.uchar][::1],
    at: cython.Py_ssize_t,
    out: cython.uchar[::1],
    to: cython.Py_ssize_t,
) -> cython.void:
    first: cython.ulonglong = load_64(data, at)
    second: cython.ulonglong = load_64(data, at + 8)
    store_64(out, to, first)
    store_64(out, to + 8, second)


def look_up_pairs(
    pairs: cython.const[cython.uchar][::1],
    indices: cython.const[cython.uchar][::1],
    index_bytes: cython.Py_ssize_t,
    positions: cython.const[cython.longlong][::1],
    out: cython.uchar[::1],
) -> None:
    """Write the values of 16 bytes at ``indices[positions[i]]``, where indices have ``index_bytes``."""
    if out.shape[0] < 16 * positions.shape[0]:
        raise ValueError(f"{positions.shape[0]} pairs do not fit into {out.shape[0]} bytes")
    with cython.nogil:
        if index_bytes == 1:
            _look_up_pairs(pairs, indices, 1, positions, out)
        elif index_bytes == 2:
            _look_up_pairs(pairs, indices, 2, positions, out)
        elif index_bytes == 4:
            _look_up_pairs(pairs, indices, 4, positions, out)
        else:
            _look_up_pairs(pairs, indices, 8, positions, out)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _look_up_pairs(
    pairs: cython.const[cython.uchar][::1],
    indices: cython.const[cython.uchar][::1],
    index_bytes: cython.Py_ssize_t,
    positions: cython.const[cython.longlong][::1],
    out: cython.uchar[::1],
) -> cython.void:
    i: cython.Py_ssize_t
    for i in range(positions.shape[0]):
        _copy_pair(pairs, 16 * _at(indices, positions[i], index_bytes), out, 16 * i)


@cython.cclass
class Values:
    """The bytes of an array's values, so that many arrays are read without requesting the buffer of each."""

    data: cython.const[cython.uchar][::1]

    def __init__(self, data: cython.const[cython.uchar][::1]) -> None:
        self.data = data


def gather_scattered(
    sources: list[Values],
    width: cython.Py_ssize_t,
    orders: cython.const[cython.longlong][::1],
    counts: cython.const[cython.longlong][::1],
    shifts: cython.const[cython.longlong][::1],
    out: cython.uchar[::1],
) -> None:
    """Write values scattered over several arrays back to back.

    Parameters
    ----------
    sources, width
        The values of each array, and the bytes of one: 1, 2, 4, 8 or 16.
    orders, counts
        The positions in one array after another, and their number in each array.
    shifts
        The number to add to the buffer index of each string view of an array, or 0; for ``width`` 16.
    out
        The output, with room for all values.
    """
    part: cython.Py_ssize_t
    start: cython.Py_ssize_t = 0
    stop: cython.Py_ssize_t
    source: Values
    if out.shape[0] < orders.shape[0] * width:
        raise ValueError(f"{orders.shape[0]} values of {width} bytes do not fit into {out.shape[0]} bytes")
    for part in range(counts.shape[0]):
        source = sources[part]
        stop = start + counts[part]
        # letting other threads run takes longer than copying a few values
        if stop - start < 1024:
            _gather_part(source.data, width, orders, start, stop, shifts[part], out)
        else:
            with cython.nogil:
                _gather_part(source.data, width, orders, start, stop, shifts[part], out)
        start = stop


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _gather_part(
    values: cython.const[cython.uchar][::1],
    width: cython.Py_ssize_t,
    orders: cython.const[cython.longlong][::1],
    start: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    shift: cython.ulonglong,
    out: cython.uchar[::1],
) -> cython.void:
    if width == 1:
        _gather_order(values, 1, orders, start, stop, out)
    elif width == 2:
        _gather_order(values, 2, orders, start, stop, out)
    elif width == 4:
        _gather_order(values, 4, orders, start, stop, out)
    elif width == 8:
        _gather_order(values, 8, orders, start, stop, out)
    else:
        _gather_shifted(values, orders, start, stop, shift, out)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _gather_order(
    values: cython.const[cython.uchar][::1],
    width: cython.Py_ssize_t,
    orders: cython.const[cython.longlong][::1],
    start: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    out: cython.uchar[::1],
) -> cython.void:
    i: cython.Py_ssize_t
    for i in range(start, stop):
        store_word(out, width * i, load_word(values, width * orders[i], width), width)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
@cython.overflowcheck(False)
def _gather_shifted(
    views: cython.const[cython.uchar][::1],
    orders: cython.const[cython.longlong][::1],
    start: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    shift: cython.ulonglong,
    out: cython.uchar[::1],
) -> cython.void:
    i: cython.Py_ssize_t
    first: cython.ulonglong
    second: cython.ulonglong
    everything: cython.ulonglong = 0xFFFFFFFFFFFFFFFF
    length: cython.ulonglong = 0xFFFFFFFF
    for i in range(start, stop):
        first = load_64(views, 16 * orders[i])
        second = load_64(views, 16 * orders[i] + 8)
        # short values are in the view itself
        second = (second + (shift if first & length > 12 else 0)) & everything
        store_64(out, 16 * i, first)
        store_64(out, 16 * i + 8, second)


if not cython.compiled:
    run_uncompiled(globals())
