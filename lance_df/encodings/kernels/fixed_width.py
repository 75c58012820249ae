"""Expand runs, and join split bytes. Format: docs/format/rle.md."""

from __future__ import annotations

import cython

if cython.compiled:
    from cython.cimports.lance_df.encodings.kernels.memory import load_word, store_64, store_word
else:
    from lance_df.encodings.kernels.memory import load_word, run_uncompiled, store_64, store_word


def expand_runs(
    values: cython.const[cython.uchar][::1],
    value_starts: cython.const[cython.longlong][::1],
    width: cython.Py_ssize_t,
    lengths: cython.const[cython.uchar][::1],
    length_starts: cython.const[cython.longlong][::1],
    num_runs: cython.const[cython.longlong][::1],
    counts: cython.const[cython.longlong][::1],
    out: cython.uchar[::1],
) -> cython.Py_ssize_t:
    """Write ``counts[i]`` values for each chunk i; return the first chunk whose runs are too short, or -1.

    Runs beyond the count are cut off.

    Parameters
    ----------
    values, value_starts, width
        The bytes of values, the start of those of each chunk, and the bytes of each value: 1, 2, 4 or 8.
    lengths, length_starts, num_runs
        The length of each run, the start of those of each chunk, and their number. The caller has checked
        that this many values and lengths exist.
    counts, out
        The number of values of each chunk, and the output, which the caller has checked to be large enough.
    """
    broken: cython.Py_ssize_t
    with cython.nogil:
        if width == 1:
            broken = _expand_runs(values, value_starts, 1, lengths, length_starts, num_runs, counts, out)
        elif width == 2:
            broken = _expand_runs(values, value_starts, 2, lengths, length_starts, num_runs, counts, out)
        elif width == 4:
            broken = _expand_runs(values, value_starts, 4, lengths, length_starts, num_runs, counts, out)
        else:
            broken = _expand_runs(values, value_starts, 8, lengths, length_starts, num_runs, counts, out)
    return broken


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
@cython.overflowcheck(False)
def _expand_runs(
    values: cython.const[cython.uchar][::1],
    value_starts: cython.const[cython.longlong][::1],
    width: cython.Py_ssize_t,
    lengths: cython.const[cython.uchar][::1],
    length_starts: cython.const[cython.longlong][::1],
    num_runs: cython.const[cython.longlong][::1],
    counts: cython.const[cython.longlong][::1],
    out: cython.uchar[::1],
) -> cython.Py_ssize_t:
    chunk: cython.Py_ssize_t
    _: cython.Py_ssize_t
    value: cython.Py_ssize_t
    length: cython.Py_ssize_t
    k: cython.Py_ssize_t
    stop: cython.Py_ssize_t
    end: cython.Py_ssize_t
    to: cython.Py_ssize_t = 0
    last_store: cython.Py_ssize_t = out.shape[0] // width - 8
    word: cython.ulonglong
    # multiplied by a value, this fills a word
    repeat: cython.ulonglong = 0xFFFFFFFFFFFFFFFF
    repeat = repeat // (repeat >> (64 - 8 * width))
    for chunk in range(counts.shape[0]):
        stop = to + counts[chunk]
        value = value_starts[chunk]
        length = length_starts[chunk]
        for _ in range(num_runs[chunk]):
            if to >= stop:
                break
            word = load_word(values, value, width) * repeat
            end = min(stop, to + lengths[length])
            # a fixed number of stores needs no branches; the next run overwrites surplus ones
            while to <= last_store:
                for k in range(width):
                    store_64(out, to * width + 8 * k, word)
                if end - to <= 8:
                    to = end
                    break
                to += 8
            while to < end:
                store_word(out, to * width, load_word(values, value, width), width)
                to += 1
            value += width
            length += 1
        if to < stop:
            return chunk
    return -1


def split_byte_streams(
    data: cython.const[cython.uchar][::1],
    starts: cython.const[cython.longlong][::1],
    counts: cython.const[cython.longlong][::1],
    width: cython.Py_ssize_t,
    out: cython.uchar[::1],
) -> None:
    """Write the values of all chunks to ``out``, ``width`` bytes each.

    Chunk i has ``width`` planes of ``counts[i]`` bytes from ``starts[i]`` on. The caller has checked this,
    and that ``out`` has room for them.
    """
    chunk: cython.Py_ssize_t
    to: cython.Py_ssize_t = 0
    with cython.nogil:
        for chunk in range(starts.shape[0]):
            if width == 2:
                _split(data, starts[chunk], counts[chunk], 2, out, to)
            elif width == 4:
                _split(data, starts[chunk], counts[chunk], 4, out, to)
            elif width == 8:
                _split(data, starts[chunk], counts[chunk], 8, out, to)
            else:
                _split(data, starts[chunk], counts[chunk], width, out, to)
            to += counts[chunk] * width


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _split(
    data: cython.const[cython.uchar][::1],
    at: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    width: cython.Py_ssize_t,
    out: cython.uchar[::1],
    to: cython.Py_ssize_t,
) -> cython.void:
    i: cython.Py_ssize_t
    plane: cython.Py_ssize_t
    word: cython.ulonglong
    if width == 2 or width == 4 or width == 8:
        for i in range(count):
            word = 0
            for plane in range(width):
                word |= cython.cast(cython.ulonglong, data[at + plane * count + i]) << (8 * plane)
            store_word(out, to + i * width, word, width)
        return
    for plane in range(width):
        for i in range(count):
            out[to + i * width + plane] = data[at + plane * count + i]


if not cython.compiled:
    run_uncompiled(globals())
