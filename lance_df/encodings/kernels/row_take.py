"""Take single rows from many pages in memory without decoding other rows.

Format: docs/format/mini_block.md.
"""

from __future__ import annotations

import cython

if cython.compiled:
    from cython.cimports.lance_df.encodings.kernels.memory import (
        copy_bytes,
        load_64,
        load_word,
        store_32,
        store_64,
        store_word,
    )
    from cython.cimports.lance_df.encodings.kernels.pages import (
        Page,
        chunk_of,
        count_runs,
        packed_width,
        run_lengths,
        run_values,
        value_size,
        value_start,
    )
else:
    from lance_df.encodings.kernels.memory import (
        copy_bytes,
        load_64,
        load_word,
        run_uncompiled,
        store_32,
        store_64,
        store_word,
    )
    from lance_df.encodings.kernels.pages import (
        Page,
        chunk_of,
        count_runs,
        packed_width,
        run_lengths,
        run_values,
        value_size,
        value_start,
    )

# How a page stores values: all back to back; or in chunks back to back, bit-packed, or as runs.
WHOLE = 0
FLAT = 1
PACKED = 2
RUNS = 3

_whole = cython.declare(cython.longlong, WHOLE)
_flat = cython.declare(cython.longlong, FLAT)
_packed = cython.declare(cython.longlong, PACKED)


def take_rows(
    pages: list,
    kinds: cython.const[cython.longlong][::1],
    bases: cython.const[cython.longlong][::1],
    starts: cython.const[cython.longlong][::1],
    rows: cython.const[cython.longlong][::1],
    targets: cython.const[cython.longlong][::1],
    begin: cython.Py_ssize_t,
    out: cython.uchar[::1],
) -> tuple:
    """Write the values of rows or, for pages with dictionaries, 32-bit indices into all dictionaries.

    Returns the number of the row at which it stopped, the number of its page, and the reason: the chunk that
    does not hold its values; -2 minus an index that is beyond the values of the page; or -1. In case of -1,
    either the page is None, or all rows are written and the first number is that of all rows.

    Parameters
    ----------
    pages
        `Page` objects whose values have one width, or None. The values that they look up are not read.
    kinds, bases
        How each page stores its values, and the number to add to its indices.
    starts
        The first row of each page, followed by the end of the last page.
    rows
        The rows, ascending and all within the pages.
    targets
        The position of the value of each row in ``out``.
    begin
        The number of the row to begin with.
    out
        The output, with room for all values.
    """
    num_rows: cython.Py_ssize_t = rows.shape[0]
    number: cython.Py_ssize_t = 0
    last: cython.Py_ssize_t = len(pages) - 1
    stop: cython.Py_ssize_t
    status: cython.Py_ssize_t
    page: Page
    while begin < num_rows:
        while number < last and rows[begin] >= starts[number + 1]:
            number += 1
        stop = begin + 1
        while stop < num_rows and rows[stop] < starts[number + 1]:
            stop += 1
        if pages[number] is None:
            return begin, number, -1
        page = pages[number]
        with cython.nogil:
            if kinds[number] == _whole:
                status = _take_whole(page, bases[number], starts[number], rows, targets, begin, stop, out)
            elif kinds[number] == _flat:
                status = _take_flat(page, bases[number], starts[number], rows, targets, begin, stop, out)
            elif kinds[number] == _packed:
                status = _take_packed(page, bases[number], starts[number], rows, targets, begin, stop, out)
            else:
                status = _take_runs(page, bases[number], starts[number], rows, targets, begin, stop, out)
        if status != -1:
            return begin, number, status
        begin = stop
    return num_rows, number, -1


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _put(
    page: Page,
    at: cython.Py_ssize_t,
    base: cython.Py_ssize_t,
    target: cython.Py_ssize_t,
    out: cython.uchar[::1],
) -> cython.Py_ssize_t:
    """Copy a value or, for an index, add ``base`` to it; return the same as readers do."""
    width: cython.Py_ssize_t = page.width
    if page.table_size >= 0:
        return _put_index(page, load_word(page.data, at, width), base, target, out)
    if width == 8:
        store_64(out, target * 8, load_64(page.data, at))
    else:
        copy_bytes(out, target * width, page.data, at, width)
    return -1


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _put_index(
    page: Page,
    index: cython.ulonglong,
    base: cython.Py_ssize_t,
    target: cython.Py_ssize_t,
    out: cython.uchar[::1],
) -> cython.Py_ssize_t:
    most: cython.ulonglong = 0x4000000000000000
    if index >= cython.cast(cython.ulonglong, page.table_size):
        index = index if index < most else most
        return -2 - cython.cast(cython.Py_ssize_t, index)
    store_32(out, target * 4, cython.cast(cython.uint, base + index))
    return -1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _take_whole(
    page: Page,
    base: cython.Py_ssize_t,
    first: cython.Py_ssize_t,
    rows: cython.const[cython.longlong][::1],
    targets: cython.const[cython.longlong][::1],
    begin: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    out: cython.uchar[::1],
) -> cython.Py_ssize_t:
    i: cython.Py_ssize_t
    status: cython.Py_ssize_t
    for i in range(begin, stop):
        status = _put(page, (rows[i] - first) * page.width, base, targets[i], out)
        if status != -1:
            return status
    return -1


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _next_chunk(page: Page, chunk: cython.Py_ssize_t, row: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Return the chunk of a row that is beyond a chunk: usually one of the next chunks."""
    if chunk < 0:
        return chunk_of(page, row)
    while chunk + 1 < page.num_chunks and page.items[chunk + 1] <= row:
        chunk += 1
    return chunk


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _take_flat(
    page: Page,
    base: cython.Py_ssize_t,
    first: cython.Py_ssize_t,
    rows: cython.const[cython.longlong][::1],
    targets: cython.const[cython.longlong][::1],
    begin: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    out: cython.uchar[::1],
) -> cython.Py_ssize_t:
    i: cython.Py_ssize_t
    row: cython.Py_ssize_t
    chunk: cython.Py_ssize_t = -1
    low: cython.Py_ssize_t = 0
    after: cython.Py_ssize_t = -1
    at: cython.Py_ssize_t = 0
    status: cython.Py_ssize_t
    for i in range(begin, stop):
        row = rows[i] - first
        if row >= after:
            chunk = _next_chunk(page, chunk, row)
            low = page.items[chunk]
            after = page.items[chunk + 1]
            if row < low or row >= after or (after - low) * page.width > value_size(page, chunk):
                return chunk
            at = value_start(page, chunk)
        status = _put(page, at + (row - low) * page.width, base, targets[i], out)
        if status != -1:
            return status
    return -1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.overflowcheck(False)
def _take_packed(
    page: Page,
    base: cython.Py_ssize_t,
    first: cython.Py_ssize_t,
    rows: cython.const[cython.longlong][::1],
    targets: cython.const[cython.longlong][::1],
    begin: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    out: cython.uchar[::1],
) -> cython.Py_ssize_t:
    i: cython.Py_ssize_t
    row: cython.Py_ssize_t
    width: cython.Py_ssize_t = page.width
    word_bits: cython.Py_ssize_t = 8 * width
    lanes: cython.Py_ssize_t = 1024 // word_bits
    chunk: cython.Py_ssize_t = -1
    low: cython.Py_ssize_t = 0
    after: cython.Py_ssize_t = -1
    at: cython.Py_ssize_t = 0
    bits: cython.Py_ssize_t = 0
    eighth: cython.Py_ssize_t
    bit: cython.Py_ssize_t
    shift: cython.Py_ssize_t
    word_at: cython.Py_ssize_t
    ones: cython.ulonglong = 0xFFFFFFFFFFFFFFFF
    mask: cython.ulonglong = 0
    word: cython.ulonglong
    status: cython.Py_ssize_t
    for i in range(begin, stop):
        row = rows[i] - first
        if row >= after:
            chunk = _next_chunk(page, chunk, row)
            low = page.items[chunk]
            after = page.items[chunk + 1]
            at = value_start(page, chunk)
            bits = packed_width(page, at, value_size(page, chunk))
            if bits < 0 or after - low > 1024 or row < low or row >= after:
                return chunk
            at += width
            mask = ones >> (64 - bits) if bits else 0
        # a value is in one lane of one packed row of words; the position follows from how blocks are unpacked
        row -= low
        eighth = row % 128 // lanes * lanes // 16
        eighth = ((eighth & 1) << 2) | (eighth & 2) | (eighth >> 2)
        bit = (eighth * 8 + row // 128) * bits
        shift = bit % word_bits
        word_at = at + (bit // word_bits * lanes + row % lanes) * width
        word = load_word(page.data, word_at, width) >> shift if bits else 0
        if shift + bits > word_bits:
            word |= (load_word(page.data, word_at + 128, width) << (word_bits - shift)) & ones
        word &= mask
        if page.table_size < 0:
            store_word(out, targets[i] * width, word, width)
        else:
            status = _put_index(page, word, base, targets[i], out)
            if status != -1:
                return status
    return -1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _take_runs(
    page: Page,
    base: cython.Py_ssize_t,
    first: cython.Py_ssize_t,
    rows: cython.const[cython.longlong][::1],
    targets: cython.const[cython.longlong][::1],
    begin: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    out: cython.uchar[::1],
) -> cython.Py_ssize_t:
    i: cython.Py_ssize_t
    row: cython.Py_ssize_t
    chunk: cython.Py_ssize_t = -1
    low: cython.Py_ssize_t = 0
    after: cython.Py_ssize_t = -1
    value: cython.Py_ssize_t = 0
    length: cython.Py_ssize_t = 0
    run: cython.Py_ssize_t = 0
    num_runs: cython.Py_ssize_t = 0
    run_stop: cython.Py_ssize_t = 0
    status: cython.Py_ssize_t
    for i in range(begin, stop):
        row = rows[i] - first
        if row >= after:
            chunk = _next_chunk(page, chunk, row)
            low = page.items[chunk]
            after = page.items[chunk + 1]
            num_runs = count_runs(page, chunk)
            if num_runs == 0 or row < low or row >= after:
                return chunk
            value = run_values(page, chunk)
            length = run_lengths(page, chunk)
            run = -1
            run_stop = 0
        while run_stop <= row - low:
            run += 1
            if run == num_runs:
                return chunk
            run_stop += page.data[length + run]
        status = _put(page, value + run * page.width, base, targets[i], out)
        if status != -1:
            return status
    return -1


if not cython.compiled:
    run_uncompiled(globals())
