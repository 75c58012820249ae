"""Pick single rows out of many pages in memory, without decoding the others. Spec: 4.4, 4.7."""

import numpy as np

from lance_df.encodings.kernels.chunks import only_buffer
from lance_df.encodings.kernels.jit import copy_bytes, kernel, load_item, store_item
from lance_df.encodings.kernels.page_map import (
    DATA,
    ITEMS,
    LEVELS,
    NUM_CHUNKS,
    POSITIONS,
    TABLE_SIZE,
    WIDE,
    WIDTH,
)
from lance_df.encodings.kernels.page_rows import chunk_of, entry
from lance_df.encodings.kernels.page_runs import run_buffers
from lance_df.encodings.kernels.pick_map import (
    BASE,
    CLOSED,
    DONE,
    FLAT,
    IS_BEYOND,
    IS_BROKEN,
    IS_CLOSED,
    KIND,
    MAP,
    PACKED,
    PAGE,
    ROW,
    WHOLE,
    WRONG,
)

_U = np.uintp
_INT = np.int64(0)
_BYTE, _HALF, _WORD, _LONG = np.uint8(0), np.uint16(0), np.uint32(0), np.uint64(0)
_BLOCK = 1024
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_BLOCK_BYTES_PER_BIT = 128
# where the eighths of a block of 1024 values lie, which is its own inverse
_EIGHTHS = np.array([0, 4, 2, 6, 1, 5, 3, 7])


@kernel
def pick_rows(pages, starts, rows, places, begin, out, state):  # type: ignore[no-untyped-def]
    """Write values of rows, or where pages have dictionaries, indices of 32 bits into all of these.

    Parameters
    ----------
    pages
        What is known of each page, of one width of values.
    starts
        The first row of each page, and what follows the last.
    rows
        Ascending, all of them in one of the pages.
    places
        Where the value of each belongs.
    begin
        The first row that is wanted.
    out
        Address of room for all of them.
    state
        Receives where it stopped.
    """
    num_rows, num_pages = len(rows), len(pages)
    page = 0
    while begin < num_rows:
        while page + 1 < num_pages and rows[begin] >= starts[page + 1]:
            page += 1
        stop = begin + 1
        while stop < num_rows and rows[stop] < starts[page + 1]:
            stop += 1
        state[ROW], state[PAGE] = begin, page
        kind, base, known = pages[page, KIND], pages[page, BASE], pages[page, MAP]
        if kind == CLOSED:
            return IS_CLOSED
        if kind == WHOLE:
            found = _pick_whole(known, base, starts[page], rows, places, begin, stop, out, state)
        elif kind == FLAT:
            found = _pick_flat(known, base, starts[page], rows, places, begin, stop, out, state)
        elif kind == PACKED:
            found = _pick_packed(known, base, starts[page], rows, places, begin, stop, out, state)
        else:
            found = _pick_runs(known, base, starts[page], rows, places, begin, stop, out, state)
        if found != DONE:
            return found
        begin = stop
    return DONE


@kernel
def _load_word(address, width):  # type: ignore[no-untyped-def]
    if width == 1:
        return np.uint64(load_item(address, _U(0), _BYTE))
    if width == 2:
        return np.uint64(load_item(address, _U(0), _HALF))
    if width == 4:
        return np.uint64(load_item(address, _U(0), _WORD))
    return load_item(address, _U(0), _LONG)


@kernel
def _store_word(out, place, word, width):  # type: ignore[no-untyped-def]
    if width == 1:
        store_item(out, place, np.uint8(word))
    elif width == 2:
        store_item(out, place, np.uint16(word))
    elif width == 4:
        store_item(out, place, np.uint32(word))
    else:
        store_item(out, place, word)


@kernel
def _put(source, width, base, size, out, place, state):  # type: ignore[no-untyped-def]
    """Copy the value at an address, or if it is an index, what it is among all; return whether that is."""
    if size < 0:
        copy_bytes(out + _U(place * width), source, width)
        return True
    return _put_index(_load_word(source, width), base, size, out, place, state)


@kernel
def _put_index(index, base, size, out, place, state):  # type: ignore[no-untyped-def]
    if index >= np.uint64(size):
        state[WRONG] = np.int64(min(index, np.uint64(1 << 62)))
        return False
    store_item(out, _U(place), np.uint32(base + np.int64(index)))
    return True


@kernel
def _pick_whole(page, base, first, rows, places, begin, stop, out, state):  # type: ignore[no-untyped-def]
    source, width, size = _U(entry(page, DATA)), entry(page, WIDTH), entry(page, TABLE_SIZE)
    for i in range(begin, stop):
        value = source + _U((rows[i] - first) * width)
        if not _put(value, width, base, size, _U(out), places[i], state):
            return IS_BEYOND
    return DONE


@kernel
def _pick_flat(page, base, first, rows, places, begin, stop, out, state):  # type: ignore[no-untyped-def]
    source, positions, items = _U(entry(page, DATA)), _U(entry(page, POSITIONS)), _U(entry(page, ITEMS))
    levels, wide, width = entry(page, LEVELS), entry(page, WIDE), entry(page, WIDTH)
    size, num_chunks = entry(page, TABLE_SIZE), entry(page, NUM_CHUNKS)
    chunk, low, after, at = np.int64(-1), np.int64(0), np.int64(-1), np.int64(0)
    for i in range(begin, stop):
        row = rows[i] - first
        if row >= after:
            chunk = _next_chunk(items, num_chunks, chunk, row)
            low, after = load_item(items, _U(chunk), _INT), load_item(items, _U(chunk + 1), _INT)
            start, end = load_item(positions, _U(chunk), _INT), load_item(positions, _U(chunk + 1), _INT)
            at, num_bytes = only_buffer(source, start, end, levels, wide)
            if (after - low) * width > num_bytes or row < low or row >= after:
                state[WRONG] = chunk
                return IS_BROKEN
        value = source + _U(at + (row - low) * width)
        if not _put(value, width, base, size, _U(out), places[i], state):
            return IS_BEYOND
    return DONE


@kernel
def _next_chunk(items, num_chunks, chunk, row):  # type: ignore[no-untyped-def]
    """Return the chunk of a row beyond a chunk: one of the next, mostly."""
    if chunk < 0:
        return chunk_of(items, num_chunks, row)
    while chunk + 1 < num_chunks and load_item(items, _U(chunk + 1), _INT) <= row:
        chunk += 1
    return chunk


@kernel
def _pick_packed(page, base, first, rows, places, begin, stop, out, state):  # type: ignore[no-untyped-def]
    source, positions, items = _U(entry(page, DATA)), _U(entry(page, POSITIONS)), _U(entry(page, ITEMS))
    levels, wide, width = entry(page, LEVELS), entry(page, WIDE), entry(page, WIDTH)
    size, num_chunks = entry(page, TABLE_SIZE), entry(page, NUM_CHUNKS)
    word_bits = 8 * width
    lanes = _BLOCK // word_bits
    chunk, low, after, bits = np.int64(-1), np.int64(0), np.int64(-1), np.int64(0)
    block, mask = source, np.uint64(0)
    for i in range(begin, stop):
        row = rows[i] - first
        if row >= after:
            chunk = _next_chunk(items, num_chunks, chunk, row)
            low, after = load_item(items, _U(chunk), _INT), load_item(items, _U(chunk + 1), _INT)
            start, end = load_item(positions, _U(chunk), _INT), load_item(positions, _U(chunk + 1), _INT)
            at, num_bytes = only_buffer(source, start, end, levels, wide)
            state[WRONG] = chunk
            if num_bytes < width or after - low > _BLOCK or row < low or row >= after:
                return IS_BROKEN
            block = source + _U(at)
            told = _load_word(block, width)
            if told > np.uint64(word_bits) or width + np.int64(told) * _BLOCK_BYTES_PER_BIT > num_bytes:
                return IS_BROKEN
            bits = np.int64(told)
            block += _U(width)
            mask = _ALL >> np.uint64(64 - bits) if bits else np.uint64(0)
        place = row - low
        # a value is in one lane of one packed row of words; where, the unpacking of whole blocks says too
        bit = (_EIGHTHS[place % 128 // lanes * lanes // 16] * 8 + place // 128) * bits
        shift = bit % word_bits
        word = block + _U((bit // word_bits * lanes + place % lanes) * width)
        value = np.uint64(0)
        if bits:
            value = _load_word(word, width) >> np.uint64(shift)
        if shift + bits > word_bits:
            value |= _load_word(word + _U(lanes * width), width) << np.uint64(word_bits - shift)
        value &= mask
        if size < 0:
            _store_word(_U(out), _U(places[i]), value, width)
        elif not _put_index(value, base, size, _U(out), places[i], state):
            return IS_BEYOND
    return DONE


@kernel
def _pick_runs(page, base, first, rows, places, begin, stop, out, state):  # type: ignore[no-untyped-def]
    source, positions, items = _U(entry(page, DATA)), _U(entry(page, POSITIONS)), _U(entry(page, ITEMS))
    levels, wide, width = entry(page, LEVELS), entry(page, WIDE), entry(page, WIDTH)
    size, num_chunks = entry(page, TABLE_SIZE), entry(page, NUM_CHUNKS)
    chunk, low, after = np.int64(-1), np.int64(0), np.int64(-1)
    run, num_runs, run_stop = np.int64(-1), np.int64(0), np.int64(0)
    value = length = source
    for i in range(begin, stop):
        row = rows[i] - first
        if row >= after:
            chunk = _next_chunk(items, num_chunks, chunk, row)
            low, after = load_item(items, _U(chunk), _INT), load_item(items, _U(chunk + 1), _INT)
            start, end = load_item(positions, _U(chunk), _INT), load_item(positions, _U(chunk + 1), _INT)
            values, lengths, num_bytes, num_runs = run_buffers(source, start, end, levels, wide)
            if num_runs < 0 or row < low or row >= after:
                state[WRONG] = chunk
                return IS_BROKEN
            value, length = source + _U(values), source + _U(lengths)
            num_runs = min(num_runs, num_bytes // width)
            run, run_stop = np.int64(-1), np.int64(0)
        while run_stop <= row - low:
            run += 1
            if run == num_runs:
                state[WRONG] = chunk
                return IS_BROKEN
            run_stop += np.int64(load_item(length, _U(run), _BYTE))
        if not _put(value + _U(run * width), width, base, size, _U(out), places[i], state):
            return IS_BEYOND
    return DONE
