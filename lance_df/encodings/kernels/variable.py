"""Values of variable width: join the chunks of a page, or values that lie scattered. Spec: 4.7.7."""

from lance_df.encodings.kernels.jit import copy_bytes, kernel


@kernel
def gather_variable(data, words, starts, sizes, counts, out_offsets, out):  # type: ignore[no-untyped-def]
    """Join chunks of (offsets, bytes); return the first chunk whose offsets are wrong, or -1.

    Parameters
    ----------
    data, words
        The same memory as bytes and as unsigned offsets.
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
        previous = first
        for i in range(1, count + 1):
            offset = int(words[base + i])
            if offset < previous or offset > last:
                return chunk
            out_offsets[value + i] = offset + shift
            previous = offset
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
