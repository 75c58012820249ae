"""Find the value buffers of mini-block chunks. Spec: 4.4, 5.1."""

import numpy as np

from lance_df.encodings.kernels.jit import kernel, load_8_bytes

_U = np.uintp


@kernel
def chunk_buffers(data, positions, items, chunks, levels, wide, starts, sizes):  # type: ignore[no-untyped-def]
    """Find the buffers of chunks; return the first chunk that they do not fit into, or -1.

    Parameters
    ----------
    data
        The chunks of a page.
    positions
        Where each of them starts, multiples of 8, and where the last one ends, which the caller has checked
        to ascend and to lie within.
    items
        The first value of each of them, and of what follows the last.
    chunks
        Which are meant.
    levels
        How many level buffers come before the values. Where there are some, values and levels are as many.
    wide
        Whether sizes of value buffers have 32 bits, not 16.
    starts, sizes
        Receive a row for each buffer: where it starts in ``data``, a multiple of 8, and its bytes.
    """
    num_buffers = len(starts)
    size_bytes = 4 if wide else 2
    header = (2 + 2 * levels + size_bytes * (num_buffers - levels) + 7) & ~7
    for i in range(len(chunks)):
        chunk = chunks[i]
        word = positions[chunk]
        stop = positions[chunk + 1]
        at = word + header
        if at > stop:
            return chunk
        slots = np.int64(data[word]) | np.int64(data[word + 1]) << 8
        if levels and slots != items[chunk + 1] - items[chunk]:
            return chunk
        word += 2
        for number in range(num_buffers):
            size = np.int64(data[word]) | np.int64(data[word + 1]) << 8
            word += 2
            if wide and number >= levels:
                size |= np.int64(data[word]) << 16 | np.int64(data[word + 1]) << 24
                word += 2
            if size > stop - at:
                return chunk
            starts[number, i] = at
            sizes[number, i] = size
            at += (size + 7) & ~7
    return -1


@kernel
def only_buffer(source, position, stop, levels, wide):  # type: ignore[no-untyped-def]
    """Return where the value buffer of a chunk that has one starts, and its bytes, -1 where it does not fit.

    Parameters
    ----------
    source
        Address of the chunks; the others are as :func:`chunk_buffers` has them.
    """
    header = load_8_bytes(source + _U(position))
    start = position + 8
    if levels:
        start += (np.int64(header >> np.uint64(16)) & 0xFFFF) + 7 & ~7
    header >>= np.uint64(16 + 16 * levels)
    size = np.int64(header) & (0xFFFFFFFF if wide else 0xFFFF)
    return start, size if size <= stop - start else np.int64(-1)
