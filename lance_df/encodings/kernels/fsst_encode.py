"""Encode strings with the symbols of a table, and count candidates for a better table.

Format: docs/format/fsst.md.

All kernels here take a table in this form:

symbols
    Up to 255 symbols as little-endian words, each followed by the bits that it takes up.
short
    For each two bytes (little-endian): ``length << 9 | code`` of the longest symbol of at most two bytes that
    they start with; code 256 for none.
heads, links
    Symbols of three bytes and more: the first one, longest first, for each hash of three bytes; and for each
    symbol ``next << 4 | length``. -1 ends a list.
"""

from __future__ import annotations

import cython

if cython.compiled:
    from cython.cimports.lance_df.encodings.kernels.memory import load_64
else:
    from lance_df.encodings.kernels.memory import load_64, run_uncompiled


def encode_fsst(
    data: cython.const[cython.uchar][::1],
    offsets: cython.const[cython.longlong][::1],
    symbols: cython.const[cython.ulonglong][::1],
    short: cython.const[cython.int][::1],
    heads: cython.const[cython.int][::1],
    links: cython.const[cython.int][::1],
    out: cython.uchar[::1],
    out_offsets: cython.longlong[::1],
) -> cython.Py_ssize_t:
    """Write the codes of each value to ``out``, with room for two codes per byte; return their number.

    The caller has made the table, and has checked that offsets ascend and lie within ``data``.
    """
    size: cython.Py_ssize_t
    with cython.nogil:
        size = _encode(data, offsets, symbols, short, heads, links, out, out_offsets)
    return size


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.overflowcheck(False)
def _encode(
    data: cython.const[cython.uchar][::1],
    offsets: cython.const[cython.longlong][::1],
    symbols: cython.const[cython.ulonglong][::1],
    short: cython.const[cython.int][::1],
    heads: cython.const[cython.int][::1],
    links: cython.const[cython.int][::1],
    out: cython.uchar[::1],
    out_offsets: cython.longlong[::1],
) -> cython.Py_ssize_t:
    value: cython.Py_ssize_t
    i: cython.Py_ssize_t
    at: cython.Py_ssize_t
    end: cython.Py_ssize_t
    left: cython.Py_ssize_t
    step: cython.Py_ssize_t
    to: cython.Py_ssize_t = 0
    total: cython.Py_ssize_t = data.shape[0]
    code: cython.Py_ssize_t
    entry: cython.Py_ssize_t
    word: cython.ulonglong
    byte: cython.ulonglong
    one: cython.ulonglong = 1
    factor: cython.ulonglong = 2654435761
    out_offsets[0] = 0
    for value in range(offsets.shape[0] - 1):
        at = offsets[value]
        end = offsets[value + 1]
        while at < end:
            left = end - at
            if left >= 8:
                word = load_64(data, at)
            elif at + 8 <= total:
                word = load_64(data, at) & ((one << 8 * left) - 1)
            else:
                word = 0
                for i in range(left):
                    byte = data[at + i]
                    word |= byte << 8 * i
            code = -1
            if left > 2:
                # three bytes, and as many of the factor: no more than 64 bits
                code = heads[(word & 0xFFFFFF) * factor >> 20 & 4095]
                while code >= 0 and (
                    (word & symbols[2 * code + 1]) != symbols[2 * code] or (links[code] & 15) > left
                ):
                    code = links[code] >> 4
            if code >= 0:
                out[to] = code
                to += 1
                at += links[code] & 15
                continue
            entry = short[word & 0xFFFF]
            step = entry >> 9
            if left == 1 and step == 2:
                # the zeros that stand for bytes beyond the end are not part of the value
                entry = short[(word & 0xFF) | 0xFF00]
                step = entry >> 9
                if step == 2:
                    entry = 1 << 9 | 256
                    step = 1
            code = entry & 511
            if code == 256:
                out[to] = 255
                out[to + 1] = data[at]
                to += 2
            else:
                out[to] = code
                to += 1
            at += step
        out_offsets[value + 1] = to
    return to


def count_fsst(
    codes: cython.const[cython.uchar][::1],
    offsets: cython.const[cython.longlong][::1],
    counts: cython.int[::1],
    pairs: cython.int[::1],
    firsts: cython.const[cython.longlong][::1],
) -> None:
    """Count units and pairs of adjacent units in the codes of values.

    A unit is a symbol (its code) or an escaped byte (256 and the byte). A longer symbol also counts as its
    first byte, so that a table can shrink again.

    Parameters
    ----------
    codes, offsets
        Value i has the codes from ``offsets[i]`` to ``offsets[i + 1]``, as :func:`encode_fsst` writes them.
    counts, pairs
        512 numbers, and 512 rows of 512 numbers; counts are added to them.
    firsts
        The first byte of each symbol of two bytes or more, -1 for shorter ones.
    """
    with cython.nogil:
        _count(codes, offsets, counts, pairs, firsts)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _count(
    codes: cython.const[cython.uchar][::1],
    offsets: cython.const[cython.longlong][::1],
    counts: cython.int[::1],
    pairs: cython.int[::1],
    firsts: cython.const[cython.longlong][::1],
) -> cython.void:
    value: cython.Py_ssize_t
    i: cython.Py_ssize_t
    stop: cython.Py_ssize_t
    unit: cython.Py_ssize_t
    first: cython.Py_ssize_t
    previous: cython.Py_ssize_t
    for value in range(offsets.shape[0] - 1):
        previous = -1
        i = offsets[value]
        stop = offsets[value + 1]
        while i < stop:
            unit = codes[i]
            first = -1
            if unit == 255:
                i += 1
                unit = 256 + codes[i]
            else:
                first = firsts[unit]
            i += 1
            counts[unit] += 1
            if first >= 0:
                counts[256 + first] += 1
            if previous >= 0:
                pairs[512 * previous + unit] += 1
                if first >= 0:
                    pairs[512 * previous + 256 + first] += 1
            previous = unit


if not cython.compiled:
    run_uncompiled(globals())
