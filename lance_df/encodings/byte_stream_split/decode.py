"""Decode byte stream split: the first bytes of all values of a chunk, then the second bytes, and so on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_df.encodings.buffers import allocate
from lance_df.encodings.flat.decode import checked_sizes
from lance_df.encodings.kernels import fixed_width

if TYPE_CHECKING:
    from lance_df.encodings.buffers import Bytes, Chunked, Counts


def decode_byte_streams(buffer: Chunked, counts: Counts, bits_per_value: int) -> Bytes:
    """Return ``counts[i]`` values of each chunk back to back."""
    checked_sizes(buffer, counts, bits_per_value, "split byte streams")
    _, out = allocate(int(counts.sum()) * bits_per_value // 8)
    fixed_width.split_byte_streams(buffer.data, buffer.starts, counts, bits_per_value // 8, out)
    return out
