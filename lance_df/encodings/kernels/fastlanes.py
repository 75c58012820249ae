"""Pack and unpack FastLanes blocks of 1024 values, and read pages of them. Format: docs/format/bitpacked.md.

A block of values of 8, 16, 32 or 64 bits is read as words of 64 bits. 16 words are a line, in which values of
any size are shifted at once. The packed rows and the values of a block are whole lines.
"""

from __future__ import annotations

import cython

if cython.compiled:
    from cython.cimports.lance_df.encodings.kernels.lookup import look_up_words
    from cython.cimports.lance_df.encodings.kernels.memory import copy_bytes, load_16, load_64, store_64
    from cython.cimports.lance_df.encodings.kernels.pages import (
        Page,
        chunk_of,
        packed_width,
        value_size,
        value_start,
    )
else:
    from lance_df.encodings.kernels.lookup import look_up_words
    from lance_df.encodings.kernels.memory import (
        copy_bytes,
        load_16,
        load_64,
        run_uncompiled,
        store_64,
    )
    from lance_df.encodings.kernels.pages import (
        Page,
        chunk_of,
        packed_width,
        value_size,
        value_start,
    )


# for the values of whole blocks, if not all of them are wanted, or if they are looked up
_ROOM = cython.declare(cython.Py_ssize_t, 16384)


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
    group: cython.Py_ssize_t
    _: cython.Py_ssize_t
    shift: cython.Py_ssize_t = 0
    left: cython.Py_ssize_t
    base: cython.Py_ssize_t
    ones: cython.ulonglong = 0xFFFFFFFFFFFFFFFF
    mask: cython.ulonglong
    low: cython.ulonglong
    high: cython.ulonglong
    # a line that is read whole before it is written needs no check of whether the arrays overlap
    line: cython.ulonglong[16]
    if not cython.compiled:
        line = [0] * 16
    if width == 0:
        for i in range(16 * bits):
            store_64(out, to + 8 * i, 0)
        return
    mask = _repeat(ones >> (64 - width), bits)
    for group in range(bits >> 3):
        base = to + _line_of_row(8 * group, bits)
        for _ in range(8):
            left = bits - shift
            if width <= left:
                for i in range(16):
                    line[i] = (load_64(data, at + 8 * i) >> shift) & mask
            elif bits == 64:
                for i in range(16):
                    line[i] = (
                        load_64(data, at + 8 * i) >> shift | load_64(data, at + 128 + 8 * i) << left
                    ) & mask
            else:
                low = _repeat(ones >> (64 - left), bits)
                high = mask & ~low
                for i in range(16):
                    line[i] = ((load_64(data, at + 8 * i) >> shift) & low) | (
                        load_64(data, at + 128 + 8 * i) << left & high
                    )
            for i in range(16):
                store_64(out, base + 8 * i, line[i])
            base += 16 * bits
            shift += width
            if shift >= bits:
                shift -= bits
                at += 128


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _unpack_block(
    data: cython.const[cython.uchar][::1],
    at: cython.Py_ssize_t,
    width: cython.Py_ssize_t,
    bits: cython.Py_ssize_t,
    out: cython.uchar[::1],
    to: cython.Py_ssize_t,
) -> cython.void:
    """Unpack 1024 values of ``bits`` bits, of which ``width`` are stored, from ``at`` to ``to``.

    The caller has checked that the ``width`` lines and the room for the values exist.
    """
    # with constants, the compiler makes a separate loop for each case
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
                _unpack_block(data, starts[block], widths[block], bits, out, to)
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
        # bits that are shifted out of a value belong to the next line, not to the neighbouring value
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
    """Pack each 1024 values of ``bits`` bits into ``widths[i]`` bits per value.

    Parameters
    ----------
    words
        The bytes of 1024 values for each width; no value needs more bits.
    starts, out
        The first byte of each block in the output, which takes ``128 * widths[i]`` bytes, and the output.
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


def read_packed(
    page: Page, start: cython.Py_ssize_t, stop: cython.Py_ssize_t, out: cython.uchar[::1]
) -> cython.Py_ssize_t:
    """Read values of a bit-packed block in each chunk, or the values that they index."""
    broken: cython.Py_ssize_t
    scratch: cython.uchar[::1] = out
    if not _are_whole_blocks(page, start, stop):
        scratch = bytearray(_ROOM)
    with cython.nogil:
        broken = _read_packed(page, start, stop, out, scratch)
    return broken


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _are_whole_blocks(page: Page, start: cython.Py_ssize_t, stop: cython.Py_ssize_t) -> cython.bint:
    """Return whether values are whole blocks, which are unpacked directly into the output."""
    chunk: cython.Py_ssize_t = chunk_of(page, start)
    if page.table_size >= 0 or page.items[chunk] != start:
        return False
    while start < stop:
        if page.items[chunk + 1] - start != 1024:
            return False
        start += 1024
        chunk += 1
    return start == stop


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _read_packed(
    page: Page,
    start: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    out: cython.uchar[::1],
    scratch: cython.uchar[::1],
) -> cython.Py_ssize_t:
    width: cython.Py_ssize_t = page.width
    chunk: cython.Py_ssize_t = chunk_of(page, start)
    first: cython.Py_ssize_t
    after: cython.Py_ssize_t
    count: cython.Py_ssize_t
    at: cython.Py_ssize_t
    packed: cython.Py_ssize_t
    begin: cython.Py_ssize_t = 0
    end: cython.Py_ssize_t = 0
    num_indices: cython.Py_ssize_t
    beyond: cython.Py_ssize_t
    to: cython.Py_ssize_t = 0
    while start < stop:
        first = page.items[chunk]
        after = page.items[chunk + 1]
        at = value_start(page, chunk)
        packed = packed_width(page, at, value_size(page, chunk))
        if packed < 0 or after - first > 1024:
            return chunk
        at += width
        count = min(stop, after) - start
        if page.table_size >= 0:
            _unpack_block(page.data, at, packed, 8 * width, scratch, end)
            if end == 0:
                begin = (start - first) * width
            end += (start - first + count) * width
            # as many indices as there is room for are looked up together
            if start + count == stop or end + 1024 * width > _ROOM:
                num_indices = (end - begin) // width
                beyond = look_up_words(
                    scratch, begin, num_indices, width, page.table, page.table_size, page.out_width, out, to
                )
                if beyond != -1:
                    return beyond
                to += num_indices * page.out_width
                end = 0
        elif count == 1024:
            _unpack_block(page.data, at, packed, 8 * width, out, to)
            to += count * width
        else:
            _unpack_block(page.data, at, packed, 8 * width, scratch, 0)
            copy_bytes(out, to, scratch, (start - first) * width, count * width)
            to += count * width
        start += count
        chunk += 1
    return -1


def read_valid(
    page: Page,
    start: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    header: cython.Py_ssize_t,
    out: cython.uchar[::1],
) -> cython.Py_ssize_t:
    """Write 1 for values of definition level 0, and 0 for level 1. Format: docs/format/mini_block.md.

    There is one level for each value, bit-packed out of line to ``width`` bits (at most 16). ``header`` bytes
    precede them in each chunk. If a level is above 1, returns -2 minus the highest level.
    """
    broken: cython.Py_ssize_t
    scratch: cython.uchar[::1] = bytearray(2048)
    with cython.nogil:
        broken = _read_valid(page, start, stop, header, out, scratch)
    return broken


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _read_valid(
    page: Page,
    start: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    header: cython.Py_ssize_t,
    out: cython.uchar[::1],
    scratch: cython.uchar[::1],
) -> cython.Py_ssize_t:
    block_bytes: cython.Py_ssize_t = 128 * page.width
    chunk: cython.Py_ssize_t = chunk_of(page, start)
    first: cython.Py_ssize_t
    num_levels: cython.Py_ssize_t
    size: cython.Py_ssize_t
    at: cython.Py_ssize_t
    num_blocks: cython.Py_ssize_t
    tail: cython.Py_ssize_t
    is_stored: cython.bint
    stop_here: cython.Py_ssize_t
    block: cython.Py_ssize_t
    index: cython.Py_ssize_t
    count: cython.Py_ssize_t
    highest: cython.Py_ssize_t = 0
    level: cython.Py_ssize_t
    to: cython.Py_ssize_t = 0
    while start < stop:
        first = page.items[chunk]
        at = page.positions[chunk]
        if at + header > page.positions[chunk + 1]:
            return chunk
        num_levels = load_16(page.data, at)
        size = load_16(page.data, at + 2)
        at += header
        if num_levels != page.items[chunk + 1] - first or at + size > page.positions[chunk + 1]:
            return chunk
        num_blocks = num_levels // 1024
        tail = num_levels % 1024
        # levels after the last whole block are packed too or stored plainly, as the size shows
        is_stored = tail > 0 and size // 2 * 2 == num_blocks * block_bytes + tail * 2
        if not is_stored and (num_blocks + (tail > 0)) * block_bytes > size:
            return chunk
        stop_here = min(stop, page.items[chunk + 1])
        while start < stop_here:
            block = (start - first) // 1024
            index = (start - first) % 1024
            count = min(1024 - index, stop_here - start)
            if block < num_blocks or not is_stored:
                _unpack_block(page.data, at + block * block_bytes, page.width, 16, scratch, 0)
                level = _write_valid(scratch, 2 * index, count, out, to)
            else:
                level = _write_valid(page.data, at + block * block_bytes + 2 * index, count, out, to)
            highest = max(highest, level)
            to += count
            start += count
        chunk += 1
    return -1 if highest <= 1 else -2 - highest


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _write_valid(
    levels: cython.const[cython.uchar][::1],
    at: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    out: cython.uchar[::1],
    to: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Write which 16-bit levels are 0, and return the highest level."""
    i: cython.Py_ssize_t
    level: cython.ushort
    highest: cython.ushort = 0
    for i in range(count):
        level = load_16(levels, at + 2 * i)
        highest = level if level > highest else highest
    for i in range(count):
        out[to + i] = load_16(levels, at + 2 * i) == 0
    return highest


if not cython.compiled:
    run_uncompiled(globals())
