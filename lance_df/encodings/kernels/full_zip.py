"""Parse the records of full-zip pages. Format: docs/format/full_zip.md."""

from __future__ import annotations

import cython

if cython.compiled:
    from cython.cimports.lance_df.encodings.kernels.memory import load_word
else:
    from lance_df.encodings.kernels.memory import load_word, run_uncompiled


def parse_records(
    data: cython.const[cython.uchar][::1],
    row_starts: cython.const[cython.longlong][::1],
    row_stops: cython.const[cython.longlong][::1],
    word_bytes: cython.Py_ssize_t,
    definition_bits: cython.Py_ssize_t,
    length_bytes: cython.Py_ssize_t,
    value_bytes: cython.Py_ssize_t,
    max_visible: cython.Py_ssize_t,
    rep: cython.ushort[::1],
    df: cython.ushort[::1],
    starts: cython.longlong[::1],
    lengths: cython.longlong[::1],
) -> tuple[int, int, int]:
    """Find levels and values; return (slots, values, broken row or -1).

    Parameters
    ----------
    data
        The bytes; the caller has checked that all rows lie within them.
    row_starts, row_stops
        The bounds of the records of each row.
    word_bytes, definition_bits
        The size of the control word (0, 1, 2 or 4), and the number of its low bits that are the definition
        level.
    length_bytes, value_bytes
        If values vary in width, the size (4 or 8) of the length before each value; nulls have neither length
        nor value. 0 if all values have ``value_bytes``.
    max_visible
        A slot owns a value iff its definition level is at most this.
    rep, df, starts, lengths
        Receive the levels of each slot, the position of each value, and its length if lengths vary; a row
        that does not fit is broken.
    """
    counts: cython.longlong[2]
    broken: cython.Py_ssize_t
    if not cython.compiled:
        counts = [0] * 2
    with cython.nogil:
        broken = _parse_records(
            data,
            row_starts,
            row_stops,
            word_bytes,
            definition_bits,
            length_bytes,
            value_bytes,
            max_visible,
            rep,
            df,
            starts,
            lengths,
            counts,
        )
    return counts[0], counts[1], broken


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _parse_records(
    data: cython.const[cython.uchar][::1],
    row_starts: cython.const[cython.longlong][::1],
    row_stops: cython.const[cython.longlong][::1],
    word_bytes: cython.Py_ssize_t,
    definition_bits: cython.Py_ssize_t,
    length_bytes: cython.Py_ssize_t,
    value_bytes: cython.Py_ssize_t,
    max_visible: cython.Py_ssize_t,
    rep: cython.ushort[::1],
    df: cython.ushort[::1],
    starts: cython.longlong[::1],
    lengths: cython.longlong[::1],
    counts: cython.p_longlong,
) -> cython.Py_ssize_t:
    """Implement `parse_records`; ``counts`` receives slots and values. Return the broken row or -1."""
    row: cython.Py_ssize_t
    at: cython.Py_ssize_t
    stop: cython.Py_ssize_t
    level: cython.Py_ssize_t
    slot: cython.Py_ssize_t = 0
    value: cython.Py_ssize_t = 0
    word: cython.ulonglong = 0
    length: cython.ulonglong
    left: cython.ulonglong
    mask: cython.ulonglong = 1
    mask = (mask << definition_bits) - 1
    for row in range(row_starts.shape[0]):
        at = row_starts[row]
        stop = row_stops[row]
        while at < stop:
            counts[0] = slot
            counts[1] = value
            if stop - at < word_bytes or slot == rep.shape[0]:
                return row
            if word_bytes:
                word = load_word(data, at, word_bytes)
                at += word_bytes
            level = word & mask
            rep[slot] = word >> definition_bits & 0xFFFF
            df[slot] = level
            slot += 1
            if level > max_visible:
                continue
            counts[0] = slot
            if value == starts.shape[0]:
                return row
            length = value_bytes
            if length_bytes:
                length = 0
                if level == 0:
                    if stop - at < length_bytes:
                        return row
                    length = load_word(data, at, length_bytes)
                    at += length_bytes
            left = stop - at
            if length > left:
                return row
            if length_bytes:
                lengths[value] = length
            starts[value] = at
            value += 1
            at += length
    counts[0] = slot
    counts[1] = value
    return -1


def parse_packed_rows(
    data: cython.const[cython.uchar][::1],
    starts: cython.const[cython.longlong][::1],
    lengths: cython.const[cython.longlong][::1],
    fixed_bytes: cython.const[cython.longlong][::1],
    length_bytes: cython.const[cython.longlong][::1],
    out_starts: cython.longlong[:, ::1],
    out_lengths: cython.longlong[:, ::1],
) -> cython.Py_ssize_t:
    """Find the children of packed rows; return the first broken row, or -1.

    Parameters
    ----------
    starts, lengths
        The range of each row in ``data``, which the caller has checked. A row without bytes has no children.
    fixed_bytes, length_bytes
        For each child its size, or -1 and the size of the length before it: 4 or 8.
    out_starts, out_lengths
        Shape (children, rows).
    """
    broken: cython.Py_ssize_t
    with cython.nogil:
        broken = _parse_packed_rows(data, starts, lengths, fixed_bytes, length_bytes, out_starts, out_lengths)
    return broken


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _parse_packed_rows(
    data: cython.const[cython.uchar][::1],
    starts: cython.const[cython.longlong][::1],
    lengths: cython.const[cython.longlong][::1],
    fixed_bytes: cython.const[cython.longlong][::1],
    length_bytes: cython.const[cython.longlong][::1],
    out_starts: cython.longlong[:, ::1],
    out_lengths: cython.longlong[:, ::1],
) -> cython.Py_ssize_t:
    row: cython.Py_ssize_t
    child: cython.Py_ssize_t
    at: cython.Py_ssize_t
    stop: cython.Py_ssize_t
    size: cython.ulonglong
    left: cython.ulonglong
    for row in range(starts.shape[0]):
        at = starts[row]
        stop = at + lengths[row]
        for child in range(fixed_bytes.shape[0]):
            size = 0
            if lengths[row] == 0:
                pass
            elif fixed_bytes[child] >= 0:
                size = fixed_bytes[child]
            else:
                if stop - at < length_bytes[child]:
                    return row
                size = load_word(data, at, length_bytes[child])
                at += length_bytes[child]
            left = stop - at
            if size > left:
                return row
            out_starts[child, row] = at
            out_lengths[child, row] = size
            at += size
        if at != stop:
            return row
    return -1


if not cython.compiled:
    run_uncompiled(globals())
