"""Find the buffers of mini-block chunks. Spec: file format 2.x, 4.4, 5.1."""

from lance_df.encodings.kernels.jit import kernel


@kernel
def chunk_buffers(data, positions, first, count, wide, starts, sizes):  # type: ignore[no-untyped-def]
    """Find the value buffers of chunks without levels; return the first chunk they do not fit into, or -1.

    Parameters
    ----------
    data
        The chunks of a page.
    positions
        Where each chunk starts, multiples of 8, and where the last one ends; the caller has checked that
        they ascend and lie within.
    first, count
        Which chunks.
    wide
        Whether sizes in headers have 32 bits, not 16.
    starts, sizes
        Receive a row for each buffer: where it starts in ``data``, a multiple of 8, and its bytes.
    """
    num_buffers = len(starts)
    size_bytes = 4 if wide else 2
    header = (2 + size_bytes * num_buffers + 7) & ~7
    for chunk in range(count):
        start = positions[first + chunk]
        stop = positions[first + chunk + 1]
        at = start + header
        if at > stop:
            return chunk
        for number in range(num_buffers):
            word = start + 2 + size_bytes * number
            size = int(data[word]) | int(data[word + 1]) << 8
            if wide:
                size |= int(data[word + 2]) << 16 | int(data[word + 3]) << 24
            if size > stop - at:
                return chunk
            starts[number, chunk] = at
            sizes[number, chunk] = size
            at += (size + 7) & ~7
    return -1
