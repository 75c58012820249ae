"""Read strings and string views. Format: docs/format/variable.md.

A view is two words: the size and up to 12 bytes of the value; or for a longer value, its first 4 bytes, the
number of a buffer (0 here), and the start of the value in the buffer.
"""

from __future__ import annotations

import cython

if cython.compiled:
    from cython.cimports.lance_df.encodings.kernels.memory import (
        copy_bytes,
        load_32,
        load_64,
        store_32,
        store_64,
    )
    from cython.cimports.lance_df.encodings.kernels.pages import Page, chunk_of, value_size, value_start
else:
    from lance_df.encodings.kernels.memory import (
        copy_bytes,
        load_32,
        load_64,
        run_uncompiled,
        store_32,
        store_64,
    )
    from lance_df.encodings.kernels.pages import Page, chunk_of, value_size, value_start

# for each size, masks of the bits of a view's words that belong to the value; longer values come last
_first_bits = cython.declare(cython.ulonglong[14])
_rest_bits = cython.declare(cython.ulonglong[14])
_byte = cython.declare(cython.ulonglong, 0xFF)
_size = cython.declare(cython.Py_ssize_t)
if not cython.compiled:
    _first_bits, _rest_bits = [0] * 14, [0] * 14
_first_bits[0], _rest_bits[0] = 0, 0
for _size in range(1, 13):
    _first_bits[_size] = _first_bits[_size - 1] | (_byte << (8 * _size + 24) if _size <= 4 else 0)
    _rest_bits[_size] = _rest_bits[_size - 1] | (_byte << (8 * _size - 40) if _size > 4 else 0)
_first_bits[13], _rest_bits[13] = _first_bits[4], 0


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
@cython.overflowcheck(False)
def _write_view(
    out: cython.uchar[::1],
    to: cython.Py_ssize_t,
    data: cython.const[cython.uchar][::1],
    at: cython.Py_ssize_t,
    start: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
) -> cython.void:
    """Write the view of a value at ``at``, with 12 readable bytes; in its buffer it is at ``start``."""
    kind: cython.Py_ssize_t = min(size, 13)
    high: cython.ulonglong = start
    word: cython.ulonglong = size
    rest: cython.ulonglong = load_64(data, at + 4) & _rest_bits[kind]
    store_64(out, to, word | (load_64(data, at) << 32 & _first_bits[kind]))
    store_64(out, to + 8, high << 32 if size > 12 else rest)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
@cython.overflowcheck(False)
def _write_short_view(
    out: cython.uchar[::1],
    to: cython.Py_ssize_t,
    data: cython.const[cython.uchar][::1],
    at: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
) -> cython.void:
    """Write the view of a value of at most 12 bytes."""
    word: cython.ulonglong = size
    store_64(out, to, word | (load_64(data, at) << 32 & _first_bits[size]))
    store_64(out, to + 8, load_64(data, at + 4) & _rest_bits[size])


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.overflowcheck(False)
def _write_last_view(
    out: cython.uchar[::1],
    to: cython.Py_ssize_t,
    data: cython.const[cython.uchar][::1],
    at: cython.Py_ssize_t,
    start: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
) -> cython.void:
    """Write the view of a value without reading bytes after the value."""
    first: cython.ulonglong = size
    rest: cython.ulonglong = start
    byte: cython.ulonglong
    k: cython.Py_ssize_t
    rest = rest << 32 if size > 12 else 0
    for k in range(min(size, 4) if size > 12 else size):
        byte = data[at + k]
        if k < 4:
            first |= byte << (8 * k + 32)
        else:
            rest |= byte << (8 * k - 32)
    store_64(out, to, first)
    store_64(out, to + 8, rest)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
@cython.overflowcheck(False)
def _offset(
    offsets: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, width: cython.Py_ssize_t
) -> cython.ulonglong:
    """Return the offset from byte ``at`` on; a negative one becomes a huge number."""
    if width == 4:
        return load_32(offsets, at)
    return load_64(offsets, at)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
@cython.overflowcheck(False)
def _views(
    offsets: cython.const[cython.uchar][::1],
    at: cython.Py_ssize_t,
    width: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    data: cython.const[cython.uchar][::1],
    base: cython.Py_ssize_t,
    start: cython.Py_ssize_t,
    out: cython.uchar[::1],
    to: cython.Py_ssize_t,
) -> cython.bint:
    """Write views of values; return whether their offsets ascend and are less than 2**31.

    Parameters
    ----------
    offsets, at, width
        The offset of the first value is at byte ``at``. The last offset does not exceed ``data``.
    data, base
        Offsets count from byte ``base``.
    start
        The position of byte ``base`` in the views.
    out, to
        The output, and the position of the first view in it.
    """
    i: cython.Py_ssize_t
    safe: cython.Py_ssize_t = count
    low: cython.Py_ssize_t
    high: cython.Py_ssize_t
    offset: cython.ulonglong
    any_bits: cython.ulonglong = 0
    byte: cython.ulonglong
    mask: cython.uint = 0xFFFFFFFF
    word: cython.uint
    any_low_bits: cython.uint = 0
    length: cython.uint
    longest: cython.uint = 0
    shortest: cython.uint = 0xFFFFFFFF
    # 32-bit differences wrap around if offsets do not ascend
    if width == 4:
        for i in range(count):
            word = load_32(offsets, at + 4 * i)
            length = (load_32(offsets, at + 4 * i + 4) - word) & mask
            any_low_bits |= word
            longest = max(longest, length)
            shortest = min(shortest, length)
    else:
        for i in range(count):
            offset = load_64(offsets, at + 8 * i)
            length = (load_64(offsets, at + 8 * i + 8) - offset) & mask
            any_bits |= offset
            longest = max(longest, length)
            shortest = min(shortest, length)
    if (any_bits | any_low_bits | longest | _offset(offsets, at + width * count, width)) >> 31:
        return False
    low = _offset(offsets, at, width)
    if longest == 1 and shortest == 1:
        for i in range(count):
            byte = data[base + low + i]
            store_64(out, to + 16 * i, 1 | byte << 32)
            store_64(out, to + 16 * i + 8, 0)
        return True
    # fewer than 12 bytes may be readable at the last values
    while safe:
        high = _offset(offsets, at + width * (safe - 1), width)
        if base + high + 12 <= data.shape[0]:
            break
        safe -= 1
    if longest <= 12:
        for i in range(safe):
            high = _offset(offsets, at + width * (i + 1), width)
            _write_short_view(out, to + 16 * i, data, base + low, high - low)
            low = high
    else:
        for i in range(safe):
            high = _offset(offsets, at + width * (i + 1), width)
            _write_view(out, to + 16 * i, data, base + low, start + low, high - low)
            low = high
    for i in range(safe, count):
        high = _offset(offsets, at + width * (i + 1), width)
        _write_last_view(out, to + 16 * i, data, base + low, start + low, high - low)
        low = high
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _views_32(
    offsets: cython.const[cython.uchar][::1],
    at: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    data: cython.const[cython.uchar][::1],
    base: cython.Py_ssize_t,
    start: cython.Py_ssize_t,
    out: cython.uchar[::1],
    to: cython.Py_ssize_t,
) -> cython.bint:
    return _views(offsets, at, 4, count, data, base, start, out, to)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _has_other_bytes(
    data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, size: cython.Py_ssize_t
) -> cython.bint:
    """Return whether any byte is not ASCII."""
    i: cython.Py_ssize_t
    words: cython.ulonglong = 0
    bytes_: cython.uchar = 0
    high_bits: cython.ulonglong = 0x8080808080808080
    for i in range(size >> 3):
        words |= load_64(data, at + 8 * i)
    for i in range(size & ~7, size):
        bytes_ |= data[at + i]
    return ((words & high_bits) | (bytes_ & 0x80)) != 0


def string_views(
    offsets: cython.const[cython.uchar][::1], data: cython.const[cython.uchar][::1], out: cython.uchar[::1]
) -> bool:
    """Write a view of each of some values of buffer 0; return whether their offsets ascend.

    Parameters
    ----------
    offsets
        Value i is ``data[offsets[i]:offsets[i + 1]]``; offsets have 4 bytes. Offsets beyond ``data`` are
        refused.
    out
        The 16 bytes of each view.
    """
    count: cython.Py_ssize_t = out.shape[0] // 16
    is_sound: cython.bint = True
    if offsets.shape[0] < 4 * (count + 1):
        raise ValueError(f"the offsets of {count} values do not fit into {offsets.shape[0]} bytes")
    if count:
        with cython.nogil:
            is_sound = load_32(offsets, 4 * count) <= data.shape[0] and _views_32(
                offsets, 0, count, data, 0, 0, out, 0
            )
    return is_sound


def view_ends(
    ends: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    limit: cython.Py_ssize_t,
    data: cython.const[cython.uchar][::1],
    is_checked: cython.bint,
    out: cython.uchar[::1],
) -> cython.Py_ssize_t:
    """Write views of values of 2.0 files; positions count from the first value.

    Parameters
    ----------
    ends
        The end of each value of a page in ``data``, in 8 bytes; those of nulls are above ``limit``.
    start, stop
        A range of values, at least one, that exist.
    limit
        The maximum of valid ends, which is less than 2**31 and not beyond ``data``.
    is_checked
        Whether bytes are known to be UTF-8.
    out
        The 16 bytes of each view.

    Returns
    -------
    -1; -2 if some bytes are not ASCII; -3 if some values are null or broken.
    """
    status: cython.Py_ssize_t
    if not 0 <= start < stop <= ends.shape[0] // 8 or limit > data.shape[0]:
        raise ValueError(
            f"values {start} to {stop} or the limit {limit} are out of range, there are "
            f"{ends.shape[0] // 8} values in {data.shape[0]} bytes"
        )
    if out.shape[0] < 16 * (stop - start):
        raise ValueError(f"the views of {stop - start} values do not fit into {out.shape[0]} bytes")
    with cython.nogil:
        status = _view_ends(ends, start, stop, limit, data, is_checked, out)
    return status


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _view_ends(
    ends: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    limit: cython.Py_ssize_t,
    data: cython.const[cython.uchar][::1],
    is_checked: cython.bint,
    out: cython.uchar[::1],
) -> cython.Py_ssize_t:
    low: cython.ulonglong = load_64(ends, 8 * start - 8) if start else 0
    high: cython.ulonglong = load_64(ends, 8 * stop - 8)
    size: cython.Py_ssize_t
    to: cython.Py_ssize_t = 0
    bound: cython.ulonglong = limit
    if low > high or high > bound:
        return -3
    if not is_checked and _has_other_bytes(data, low, high - low):
        return -2
    if start == 0:  # which is stored nowhere
        if load_64(ends, 0) > high:
            return -3
        size = load_64(ends, 0)
        _write_last_view(out, 0, data, 0, 0, size)
        start, to = 1, 16
    if start < stop and not _views(ends, 8 * start - 8, 8, stop - start, data, 0, -low, out, to):
        return -3
    return -1


def read_ends(
    ends: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    limit: cython.Py_ssize_t,
    width: cython.Py_ssize_t,
    out: cython.uchar[::1],
) -> cython.Py_ssize_t:
    """Write the offsets, of ``width`` bytes and starting with 0, of values of 2.0 files.

    Other arguments are as in :func:`view_ends`. Returns the last offset, or -3; offsets that do not fit into
    4 bytes are truncated.
    """
    size: cython.Py_ssize_t
    if not 0 <= start < stop <= ends.shape[0] // 8 or out.shape[0] < width * (stop - start + 1):
        raise ValueError(
            f"values {start} to {stop} are out of range or do not fit into the output, there are "
            f"{ends.shape[0] // 8} values"
        )
    with cython.nogil:
        size = _read_ends(ends, start, stop, limit, width, out)
    return size


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.overflowcheck(False)
def _read_ends(
    ends: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    limit: cython.Py_ssize_t,
    width: cython.Py_ssize_t,
    out: cython.uchar[::1],
) -> cython.Py_ssize_t:
    i: cython.Py_ssize_t
    at: cython.Py_ssize_t = 8 * start
    count: cython.Py_ssize_t = stop - start
    low: cython.ulonglong = load_64(ends, at - 8) if start else 0
    high: cython.ulonglong = load_64(ends, 8 * stop - 8)
    bound: cython.ulonglong = limit
    mask: cython.ulonglong = 0xFFFFFFFF
    is_broken: cython.bint = False
    if low > high or high > bound or load_64(ends, at) < low:
        return -3
    # a loop over neighbours without an early exit processes many of them at a time
    for i in range(count - 1):
        is_broken |= load_64(ends, at + 8 * i + 8) < load_64(ends, at + 8 * i)
    if is_broken:
        return -3
    if width == 4:
        store_32(out, 0, 0)
        for i in range(count):
            store_32(out, 4 * i + 4, (load_64(ends, at + 8 * i) - low) & mask)
    else:
        store_64(out, 0, 0)
        for i in range(count):
            store_64(out, 8 * i + 8, load_64(ends, at + 8 * i) - low)
    return high - low


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def offsets_start(page: Page, chunk: cython.Py_ssize_t, start: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Return the byte of the offset of a row in a chunk; -1 if not all offsets of the chunk exist."""
    if page.items[chunk + 1] - page.items[chunk] >= value_size(page, chunk) // page.width:
        return -1
    return value_start(page, chunk) + (start - page.items[chunk]) * page.width


def read_views(
    page: Page, start: cython.Py_ssize_t, stop: cython.Py_ssize_t, out: cython.uchar[::1]
) -> cython.Py_ssize_t:
    """Write views whose positions count from the chunk of the first row; chunks have less than 2**31 bytes.

    Offsets have 4 bytes. Returns -1; -2 if offsets are valid but some bytes are not ASCII; or the first
    broken chunk. See `pages`.
    """
    status: cython.Py_ssize_t
    with cython.nogil:
        status = _read_views(page, start, stop, out)
    return status


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _read_views(
    page: Page, start: cython.Py_ssize_t, stop: cython.Py_ssize_t, out: cython.uchar[::1]
) -> cython.Py_ssize_t:
    chunk: cython.Py_ssize_t = chunk_of(page, start)
    origin: cython.Py_ssize_t = page.positions[chunk]
    base: cython.Py_ssize_t
    offsets: cython.Py_ssize_t
    count: cython.Py_ssize_t
    low: cython.Py_ssize_t
    high: cython.Py_ssize_t
    to: cython.Py_ssize_t = 0
    has_other: cython.bint = False
    while start < stop:
        offsets = offsets_start(page, chunk, start)
        if offsets < 0:
            return chunk
        base = value_start(page, chunk)
        count = min(stop, page.items[chunk + 1]) - start
        low = load_32(page.data, offsets)
        high = load_32(page.data, offsets + 4 * count)
        if high < low or high > value_size(page, chunk):
            return chunk
        has_other |= _has_other_bytes(page.data, base + low, high - low)
        if not _views_32(page.data, offsets, count, page.data, base, base - origin, out, to):
            return chunk
        to += 16 * count
        start += count
        chunk += 1
    return -2 if has_other else -1


def room_for_strings(page: Page, start: cython.Py_ssize_t, stop: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Return the bytes of the values in the chunks of rows, or -1 minus the first broken chunk."""
    chunk: cython.Py_ssize_t
    room: cython.Py_ssize_t = 0
    with cython.nogil:
        chunk = chunk_of(page, start)
        while start < stop:
            if offsets_start(page, chunk, start) < 0:
                room = -1 - chunk
                break
            room += value_size(page, chunk) - (page.items[chunk + 1] - page.items[chunk] + 1) * page.width
            chunk += 1
            start = page.items[chunk]
    return room


def read_strings(
    page: Page,
    start: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    out_offsets: cython.uchar[::1],
    out: cython.uchar[::1],
) -> cython.Py_ssize_t:
    """Write offsets and bytes; :func:`room_for_strings` returns the room that bytes need.

    Returns -1 or the first broken chunk; see `pages`.
    """
    broken: cython.Py_ssize_t
    if out_offsets.shape[0] < (stop - start + 1) * page.width:
        raise ValueError(f"the offsets of {stop - start} values do not fit into {out_offsets.shape[0]} bytes")
    with cython.nogil:
        if page.width == 4:
            broken = _read_strings(page, page.data, start, stop, 4, out_offsets, out)
        else:
            broken = _read_strings(page, page.data, start, stop, 8, out_offsets, out)
    return broken


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
@cython.overflowcheck(False)
def _read_strings(
    page: Page,
    data: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    width: cython.Py_ssize_t,
    out_offsets: cython.uchar[::1],
    out: cython.uchar[::1],
) -> cython.Py_ssize_t:
    i: cython.Py_ssize_t
    chunk: cython.Py_ssize_t = chunk_of(page, start)
    offsets: cython.Py_ssize_t
    count: cython.Py_ssize_t
    low: cython.ulonglong
    high: cython.ulonglong
    size: cython.ulonglong
    room: cython.ulonglong
    shift: cython.ulonglong
    mask: cython.ulonglong = 0xFFFFFFFFFFFFFFFF if width == 8 else 0xFFFFFFFF
    to: cython.Py_ssize_t = 0
    to_offset: cython.Py_ssize_t = 0
    is_broken: cython.bint = False
    if width == 4:
        store_32(out_offsets, 0, 0)
    else:
        store_64(out_offsets, 0, 0)
    while start < stop:
        offsets = offsets_start(page, chunk, start)
        if offsets < 0:
            return chunk
        count = min(stop, page.items[chunk + 1]) - start
        low = _offset(data, offsets, width)
        high = _offset(data, offsets + width * count, width)
        size = value_size(page, chunk)
        room = out.shape[0] - to
        if high < low or high > size or high - low > room:
            return chunk
        # the number that is added to each offset, modulo 2**64
        shift = (to - low) & mask
        # a loop over neighbours without an early exit processes many of them at a time
        for i in range(count):
            is_broken |= _offset(data, offsets + width * (i + 1), width) < _offset(
                data, offsets + width * i, width
            )
        if is_broken:
            return chunk
        if width == 4:
            for i in range(1, count + 1):
                store_32(out_offsets, to_offset + 4 * i, (load_32(data, offsets + 4 * i) + shift) & mask)
        else:
            for i in range(1, count + 1):
                store_64(out_offsets, to_offset + 8 * i, (load_64(data, offsets + 8 * i) + shift) & mask)
        copy_bytes(out, to, data, value_start(page, chunk) + low, high - low)
        to += high - low
        to_offset += width * count
        start += count
        chunk += 1
    return -1


def find_strings(
    page: Page,
    rows: cython.const[cython.longlong][::1],
    starts: cython.longlong[::1],
    ends: cython.longlong[::1],
) -> cython.Py_ssize_t:
    """Find values without reading them: ``starts`` and ``ends`` receive their bounds in the chunks.

    ``rows`` ascend. Returns -1, or the first chunk that lacks one of its values.
    """
    broken: cython.Py_ssize_t
    if starts.shape[0] < rows.shape[0] or ends.shape[0] < rows.shape[0]:
        raise ValueError(f"the bounds of {rows.shape[0]} values do not fit into the output")
    with cython.nogil:
        if page.width == 4:
            broken = _find_strings(page, page.data, 4, page.items, rows, starts, ends)
        else:
            broken = _find_strings(page, page.data, 8, page.items, rows, starts, ends)
    return broken


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _find_strings(
    page: Page,
    data: cython.const[cython.uchar][::1],
    width: cython.Py_ssize_t,
    items: cython.const[cython.longlong][::1],
    rows: cython.const[cython.longlong][::1],
    starts: cython.longlong[::1],
    ends: cython.longlong[::1],
) -> cython.Py_ssize_t:
    i: cython.Py_ssize_t
    row: cython.Py_ssize_t
    chunk: cython.Py_ssize_t = -1
    offsets: cython.Py_ssize_t = 0
    first: cython.Py_ssize_t = 0
    after: cython.Py_ssize_t = 0
    base: cython.Py_ssize_t = 0
    at: cython.Py_ssize_t
    num_chunks: cython.Py_ssize_t = items.shape[0] - 1
    size: cython.ulonglong = 0
    low: cython.ulonglong
    high: cython.ulonglong
    for i in range(rows.shape[0]):
        row = rows[i]
        if chunk < 0 or row >= after:
            chunk += 1
            while chunk < num_chunks and row >= items[chunk + 1]:
                chunk += 1
            if chunk == num_chunks:
                return chunk
            first, after = items[chunk], items[chunk + 1]
            offsets = offsets_start(page, chunk, first)
            if offsets < 0:
                return chunk
            base, size = value_start(page, chunk), value_size(page, chunk)
        if row < first:
            return chunk
        at = offsets + (row - first) * width
        low = _offset(data, at, width)
        high = _offset(data, at + width, width)
        if high < low or high > size:
            return chunk
        starts[i] = base + low
        ends[i] = base + high
    return -1


if not cython.compiled:
    run_uncompiled(globals())
