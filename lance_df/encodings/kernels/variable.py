"""Values of variable width: join the chunks of a page, or values that lie scattered. Spec: 4.7.7."""

import numpy as np

from lance_df.encodings.kernels.jit import copy_bytes, kernel


@kernel
def gather_variable(data, words, starts, sizes, counts, out_offsets, out):  # type: ignore[no-untyped-def]
    """Join chunks of (offsets, bytes); return the first chunk whose offsets are wrong, or -1.

    Parameters
    ----------
    data, words
        The same memory as bytes and as signed offsets.
    starts, sizes
        First byte (a multiple of the offset's width) and bytes of each chunk. The caller has checked that
        chunk i has room for ``counts[i] + 1`` offsets.
    out_offsets, out
        Room for all values and one offset more, and for the bytes between first and last offsets.
    """
    width = words.itemsize
    target = out.ctypes.data
    source = data.ctypes.data
    value = 0
    position = 0
    out_offsets[0] = 0
    for chunk in range(len(counts)):
        base = starts[chunk] // width
        count = counts[chunk]
        first = int(words[base])
        last = int(words[base + count])
        if first < 0 or last < first or last > sizes[chunk] or position + last - first > len(out):
            return chunk
        shift = position - first
        # loops over neighbours of one length and without a way out take many at a time
        lower, upper = words[base : base + count], words[base + 1 : base + count + 1]
        ends = out_offsets[value + 1 : value + count + 1]
        is_broken = 0
        for i in range(np.uintp(count)):
            is_broken |= upper[i] < lower[i]
        for i in range(np.uintp(count)):
            ends[i] = upper[i] + shift
        if is_broken:
            return chunk
        copy_bytes(target + position, source + starts[chunk] + first, last - first)
        value += count
        position += last - first
    return -1


@kernel
def join_variable(data, starts, lengths, out_offsets, out):  # type: ignore[no-untyped-def]
    """Join values that lie anywhere in ``data``. The caller has checked spans and sizes."""
    source = data.ctypes.data
    target = out.ctypes.data
    position = 0
    out_offsets[0] = 0
    for i in range(len(starts)):
        copy_bytes(target + position, source + starts[i], lengths[i])
        position += lengths[i]
        out_offsets[i + 1] = position
