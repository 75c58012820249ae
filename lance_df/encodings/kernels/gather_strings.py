"""Take strings from arrays by position.

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


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _at(
    positions: cython.const[cython.uchar][::1], i: cython.Py_ssize_t, position_bytes: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    return load_word(positions, i * position_bytes, position_bytes)


def gather_ends(
    offsets: cython.const[cython.uchar][::1],
    offset_bytes: cython.Py_ssize_t,
    positions: cython.const[cython.uchar][::1],
    position_bytes: cython.Py_ssize_t,
    out: cython.uchar[::1],
) -> cython.Py_ssize_t:
    """Write 0 and the ends of values when stored back to back; return the last end.

    Parameters
    ----------
    offsets, offset_bytes
        The bytes of all offsets, which ascend, and the bytes of each: 4 or 8.
    positions, position_bytes
        The same for the positions.
    out
        The output, with room for one offset more than positions. Ends that do not fit are truncated.
    """
    count: cython.Py_ssize_t = positions.shape[0] // position_bytes
    total: cython.Py_ssize_t
    if out.shape[0] < (count + 1) * offset_bytes:
        raise ValueError(f"{count + 1} offsets do not fit into {out.shape[0]} bytes")
    with cython.nogil:
        if offset_bytes == 4:
            total = _gather_ends_width(offsets, 4, positions, position_bytes, count, out)
        else:
            total = _gather_ends_width(offsets, 8, positions, position_bytes, count, out)
    return total


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _gather_ends_width(
    offsets: cython.const[cython.uchar][::1],
    offset_bytes: cython.Py_ssize_t,
    positions: cython.const[cython.uchar][::1],
    position_bytes: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    out: cython.uchar[::1],
) -> cython.Py_ssize_t:
    if position_bytes == 1:
        return _gather_ends(offsets, offset_bytes, positions, 1, count, out)
    if position_bytes == 2:
        return _gather_ends(offsets, offset_bytes, positions, 2, count, out)
    if position_bytes == 4:
        return _gather_ends(offsets, offset_bytes, positions, 4, count, out)
    return _gather_ends(offsets, offset_bytes, positions, 8, count, out)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _gather_ends(
    offsets: cython.const[cython.uchar][::1],
    offset_bytes: cython.Py_ssize_t,
    positions: cython.const[cython.uchar][::1],
    position_bytes: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    out: cython.uchar[::1],
) -> cython.Py_ssize_t:
    i: cython.Py_ssize_t
    at: cython.Py_ssize_t
    end: cython.Py_ssize_t = 0
    fits: cython.ulonglong = 0xFFFFFFFF
    if offset_bytes == 8:
        fits = 0xFFFFFFFFFFFFFFFF
    store_word(out, 0, 0, offset_bytes)
    for i in range(count):
        at = offset_bytes * _at(positions, i, position_bytes)
        end += load_word(offsets, at + offset_bytes, offset_bytes)
        end -= load_word(offsets, at, offset_bytes)
        store_word(out, offset_bytes * (i + 1), end & fits, offset_bytes)
    return end


def gather_spans(
    offsets: cython.const[cython.uchar][::1],
    offset_bytes: cython.Py_ssize_t,
    data: cython.const[cython.uchar][::1],
    positions: cython.const[cython.uchar][::1],
    position_bytes: cython.Py_ssize_t,
    out: cython.uchar[::1],
) -> None:
    """Write values ``data[offsets[p]:offsets[p + 1]]`` back to back; neighbours are copied at once.

    The caller has checked that positions and offsets are in range, and that ``out`` is as long as the values.
    """
    count: cython.Py_ssize_t = positions.shape[0] // position_bytes
    with cython.nogil:
        _gather_spans(offsets, offset_bytes, data, positions, position_bytes, count, out)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _gather_spans(
    offsets: cython.const[cython.uchar][::1],
    offset_bytes: cython.Py_ssize_t,
    data: cython.const[cython.uchar][::1],
    positions: cython.const[cython.uchar][::1],
    position_bytes: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    out: cython.uchar[::1],
) -> cython.void:
    i: cython.Py_ssize_t = 0
    position: cython.Py_ssize_t
    start: cython.Py_ssize_t
    size: cython.Py_ssize_t
    to: cython.Py_ssize_t = 0
    are_joined: cython.bint = 0
    if count:
        # for a few short values, finding neighbours takes longer than copying each value
        position = _at(positions, count - 1, position_bytes) - _at(positions, 0, position_bytes)
        are_joined = out.shape[0] > 64 * count or position < count + count // 8
    while i < count:
        position = _at(positions, i, position_bytes)
        start = load_word(offsets, offset_bytes * position, offset_bytes)
        position += 1
        i += 1
        while are_joined and i < count and _at(positions, i, position_bytes) == position:
            position += 1
            i += 1
        size = load_word(offsets, offset_bytes * position, offset_bytes)
        size -= start
        copy_ahead(out, to, data, start, size)
        to += size


def gather_padded(
    rows: cython.const[cython.uchar][::1],
    row_bytes: cython.Py_ssize_t,
    lengths: cython.const[cython.int][::1],
    positions: cython.const[cython.uchar][::1],
    position_bytes: cython.Py_ssize_t,
    offset_bytes: cython.Py_ssize_t,
    out_offsets: cython.uchar[::1],
    out: cython.uchar[::1],
) -> cython.Py_ssize_t:
    """Write short values back to back; return their total size.

    Parameters
    ----------
    rows, row_bytes, lengths
        Values as padded rows of 16, 24 or 32 bytes, and the number of bytes of each value.
    positions, position_bytes
        The bytes of all positions, and the bytes of each.
    offset_bytes, out_offsets, out
        Room for one offset more than positions, and for the bytes of a row more than the values take.
    """
    count: cython.Py_ssize_t = positions.shape[0] // position_bytes
    total: cython.Py_ssize_t
    if out_offsets.shape[0] < (count + 1) * offset_bytes:
        raise ValueError(f"{count + 1} offsets do not fit into {out_offsets.shape[0]} bytes")
    with cython.nogil:
        if position_bytes == 1:
            total = _gather_padded_by(
                rows, row_bytes, lengths, positions, 1, offset_bytes, count, out_offsets, out
            )
        elif position_bytes == 2:
            total = _gather_padded_by(
                rows, row_bytes, lengths, positions, 2, offset_bytes, count, out_offsets, out
            )
        elif position_bytes == 4:
            total = _gather_padded_by(
                rows, row_bytes, lengths, positions, 4, offset_bytes, count, out_offsets, out
            )
        else:
            total = _gather_padded_by(
                rows, row_bytes, lengths, positions, 8, offset_bytes, count, out_offsets, out
            )
    return total


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _gather_padded_by(
    rows: cython.const[cython.uchar][::1],
    row_bytes: cython.Py_ssize_t,
    lengths: cython.const[cython.int][::1],
    positions: cython.const[cython.uchar][::1],
    position_bytes: cython.Py_ssize_t,
    offset_bytes: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    out_offsets: cython.uchar[::1],
    out: cython.uchar[::1],
) -> cython.Py_ssize_t:
    if row_bytes == 16:
        return _gather_rows(
            rows, 16, lengths, positions, position_bytes, offset_bytes, count, out_offsets, out
        )
    if row_bytes == 24:
        return _gather_rows(
            rows, 24, lengths, positions, position_bytes, offset_bytes, count, out_offsets, out
        )
    return _gather_rows(rows, 32, lengths, positions, position_bytes, offset_bytes, count, out_offsets, out)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _gather_rows(
    rows: cython.const[cython.uchar][::1],
    row_bytes: cython.Py_ssize_t,
    lengths: cython.const[cython.int][::1],
    positions: cython.const[cython.uchar][::1],
    position_bytes: cython.Py_ssize_t,
    offset_bytes: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    out_offsets: cython.uchar[::1],
    out: cython.uchar[::1],
) -> cython.Py_ssize_t:
    if offset_bytes == 4:
        return _gather_padded(rows, row_bytes, lengths, positions, position_bytes, 4, count, out_offsets, out)
    return _gather_padded(rows, row_bytes, lengths, positions, position_bytes, 8, count, out_offsets, out)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _gather_padded(
    rows: cython.const[cython.uchar][::1],
    row_bytes: cython.Py_ssize_t,
    lengths: cython.const[cython.int][::1],
    positions: cython.const[cython.uchar][::1],
    position_bytes: cython.Py_ssize_t,
    offset_bytes: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    out_offsets: cython.uchar[::1],
    out: cython.uchar[::1],
) -> cython.Py_ssize_t:
    i: cython.Py_ssize_t
    k: cython.Py_ssize_t
    length: cython.Py_ssize_t
    position: cython.Py_ssize_t
    to: cython.Py_ssize_t = 0
    row: cython.ulonglong[4]
    if not cython.compiled:
        row = [0] * 4
    store_word(out_offsets, 0, 0, offset_bytes)
    for i in range(count):
        position = _at(positions, i, position_bytes)
        length = lengths[position]
        for k in range(row_bytes // 8):
            row[k] = load_64(rows, row_bytes * position + 8 * k)
        for k in range(row_bytes // 8):
            store_64(out, to + 8 * k, row[k])
        to += length
        store_word(out_offsets, offset_bytes * (i + 1), to, offset_bytes)
    return to


if not cython.compiled:
    run_uncompiled(globals())
