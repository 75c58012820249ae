"""Put split bytes together. Spec: file format 2.x, 4.7.9."""

from lance_df.encodings.kernels.jit import kernel


@kernel
def split_byte_streams(data, starts, counts, width, out):  # type: ignore[no-untyped-def]
    """Write the values of all chunks to ``out``, ``width`` bytes each.

    Chunk i holds ``width`` planes of ``counts[i]`` bytes from ``starts[i]`` on; the caller has checked that.
    """
    position = 0
    for chunk in range(len(starts)):
        count = counts[chunk]
        for plane in range(width):
            source = starts[chunk] + plane * count
            target = position + plane
            for i in range(count):
                out[target + i * width] = data[source + i]
        position += count * width
