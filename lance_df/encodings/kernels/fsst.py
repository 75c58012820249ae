"""Expand FSST codes. Format: docs/format/fsst.md.

A table is 256 symbols of 8 bytes (first byte first), then their lengths, at most 8, a byte each. Code 255 is
an escape of length 0: the next byte is a literal.
"""

from __future__ import annotations

import cython

if cython.compiled:
    from cython.cimports.lance_df.encodings.kernels.memory import (
        load_32,
        load_64,
        store_32,
        store_64,
    )
    from cython.cimports.lance_df.encodings.kernels.pages import Page, chunk_of, value_size, value_start
    from cython.cimports.lance_df.encodings.kernels.strings import offsets_start
else:
    from lance_df.encodings.kernels.memory import load_32, load_64, run_uncompiled, store_32, store_64
    from lance_df.encodings.kernels.pages import Page, chunk_of, value_size, value_start
    from lance_df.encodings.kernels.strings import offsets_start

# so few codes are expanded before the values that end in them are processed that they stay in the cache
_PIECE = cython.declare(cython.Py_ssize_t, 2048)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.overflowcheck(False)
def _expand(
    table: cython.const[cython.uchar][::1],
    codes: cython.const[cython.uchar][::1],
    at: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    out: cython.uchar[::1],
    to: cython.Py_ssize_t,
    marks: cython.p_int,
    state: cython.p_longlong,
) -> cython.Py_ssize_t:
    """Expand ``count`` codes from ``at`` on; return the end of their bytes in ``out``.

    Parameters
    ----------
    out, to
        The output, with room for 8 bytes for each code from ``to`` on.
    marks
        Receives the start of the bytes of each code, counted from ``to``, or -1 for an escaped byte; and
        finally the end of the last ones.
    state
        Item 3 is set to whether the last code is an escape; the bits of escaped bytes are added to item 4.
    """
    i: cython.Py_ssize_t = 0
    k: cython.Py_ssize_t
    end: cython.Py_ssize_t = 0
    stop: cython.Py_ssize_t
    room: cython.uchar[::1] = out[to:]
    code: cython.Py_ssize_t
    block: cython.ulonglong
    low_bits: cython.ulonglong = 0x7F7F7F7F7F7F7F7F
    ones: cython.ulonglong = 0x0101010101010101
    high_bits: cython.ulonglong = 0x8080808080808080
    is_escaped: cython.bint = False
    literals: cython.Py_ssize_t = 0
    while i < count:
        if i + 8 <= count and not is_escaped:
            block = load_64(codes, at + i)
            if not (((block & low_bits) + ones) & block & high_bits):
                for k in range(8):
                    code = block & 255
                    block >>= 8
                    marks[i + k] = end
                    store_64(room, end, load_64(table, 8 * code))
                    end += table[2048 + code]
                i += 8
                continue
        stop = min(i + 8, count)
        for k in range(i, stop):
            marks[k] = -1 if is_escaped else end
            code = codes[at + k]
            if is_escaped:
                room[end] = code
                end += 1
                literals |= code
                is_escaped = False
            elif code == 255:
                is_escaped = True
            else:
                store_64(room, end, load_64(table, 8 * code))
                end += table[2048 + code]
        i = stop
    marks[count] = -1 if is_escaped else end
    state[3] = is_escaped
    state[4] |= literals
    return to + end


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
@cython.overflowcheck(False)
def _offset(
    offsets: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, width: cython.Py_ssize_t
) -> cython.ulonglong:
    if width == 4:
        return load_32(offsets, at)
    return load_64(offsets, at)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
@cython.overflowcheck(False)
def _expand_values(
    table: cython.const[cython.uchar][::1],
    codes: cython.const[cython.uchar][::1],
    base: cython.Py_ssize_t,
    offsets: cython.const[cython.uchar][::1],
    at: cython.Py_ssize_t,
    width: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    ends: cython.uchar[::1],
    to_end: cython.Py_ssize_t,
    out: cython.uchar[::1],
    state: cython.p_longlong,
) -> cython.bint:
    """Expand values until all are done or ``out`` may be too small; return whether they are valid.

    Parameters
    ----------
    base
        The position from which offsets of codes count.
    offsets, at, width, count
        The first of ``count + 1`` offsets is at byte ``at``. The caller has checked that the first offset is
        at most the last one, and that ``codes`` extends to the last one.
    ends, to_end
        Receive the end of each value, in ``width`` bytes.
    state
        Values done; codes done, as an offset; bytes written; whether an escape is last; escaped bytes.
    """
    mask: cython.ulonglong = 0xFFFFFFFFFFFFFFFF if width == 8 else 0xFFFFFFFF
    value: cython.Py_ssize_t = state[0]
    begin: cython.Py_ssize_t = state[1]
    high: cython.Py_ssize_t = _offset(offsets, at + width * count, width)
    size: cython.Py_ssize_t
    index: cython.Py_ssize_t
    before: cython.Py_ssize_t = 0
    first: cython.Py_ssize_t
    end: cython.Py_ssize_t
    offset: cython.ulonglong
    marks: cython.int[2049]
    if not cython.compiled:
        marks = [0] * 2049
    while value < count:
        size = min(high - begin, _PIECE)
        if state[2] + 8 * size > out.shape[0]:
            return True
        first = state[2]
        state[2] = _expand(table, codes, base + begin, size, out, state[2], marks, state)
        if state[3]:
            # an escape is left for the next step, with the byte that follows it
            size -= 1
            if begin + size + 1 == high:
                return False
        before = 0
        while value < count:
            offset = _offset(offsets, at + width * (value + 1), width)
            index = offset - begin
            if index > size:
                break
            if index < before:
                return False
            end = marks[index]
            if end < 0:
                return False
            end += first
            if width == 4:
                store_32(ends, to_end + 4 * value, end & mask)
            else:
                store_64(ends, to_end + 8 * value, end)
            before = index
            value += 1
        if begin + size == high and value < count:
            return False
        begin += size
        state[0] = value
        state[1] = begin
    return True


def expand_fsst(
    codes: cython.const[cython.uchar][::1],
    offsets: cython.const[cython.uchar][::1],
    width: cython.Py_ssize_t,
    table: cython.const[cython.uchar][::1],
    ends: cython.uchar[::1],
    out: cython.uchar[::1],
    state: cython.longlong[::1],
) -> bool:
    """Expand values; return False if one ends within an escape, or offsets are not ascending and in range.

    Parameters
    ----------
    offsets, width
        The bytes of offsets, of ``width`` bytes each. Value i is ``codes[offsets[i]:offsets[i + 1]]``.
    ends
        Receives the end of each value in ``out``, in ``width`` bytes.
    state
        The number of values done, initially 0; the codes done, initially the first offset; the bytes written,
        initially 0. If ``out`` may be too small, not all values are done: then call again with more room.
    """
    is_sound: cython.bint
    count: cython.Py_ssize_t = offsets.shape[0] // width - 1
    if table.shape[0] < 2304 or ends.shape[0] < width * count or state.shape[0] < 3:
        raise ValueError(
            f"the table ({table.shape[0]} bytes), the room for {count} ends ({ends.shape[0]} bytes) or the "
            "state is too small"
        )
    with cython.nogil:
        is_sound = _expand_fsst(codes, offsets, width, count, table, ends, out, state)
    return is_sound


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _expand_fsst(
    codes: cython.const[cython.uchar][::1],
    offsets: cython.const[cython.uchar][::1],
    width: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    table: cython.const[cython.uchar][::1],
    ends: cython.uchar[::1],
    out: cython.uchar[::1],
    progress: cython.longlong[::1],
) -> cython.bint:
    i: cython.Py_ssize_t
    is_sound: cython.bint
    size: cython.ulonglong = codes.shape[0]
    state: cython.longlong[5]
    if not cython.compiled:
        state = [0] * 5
    if count < 0 or _offset(offsets, width * count, width) > size:
        return False
    if _offset(offsets, 0, width) > _offset(offsets, width * count, width):
        return False
    for i in range(3):
        state[i] = progress[i]
    state[3] = state[4] = 0
    if width == 4:
        is_sound = _expand_values(table, codes, 0, offsets, 0, 4, count, ends, 0, out, state)
    else:
        is_sound = _expand_values(table, codes, 0, offsets, 0, 8, count, ends, 0, out, state)
    for i in range(3):
        progress[i] = state[i]
    return is_sound


def read_codes(
    page: Page,
    start: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    out_offsets: cython.uchar[::1],
    out: cython.uchar[::1],
    state: cython.longlong[::1],
) -> cython.Py_ssize_t:
    """Expand strings of rows with the table of the page.

    Parameters
    ----------
    page, start, stop
        See `pages`.
    out_offsets
        Receives the offsets, starting with 0.
    state
        The row to continue from, the bytes written, and a number whose bit 7 is set if an escaped byte is not
        ASCII. Not all rows are done if ``out`` may be too small for 8 bytes for each code of the next chunk.

    Returns
    -------
    -1, or the first broken chunk.
    """
    broken: cython.Py_ssize_t
    if page.table.shape[0] < 2304 or out_offsets.shape[0] < (stop - start + 1) * page.width:
        raise ValueError(
            f"the table ({page.table.shape[0]} bytes) or the room for offsets ({out_offsets.shape[0]} "
            "bytes) is too small"
        )
    with cython.nogil:
        if page.width == 4:
            broken = _read_codes(page, start, stop, 4, out_offsets, out, state)
        else:
            broken = _read_codes(page, start, stop, 8, out_offsets, out, state)
    return broken


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _read_codes(
    page: Page,
    start: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    width: cython.Py_ssize_t,
    out_offsets: cython.uchar[::1],
    out: cython.uchar[::1],
    progress: cython.longlong[::1],
) -> cython.Py_ssize_t:
    row: cython.Py_ssize_t = progress[0]
    chunk: cython.Py_ssize_t = chunk_of(page, row)
    count: cython.Py_ssize_t
    offsets: cython.Py_ssize_t
    to_end: cython.Py_ssize_t
    low: cython.ulonglong
    high: cython.ulonglong
    size: cython.ulonglong
    state: cython.longlong[5]
    if not cython.compiled:
        state = [0] * 5
    if width == 4:
        store_32(out_offsets, 0, 0)
    else:
        store_64(out_offsets, 0, 0)
    state[2] = progress[1]
    state[4] = progress[2]
    while row < stop:
        offsets = offsets_start(page, chunk, row)
        if offsets < 0:
            return chunk
        count = min(stop, page.items[chunk + 1]) - row
        low = _offset(page.data, offsets, width)
        high = _offset(page.data, offsets + width * count, width)
        size = value_size(page, chunk)
        if high < low or high > size:
            return chunk
        size = high - low
        if state[2] + 8 * cython.cast(cython.Py_ssize_t, size) > out.shape[0]:
            break
        state[0], state[1] = 0, low
        to_end = (row - start + 1) * width
        if not _expand_values(
            page.table,
            page.data,
            value_start(page, chunk),
            page.data,
            offsets,
            width,
            count,
            out_offsets,
            to_end,
            out,
            state,
        ):
            return chunk
        row += count
        chunk += 1
    progress[0] = row
    progress[1] = state[2]
    progress[2] = state[4]
    return -1


def expand_strings(
    page: Page,
    starts: cython.const[cython.longlong][::1],
    ends: cython.const[cython.longlong][::1],
    out_offsets: cython.longlong[::1],
    out: cython.uchar[::1],
) -> cython.Py_ssize_t:
    """Expand single values with the table of the page.

    Parameters
    ----------
    starts, ends
        The position of the codes of each value in the chunks, from :func:`strings.find_strings`.
    out_offsets
        Receives the start of each value in ``out``, and the end of the last one.
    out
        The output, with room for 8 bytes for each code.

    Returns
    -------
    The bits of escaped bytes, or -1 if a value ends within an escape.
    """
    literals: cython.Py_ssize_t
    if (
        page.table.shape[0] < 2304
        or ends.shape[0] < starts.shape[0]
        or out_offsets.shape[0] <= starts.shape[0]
    ):
        raise ValueError(
            f"the table ({page.table.shape[0]} bytes) or the room for values ({out_offsets.shape[0]} "
            "offsets) is too small"
        )
    with cython.nogil:
        literals = _expand_strings(page.data, starts, ends, page.table, out_offsets, out)
    return literals


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _expand_strings(
    data: cython.const[cython.uchar][::1],
    starts: cython.const[cython.longlong][::1],
    ends: cython.const[cython.longlong][::1],
    table: cython.const[cython.uchar][::1],
    out_offsets: cython.longlong[::1],
    out: cython.uchar[::1],
) -> cython.Py_ssize_t:
    i: cython.Py_ssize_t
    at: cython.Py_ssize_t
    stop: cython.Py_ssize_t
    to: cython.Py_ssize_t = 0
    code: cython.Py_ssize_t
    literals: cython.Py_ssize_t = 0
    out_offsets[0] = 0
    for i in range(starts.shape[0]):
        at = starts[i]
        stop = ends[i]
        while at < stop:
            code = data[at]
            at += 1
            if code != 255:
                store_64(out, to, load_64(table, 8 * code))
                to += table[2048 + code]
                continue
            if at == stop:
                return -1
            out[to] = data[at]
            literals |= data[at]
            to += 1
            at += 1
        out_offsets[i + 1] = to
    return literals


if not cython.compiled:
    run_uncompiled(globals())
