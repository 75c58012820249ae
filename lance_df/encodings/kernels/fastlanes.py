"""Pack and unpack FastLanes blocks of 1024 values. Format: docs/format/bitpacked.md.

A block of values of 8, 16, 32 or 64 bits is read as words of 64 bits: 16 of them are a line, in which values
of any size are shifted at once. The packed rows of a block, and its values, are whole lines.
"""

from __future__ import annotations

import cython

if cython.compiled:
    from cython.cimports.lance_df.encodings.kernels.memory import copy_bytes, load_64, store_64
else:
    from lance_df.encodings.kernels.memory import copy_bytes, load_64, run_uncompiled, store_64


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
@cython.overflowcheck(False)
def _repeat(mask: cython.ulonglong, bits: cython.Py_ssize_t) -> cython.ulonglong:
    """Repeat a mask of ``bits`` bits over a word."""
    ones: cython.ulonglong = 0xFFFFFFFFFFFFFFFF
    return mask * (ones // (ones >> (64 - bits)))


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _line_of_row(row: cython.Py_ssize_t, bits: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Return the byte of a block at which the values of a row begin."""
    eighth: cython.Py_ssize_t = row >> 3
    eighth = ((eighth & 1) << 2) | (eighth & 2) | (eighth >> 2)
    return (eighth * 16 + (row & 7) * 128) * bits >> 3


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
@cython.overflowcheck(False)
def _unpack(
    data: cython.const[cython.uchar][::1],
    at: cython.Py_ssize_t,
    width: cython.Py_ssize_t,
    bits: cython.Py_ssize_t,
    out: cython.uchar[::1],
    to: cython.Py_ssize_t,
) -> cython.void:
    i: cython.Py_ssize_t
    row: cython.Py_ssize_t
    shift: cython.Py_ssize_t = 0
    left: cython.Py_ssize_t
    base: cython.Py_ssize_t
    ones: cython.ulonglong = 0xFFFFFFFFFFFFFFFF
    mask: cython.ulonglong
    low: cython.ulonglong
    high: cython.ulonglong
    # a line that is written after it is read whole needs no check of whether both arrays overlap
    line: cython.ulonglong[16]
    if not cython.compiled:
        line = [0] * 16
    if width == 0:
        for i in range(16 * bits):
            store_64(out, to + 8 * i, 0)
        return
    mask = _repeat(ones >> (64 - width), bits)
    for row in range(bits):
        base = to + _line_of_row(row, bits)
        if shift + width <= bits:
            for i in range(16):
                line[i] = (load_64(data, at + 8 * i) >> shift) & mask
        else:
            left = bits - shift
            low = _repeat(ones >> (64 - left), bits)
            high = mask & ~low
            for i in range(16):
                line[i] = ((load_64(data, at + 8 * i) >> shift) & low) | (
                    load_64(data, at + 128 + 8 * i) << left & high
                )
        for i in range(16):
            store_64(out, base + 8 * i, line[i])
        shift += width
        if shift >= bits:
            shift -= bits
            at += 128


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def unpack_block(
    data: cython.const[cython.uchar][::1],
    at: cython.Py_ssize_t,
    width: cython.Py_ssize_t,
    bits: cython.Py_ssize_t,
    out: cython.uchar[::1],
    to: cython.Py_ssize_t,
) -> cython.void:
    """Unpack 1024 values of ``bits`` bits, of which ``width`` are stored, from one byte to another.

    The caller has checked that the ``width`` lines and the room for the values exist.
    """
    # with constants the compiler makes a loop of its own for each
    if bits == 8:
        _unpack(data, at, width, 8, out, to)
    elif bits == 16:
        _unpack(data, at, width, 16, out, to)
    elif bits == 32:
        _unpack(data, at, width, 32, out, to)
    else:
        _unpack(data, at, width, 64, out, to)


def unpack_blocks(
    data: cython.const[cython.uchar][::1],
    starts: cython.const[cython.longlong][::1],
    widths: cython.const[cython.longlong][::1],
    counts: cython.const[cython.longlong][::1],
    bits: cython.Py_ssize_t,
    out: cython.uchar[::1],
) -> None:
    """Unpack blocks of at most 1024 values, one after another.

    Parameters
    ----------
    data, out
        Bytes. ``out`` has room for the sum of ``counts`` values, and for 1024 more, as a block is always
        written whole.
    starts, widths, counts
        First byte, packed width and number of values of each block. A width of -1 marks values that are
        stored as they are. The caller has checked that no width exceeds ``bits``, that counts lie in
        0..1024, and that the bytes of each block exist.
    bits
        Of a value: 8, 16, 32 or 64.
    """
    block: cython.Py_ssize_t
    to: cython.Py_ssize_t = 0
    size: cython.Py_ssize_t
    with cython.nogil:
        for block in range(starts.shape[0]):
            size = counts[block] * bits // 8
            if widths[block] < 0:
                copy_bytes(out, to, data, starts[block], size)
            else:
                unpack_block(data, starts[block], widths[block], bits, out, to)
            to += size


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
@cython.overflowcheck(False)
def _pack(
    words: cython.const[cython.uchar][::1],
    at: cython.Py_ssize_t,
    width: cython.Py_ssize_t,
    bits: cython.Py_ssize_t,
    out: cython.uchar[::1],
    to: cython.Py_ssize_t,
) -> cython.void:
    i: cython.Py_ssize_t
    row: cython.Py_ssize_t
    shift: cython.Py_ssize_t = 0
    left: cython.Py_ssize_t
    base: cython.Py_ssize_t
    ones: cython.ulonglong = 0xFFFFFFFFFFFFFFFF
    low: cython.ulonglong
    line: cython.ulonglong[16]
    if not cython.compiled:
        line = [0] * 16
    for i in range(16):
        line[i] = 0
    for row in range(bits if width else 0):
        base = at + _line_of_row(row, bits)
        left = bits - shift
        # bits of a value that are shifted beyond it belong to the next line, not to its neighbour
        low = _repeat(ones >> (64 - left), bits)
        for i in range(16):
            line[i] |= (load_64(words, base + 8 * i) & low) << shift
        shift += width
        if shift >= bits:
            for i in range(16):
                store_64(out, to + 8 * i, line[i])
            to += 128
            shift -= bits
            if shift > 0:
                low = _repeat(ones >> (64 - (bits - left)), bits)
                for i in range(16):
                    line[i] = (load_64(words, base + 8 * i) >> left) & low
            else:
                for i in range(16):
                    line[i] = 0


def pack_blocks(
    words: cython.const[cython.uchar][::1],
    widths: cython.const[cython.longlong][::1],
    starts: cython.const[cython.longlong][::1],
    bits: cython.Py_ssize_t,
    out: cython.uchar[::1],
) -> None:
    """Pack each 1024 values of ``bits`` bits into ``widths[i]`` bits a value.

    Parameters
    ----------
    words
        The bytes of 1024 values for each width; none of them needs more bits.
    starts, out
        The first of the ``128 * widths[i]`` bytes that each block is written to.
    """
    block: cython.Py_ssize_t
    at: cython.Py_ssize_t = 0
    with cython.nogil:
        for block in range(widths.shape[0]):
            if bits == 8:
                _pack(words, at, widths[block], 8, out, starts[block])
            elif bits == 16:
                _pack(words, at, widths[block], 16, out, starts[block])
            elif bits == 32:
                _pack(words, at, widths[block], 32, out, starts[block])
            else:
                _pack(words, at, widths[block], 64, out, starts[block])
            at += 128 * bits


if not cython.compiled:
    run_uncompiled(globals())
