"""Read which values of pages in memory are null; see `page_rows`. Spec: 4.3, 4.7.4."""

import numpy as np

from lance_df.encodings.kernels.bitpacking import unpack_block
from lance_df.encodings.kernels.jit import kernel, load_item, room_of_8_kib, store_item
from lance_df.encodings.kernels.page_map import DATA, ITEMS, NUM_CHUNKS, POSITIONS, WIDTH
from lance_df.encodings.kernels.page_rows import chunk_of, entry

_U = np.uintp
_INT = np.int64(0)
_LEVEL = np.uint16(0)
_BLOCK = 1024
_LEVEL_BYTES = 2
_BLOCK_BYTES_PER_BIT = 128


@kernel
def read_valid(page, start, stop, header, out):  # type: ignore[no-untyped-def]
    """Write 1 for values of definition level 0, 0 for those of level 1; no level may be higher.

    The levels are bit-packed out of line to ``WIDTH`` bits, as many as values. ``header`` bytes come before
    them in each chunk.
    """
    source, positions, items = _U(entry(page, DATA)), _U(entry(page, POSITIONS)), _U(entry(page, ITEMS))
    bits = entry(page, WIDTH)
    block_bytes = bits * _BLOCK_BYTES_PER_BIT
    target, scratch = _U(out), room_of_8_kib()
    highest = _LEVEL
    chunk = _U(chunk_of(items, entry(page, NUM_CHUNKS), start))
    while start < stop:
        first, after = load_item(items, chunk, _INT), load_item(items, chunk + _U(1), _INT)
        begin, end = load_item(positions, chunk, _INT), load_item(positions, chunk + _U(1), _INT)
        words = source + _U(begin)
        num_levels, size = (
            np.int64(load_item(words, _U(0), _LEVEL)),
            np.int64(load_item(words, _U(1), _LEVEL)),
        )
        if num_levels != after - first or begin + header + size > end:
            return np.int64(chunk)
        num_blocks, tail = num_levels // _BLOCK, num_levels % _BLOCK
        # levels after the last whole block are packed too, or stored as they are, which the size tells
        is_stored = (
            tail > 0 and size // _LEVEL_BYTES * _LEVEL_BYTES == num_blocks * block_bytes + tail * _LEVEL_BYTES
        )
        if not is_stored and (num_blocks + (tail > 0)) * block_bytes > size:
            return np.int64(chunk)
        words += _U(header)
        stop_here = min(stop, after)
        while start < stop_here:
            block = (start - first) // _BLOCK
            place = _U((start - first) % _BLOCK)
            count = _U(min(_BLOCK - np.int64(place), stop_here - start))
            levels = words + _U(block * block_bytes)
            if block < num_blocks or not is_stored:
                unpack_block(levels, bits, scratch, 16, _LEVEL)
                levels = scratch
            for i in range(count):
                highest = max(highest, load_item(levels, place + i, _LEVEL))
            for i in range(count):
                store_item(target, i, np.uint8(load_item(levels, place + i, _LEVEL) == 0))
            target += count
            start += np.int64(count)
        chunk += _U(1)
    return np.int64(-1) if highest <= 1 else -2 - np.int64(highest)
