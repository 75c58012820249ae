"""Read ranges of rows of mini-block pages in memory. Format: docs/format/mini_block.md.

Readers take rows ``start`` to ``stop`` (exclusive), at least one, all of which exist, and ``out``, the bytes
of as many values. They return -1, or the first chunk that does not hold its values, or -2 minus an index that
is beyond the table.
"""

from __future__ import annotations

import cython

if cython.compiled:
    from cython.cimports.lance_df.encodings.kernels.memory import (
        copy_bytes,
        load_16,
        load_32,
        load_64,
        load_word,
        store_64,
        store_word,
    )
else:
    from lance_df.encodings.kernels.memory import (
        copy_bytes,
        load_16,
        load_32,
        load_64,
        load_word,
        run_uncompiled,
        store_64,
        store_word,
    )


class Page:
    """The chunks of a page, each with levels and values.

    Parameters
    ----------
    data
        The bytes of all chunks.
    positions
        The start of each chunk, a multiple of 8, and the end of the last one; the caller has checked that
        they ascend and lie within ``data``.
    items
        The first value of each chunk, followed by the number of all values; ascending from 0.
    levels
        The number of level buffers before the values of a chunk: 0 or 1, for `chunk_buffers` also 2.
    wide
        Whether sizes of value buffers have 32 bits instead of 16.
    width
        The bytes of a stored value or offset.
    table
        The bytes of the values in which indices are looked up; empty to read the indices themselves.
    table_size
        The number of these values; -1 if the stored values are not indices.
    out_width
        The bytes that are written for each value.
    """

    def __init__(
        self,
        data: cython.const[cython.uchar][::1],
        positions: cython.const[cython.longlong][::1],
        items: cython.const[cython.longlong][::1],
        levels: cython.Py_ssize_t,
        wide: cython.Py_ssize_t,
        width: cython.Py_ssize_t,
        table: cython.const[cython.uchar][::1],
        table_size: cython.Py_ssize_t,
        out_width: cython.Py_ssize_t,
    ) -> None:
        self.data = data
        self.positions = positions
        self.items = items
        self.num_chunks = items.shape[0] - 1
        self.levels = levels
        self.wide = wide
        self.width = width
        self.table = table
        self.table_size = table_size
        self.out_width = out_width

    def with_table_size(self, table_size: cython.Py_ssize_t) -> Page:
        """Return the same page with indices into ``table_size`` values."""
        return Page(
            self.data,
            self.positions,
            self.items,
            self.levels,
            self.wide,
            self.width,
            self.table,
            table_size,
            self.out_width,
        )


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def chunk_of(page: Page, row: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Return the chunk of a row that exists."""
    low: cython.Py_ssize_t = 0
    high: cython.Py_ssize_t = page.num_chunks
    middle: cython.Py_ssize_t
    while high - low > 1:
        middle = (low + high) // 2
        if page.items[middle] <= row:
            low = middle
        else:
            high = middle
    return low


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def value_start(page: Page, chunk: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Return the start of the only value buffer of a chunk, if the chunk contains its header."""
    start: cython.Py_ssize_t = page.positions[chunk] + 8
    size: cython.Py_ssize_t
    if page.levels and start <= page.positions[chunk + 1]:
        size = load_64(page.data, start - 8) >> 16 & 0xFFFF
        start += (size + 7) & ~7
    return start


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def value_size(page: Page, chunk: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Return the bytes of the only value buffer of a chunk; -1 if the buffer exceeds the chunk."""
    start: cython.Py_ssize_t = page.positions[chunk]
    stop: cython.Py_ssize_t = page.positions[chunk + 1]
    low: cython.ulonglong = 0xFFFFFFFF
    size: cython.Py_ssize_t
    if start + 8 > stop:
        return -1
    size = load_64(page.data, start) >> (16 + 16 * page.levels) & low
    if not page.wide:
        size &= 0xFFFF
    return size if size <= stop - value_start(page, chunk) else -1


def read_flat(
    page: Page, start: cython.Py_ssize_t, stop: cython.Py_ssize_t, out: cython.uchar[::1]
) -> cython.Py_ssize_t:
    """Read values that are stored back to back in each chunk."""
    broken: cython.Py_ssize_t
    with cython.nogil:
        broken = _read_flat(page, start, stop, out)
    return broken


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _read_flat(
    page: Page, start: cython.Py_ssize_t, stop: cython.Py_ssize_t, out: cython.uchar[::1]
) -> cython.Py_ssize_t:
    width: cython.Py_ssize_t = page.width
    chunk: cython.Py_ssize_t = chunk_of(page, start)
    first: cython.Py_ssize_t
    after: cython.Py_ssize_t
    count: cython.Py_ssize_t
    to: cython.Py_ssize_t = 0
    while start < stop:
        first = page.items[chunk]
        after = page.items[chunk + 1]
        if (after - first) * width > value_size(page, chunk):
            return chunk
        count = min(stop, after) - start
        copy_bytes(out, to, page.data, value_start(page, chunk) + (start - first) * width, count * width)
        to += count * width
        start += count
        chunk += 1
    return -1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def packed_width(page: Page, at: cython.Py_ssize_t, size: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Return the bit width at the start of a bit-packed buffer; -1 if its block does not fit."""
    word: cython.ulonglong
    if size < page.width:
        return -1
    word = load_word(page.data, at, page.width)
    if word > cython.cast(cython.ulonglong, 8 * page.width):
        return -1
    size -= page.width + 128 * cython.cast(cython.Py_ssize_t, word)
    return -1 if size < 0 else cython.cast(cython.Py_ssize_t, word)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def run_values(page: Page, chunk: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Return the start of the values of runs, if the chunk contains its header."""
    start: cython.Py_ssize_t = page.positions[chunk]
    size: cython.Py_ssize_t = load_16(page.data, start + 2)
    start += 16 if page.wide else 8
    return start + ((size + 7) & ~7) if page.levels else start


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def run_value_bytes(page: Page, chunk: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Return the bytes of the values of runs, if the chunk contains its header."""
    at: cython.Py_ssize_t = page.positions[chunk] + 2 + 2 * page.levels
    return load_32(page.data, at) if page.wide else load_16(page.data, at)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def count_runs(page: Page, chunk: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Return the number of runs of a chunk that contains its header and buffers; otherwise 0."""
    stop: cython.Py_ssize_t = page.positions[chunk + 1]
    at: cython.Py_ssize_t = page.positions[chunk]
    size: cython.Py_ssize_t
    num_lengths: cython.Py_ssize_t
    if at + (16 if page.wide else 8) > stop:
        return 0
    at += 2 + 2 * page.levels
    num_lengths = load_32(page.data, at + 4) if page.wide else load_16(page.data, at + 2)
    size = run_value_bytes(page, chunk)
    if num_lengths > stop - run_lengths(page, chunk):
        return 0
    return min(num_lengths, size // page.width)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def run_lengths(page: Page, chunk: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Return the start of the lengths of runs, if the chunk contains its header."""
    return run_values(page, chunk) + ((run_value_bytes(page, chunk) + 7) & ~7)


def read_runs(
    page: Page, start: cython.Py_ssize_t, stop: cython.Py_ssize_t, out: cython.uchar[::1]
) -> cython.Py_ssize_t:
    """Read values of 1, 2, 4 or 8 bytes that are run-length encoded in each chunk.

    Format: docs/format/mini_block.md.
    """
    broken: cython.Py_ssize_t
    with cython.nogil:
        # with constants, the compiler makes a separate loop for each case
        if page.width == 1:
            broken = _read_runs(page, start, stop, out, 1)
        elif page.width == 2:
            broken = _read_runs(page, start, stop, out, 2)
        elif page.width == 4:
            broken = _read_runs(page, start, stop, out, 4)
        else:
            broken = _read_runs(page, start, stop, out, 8)
    return broken


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
@cython.overflowcheck(False)
def _read_runs(
    page: Page,
    start: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    out: cython.uchar[::1],
    width: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    chunk: cython.Py_ssize_t = chunk_of(page, start)
    first: cython.Py_ssize_t
    count: cython.Py_ssize_t
    num_runs: cython.Py_ssize_t
    left: cython.Py_ssize_t
    to: cython.Py_ssize_t = 0
    while start < stop:
        first = page.items[chunk]
        count = min(stop, page.items[chunk + 1]) - start
        num_runs = count_runs(page, chunk)
        if num_runs == 0:
            return chunk
        left = _expand_runs(
            page.data,
            run_values(page, chunk),
            run_lengths(page, chunk),
            num_runs,
            start - first,
            count,
            width,
            out,
            to,
        )
        if left > 0:
            return chunk
        to += count * width
        start += count
        chunk += 1
    return -1


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
@cython.overflowcheck(False)
def _expand_runs(
    data: cython.const[cython.uchar][::1],
    value: cython.Py_ssize_t,
    length: cython.Py_ssize_t,
    num_runs: cython.Py_ssize_t,
    skipped: cython.Py_ssize_t,
    left: cython.Py_ssize_t,
    width: cython.Py_ssize_t,
    out: cython.uchar[::1],
    to: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Skip ``skipped`` values and write the next ``left``; return how many of them the runs lack."""
    run: cython.Py_ssize_t = 0
    count: cython.Py_ssize_t
    i: cython.Py_ssize_t
    word: cython.ulonglong
    repeated: cython.ulonglong
    while run < num_runs and skipped >= data[length + run]:
        skipped -= data[length + run]
        run += 1
    while run < num_runs and left > 0:
        count = data[length + run] - skipped
        skipped = 0
        word = load_word(data, value + run * width, width)
        if count <= 8 <= left:
            # a fixed number of stores needs no branches; the next run overwrites surplus ones
            repeated = _repeated(word, width)
            for i in range(width):
                store_64(out, to + 8 * i, repeated)
        else:
            count = min(count, left)
            for i in range(count):
                store_word(out, to + i * width, word, width)
        to += count * width
        left -= count
        run += 1
    return left


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
@cython.overflowcheck(False)
def _repeated(word: cython.ulonglong, width: cython.Py_ssize_t) -> cython.ulonglong:
    """Return 8 bytes that repeat one word."""
    ones_8: cython.ulonglong = 0x0101010101010101
    ones_16: cython.ulonglong = 0x0001000100010001
    ones_32: cython.ulonglong = 0x0000000100000001
    if width == 1:
        return word * ones_8
    if width == 2:
        return word * ones_16
    if width == 4:
        return word * ones_32
    return word


def chunk_buffers(
    page: Page,
    chunks: cython.const[cython.longlong][::1],
    starts: cython.longlong[:, ::1],
    sizes: cython.longlong[:, ::1],
) -> cython.Py_ssize_t:
    """Find the buffers of chunks; return the first chunk that does not contain its buffers, or -1.

    Parameters
    ----------
    page
        The page. If it has one level buffer, a chunk must have equal numbers of values and levels.
    chunks
        The numbers of the chunks, which exist.
    starts, sizes
        Receive a row for each buffer, levels first: its start in the page, a multiple of 8, and its size.
    """
    broken: cython.Py_ssize_t
    with cython.nogil:
        broken = _chunk_buffers(page, chunks, starts, sizes)
    return broken


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _chunk_buffers(
    page: Page,
    chunks: cython.const[cython.longlong][::1],
    starts: cython.longlong[:, ::1],
    sizes: cython.longlong[:, ::1],
) -> cython.Py_ssize_t:
    levels: cython.Py_ssize_t = page.levels
    wide: cython.bint = page.wide
    num_buffers: cython.Py_ssize_t = starts.shape[0]
    size_bytes: cython.Py_ssize_t = 4 if wide else 2
    header: cython.Py_ssize_t = (2 + 2 * levels + size_bytes * (num_buffers - levels) + 7) & ~7
    i: cython.Py_ssize_t
    number: cython.Py_ssize_t
    chunk: cython.Py_ssize_t
    word: cython.Py_ssize_t
    stop: cython.Py_ssize_t
    at: cython.Py_ssize_t
    size: cython.Py_ssize_t
    for i in range(chunks.shape[0]):
        chunk = chunks[i]
        word = page.positions[chunk]
        stop = page.positions[chunk + 1]
        at = word + header
        if at > stop:
            return chunk
        if levels == 1 and load_16(page.data, word) != page.items[chunk + 1] - page.items[chunk]:
            return chunk
        word += 2
        for number in range(num_buffers):
            if wide and number >= levels:
                size = load_32(page.data, word)
                word += 4
            else:
                size = load_16(page.data, word)
                word += 2
            if size > stop - at:
                return chunk
            starts[number, i] = at
            sizes[number, i] = size
            at += (size + 7) & ~7
    return -1


if not cython.compiled:
    run_uncompiled(globals())
