"""Read ranges of rows of run-length encoded chunks of pages in memory; see `page_rows`. Spec: 4.7.9."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lance_df.encodings.kernels.jit import kernel, load_item, store_item
from lance_df.encodings.kernels.page_map import DATA, ITEMS, LEVELS, NUM_CHUNKS, POSITIONS, WIDE
from lance_df.encodings.kernels.page_rows import chunk_of, entry
from lance_df.encodings.kernels.vectors import store_repeated

if TYPE_CHECKING:
    from collections.abc import Callable

_U = np.uintp
_INT = np.int64(0)
_BYTE = np.uint8(0)
_HALF = np.uint16(0)
_AT_ONCE = 8


@kernel
def run_buffers(source, begin, end, levels, wide):  # type: ignore[no-untyped-def]
    """Return where values and lengths of runs start, and the bytes of both, -1 where they do not fit."""
    header = 16 if wide else 8
    if end - begin < header:
        return begin, begin, np.int64(0), np.int64(-1)
    words = source + _U(begin)
    values = begin + header
    if levels:
        values += (np.int64(load_item(words, _U(1), _HALF)) + 7) & ~7
    words += _U(2 + 2 * levels)
    size = np.int64(load_item(words, _U(0), _HALF))
    num_lengths = np.int64(load_item(words, _U(1), _HALF))
    if wide:
        size |= num_lengths << 16
        num_lengths = (
            np.int64(load_item(words, _U(2), _HALF)) | np.int64(load_item(words, _U(3), _HALF)) << 16
        )
    lengths = values + ((size + 7) & ~7)
    return values, lengths, size, num_lengths if num_lengths <= end - lengths else np.int64(-1)


def _run_reader(width: int, word_type: Callable[[Any], Any]) -> Callable[..., Any]:
    @kernel
    def read_runs(page, start, stop, out):  # type: ignore[no-untyped-def]
        source, positions, items = _U(entry(page, DATA)), _U(entry(page, POSITIONS)), _U(entry(page, ITEMS))
        levels, wide, like = entry(page, LEVELS), entry(page, WIDE), word_type(0)
        target = _U(out)
        chunk = _U(chunk_of(items, entry(page, NUM_CHUNKS), start))
        while start < stop:
            first, after = load_item(items, chunk, _INT), load_item(items, chunk + _U(1), _INT)
            begin, end = load_item(positions, chunk, _INT), load_item(positions, chunk + _U(1), _INT)
            values, lengths, size, num_runs = run_buffers(source, begin, end, levels, wide)
            value, length = source + _U(values), source + _U(lengths)
            num_runs = min(num_runs, size // width)
            skipped = start - first
            left = min(stop, after) - start
            run = _U(0)
            while np.int64(run) < num_runs and left > 0:
                count = np.int64(load_item(length, run, _BYTE))
                if skipped >= count:
                    skipped -= count
                    run += _U(1)
                    continue
                count -= skipped
                skipped = 0
                word = load_item(value, run, like)
                if count <= _AT_ONCE <= left:
                    # a fixed number of stores needs no branches; the next run overwrites what is too much
                    store_repeated(target, word)
                else:
                    count = min(count, left)
                    for i in range(_U(count)):
                        store_item(target, i, word)
                target += _U(count * width)
                left -= count
                run += _U(1)
            if left > 0:
                return np.int64(chunk)
            start = min(stop, after)
            chunk += _U(1)
        return np.int64(-1)

    return read_runs


read_runs_8 = _run_reader(1, np.uint8)
read_runs_16 = _run_reader(2, np.uint16)
read_runs_32 = _run_reader(4, np.uint32)
read_runs_64 = _run_reader(8, np.uint64)
