"""Decode flat values of chunks into plain bytes; bits restart at a byte boundary in each chunk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lance_df.errors import CorruptDataError

if TYPE_CHECKING:
    from lance_df.encodings.buffers import Bytes, Chunked, Counts


def checked_sizes(buffer: Chunked, counts: Counts, bits_per_value: int, what: str) -> Counts:
    """Check that each chunk has its ``counts`` values; return the number of bytes that they take."""
    if len(counts) and int(counts.max()) > (1 << 62) // max(bits_per_value, 1):
        raise CorruptDataError(f"{what}: the size of a chunk is out of range: {int(counts.max())} values")
    sizes = (counts * bits_per_value + 7) // 8
    buffer.require(sizes, what)
    return sizes


def decode_bits(buffer: Chunked, counts: Counts) -> Bytes:
    """Return ``counts[i]`` bits of each chunk as one bitmap."""
    sizes = checked_sizes(buffer, counts, 1, "bits")
    if not (counts[:-1] % 8).any():
        return buffer.join(sizes)
    bits = [
        np.unpackbits(buffer.chunk(i), count=count, bitorder="little")
        for i, count in enumerate(counts.tolist())
    ]
    return np.packbits(np.concatenate(bits), bitorder="little")
