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


@kernel
def rebase_ends(ends, first, limit, adjustment, offsets):  # type: ignore[no-untyped-def]
    """Make offsets of stored ends of values; return -1, the first broken value, or -2 where some are null.

    Parameters
    ----------
    ends
        Unsigned; those of nulls are raised by ``adjustment``.
    first
        Where the first value starts; the offsets count from there.
    limit
        No value may end after it.
    offsets
        Receives 0 and the end of each value. The caller checks that the last of them fits.
    """
    count = np.uintp(len(ends))
    offsets[0] = 0
    highest = np.uint64(0)
    for i in range(count):
        highest = max(highest, ends[i])
    if highest >= adjustment:
        return -2
    if highest > limit:
        for i in range(count):
            if ends[i] > limit:
                return np.int64(i)
    is_broken = 0
    if count and ends[0] < first:
        is_broken = 1
    lower, upper = ends[: max(len(ends) - 1, 0)], ends[1:]
    for i in range(np.uintp(len(lower))):
        is_broken |= upper[i] < lower[i]
    if is_broken:
        previous = first
        for i in range(count):
            if ends[i] < previous:
                return np.int64(i)
            previous = ends[i]
    rebased = offsets[1:]
    for i in range(count):
        rebased[i] = ends[i] - first
    return -1
