"""Copy spans of bytes, and join values of variable width or the chunks of a page.

Format: docs/format/variable.md.
"""

from __future__ import annotations

import cython

if cython.compiled:
    from cython.cimports.lance_df.encodings.kernels.memory import (
        copy_ahead,
        copy_bytes,
        load_word,
        store_word,
    )
else:
    from lance_df.encodings.kernels.memory import (
        copy_ahead,
        copy_bytes,
        load_word,
        run_uncompiled,
        store_word,
    )


def copy_spans(
    data: cython.const[cython.uchar][::1],
    starts: cython.const[cython.longlong][::1],
    sizes: cython.const[cython.longlong][::1],
    out: cython.uchar[::1],
    out_starts: cython.const[cython.longlong][::1],
) -> None:
    """Copy span i of ``data`` to ``out_starts[i]`` in ``out``. The caller has checked the ranges."""
    i: cython.Py_ssize_t
    with cython.nogil:
        for i in range(starts.shape[0]):
            copy_bytes(out, out_starts[i], data, starts[i], sizes[i])


def join_variable(
    data: cython.const[cython.uchar][::1],
    starts: cython.const[cython.longlong][::1],
    lengths: cython.const[cython.longlong][::1],
    offset_bytes: cython.Py_ssize_t,
    out_offsets: cython.uchar[::1],
    out: cython.uchar[::1],
) -> None:
    """Join values from anywhere in ``data``. The caller has checked spans and sizes.

    Parameters
    ----------
    offset_bytes, out_offsets
        The bytes of an offset (4 or 8), and the output for the offsets: one more than values.
    out
        The output, as long as the values together.
    """
    with cython.nogil:
        if offset_bytes == 4:
            _join_variable(data, starts, lengths, 4, out_offsets, out)
        else:
            _join_variable(data, starts, lengths, 8, out_offsets, out)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _join_variable(
    data: cython.const[cython.uchar][::1],
    starts: cython.const[cython.longlong][::1],
    lengths: cython.const[cython.longlong][::1],
    offset_bytes: cython.Py_ssize_t,
    out_offsets: cython.uchar[::1],
    out: cython.uchar[::1],
) -> cython.void:
    i: cython.Py_ssize_t
    to: cython.Py_ssize_t = 0
    store_word(out_offsets, 0, 0, offset_bytes)
    for i in range(starts.shape[0]):
        copy_ahead(out, to, data, starts[i], lengths[i])
        to += lengths[i]
        store_word(out_offsets, offset_bytes * (i + 1), to, offset_bytes)


def gather_variable(
    data: cython.const[cython.uchar][::1],
    offset_bytes: cython.Py_ssize_t,
    starts: cython.const[cython.longlong][::1],
    sizes: cython.const[cython.longlong][::1],
    counts: cython.const[cython.longlong][::1],
    out_offsets: cython.uchar[::1],
    out: cython.uchar[::1],
) -> cython.Py_ssize_t:
    """Join chunks of (offsets, bytes); return the first chunk whose offsets are wrong, or -1.

    Parameters
    ----------
    offset_bytes
        The bytes of an offset: 4 or 8.
    starts, sizes
        The first byte and the size of each chunk. The caller has checked that they are in range, and that
        chunk i has room for ``counts[i] + 1`` offsets.
    out_offsets, out
        Outputs, with room for one offset more than values, and for the bytes between first and last offsets.
    """
    broken: cython.Py_ssize_t
    with cython.nogil:
        if offset_bytes == 4:
            broken = _gather_variable(data, 4, starts, sizes, counts, out_offsets, out)
        else:
            broken = _gather_variable(data, 8, starts, sizes, counts, out_offsets, out)
    return broken


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _gather_variable(
    data: cython.const[cython.uchar][::1],
    offset_bytes: cython.Py_ssize_t,
    starts: cython.const[cython.longlong][::1],
    sizes: cython.const[cython.longlong][::1],
    counts: cython.const[cython.longlong][::1],
    out_offsets: cython.uchar[::1],
    out: cython.uchar[::1],
) -> cython.Py_ssize_t:
    chunk: cython.Py_ssize_t
    at: cython.Py_ssize_t
    to: cython.Py_ssize_t = 0
    value: cython.Py_ssize_t = 0
    first: cython.ulonglong
    last: cython.ulonglong
    size: cython.ulonglong
    store_word(out_offsets, 0, 0, offset_bytes)
    for chunk in range(counts.shape[0]):
        at = starts[chunk]
        first = load_word(data, at, offset_bytes)
        last = load_word(data, at + counts[chunk] * offset_bytes, offset_bytes)
        size = sizes[chunk]
        # as unsigned numbers, negative ones are beyond the end too
        if last < first or last > size:
            return chunk
        size = out.shape[0] - to
        if last - first > size:
            return chunk
        if _shift(data, at, counts[chunk], offset_bytes, first, to, out_offsets, value + 1):
            return chunk
        copy_bytes(out, to, data, at + first, last - first)
        value += counts[chunk]
        to += last - first
    return -1


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
@cython.overflowcheck(False)
def _shift(
    data: cython.const[cython.uchar][::1],
    at: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    offset_bytes: cython.Py_ssize_t,
    first: cython.ulonglong,
    to: cython.Py_ssize_t,
    out: cython.uchar[::1],
    value: cython.Py_ssize_t,
) -> cython.bint:
    """Write offsets shifted from ``first`` to ``to``; return whether some descend."""
    i: cython.Py_ssize_t
    is_broken: cython.uint = 0
    lower: cython.uint
    upper: cython.uint
    shift: cython.uint
    fits: cython.ulonglong = 0xFFFFFFFF
    # a loop over neighbours of one width without an early exit processes many of them at a time
    if offset_bytes == 4:
        for i in range(count):
            lower = load_word(data, at + 4 * i, 4)
            upper = load_word(data, at + 4 * i + 4, 4)
            is_broken |= upper < lower
        shift = (to - first) & fits
        for i in range(count):
            upper = load_word(data, at + 4 * i + 4, 4)
            store_word(out, 4 * (value + i), (upper + shift) & fits, 4)
        return is_broken
    fits = 0xFFFFFFFFFFFFFFFF
    for i in range(count):
        is_broken |= load_word(data, at + 8 * i + 8, 8) < load_word(data, at + 8 * i, 8)
    for i in range(count):
        store_word(out, 8 * (value + i), (load_word(data, at + 8 * i + 8, 8) + (to - first)) & fits, 8)
    return is_broken


if not cython.compiled:
    run_uncompiled(globals())
