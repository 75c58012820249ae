"""Decode general-purpose compression around another encoding. Format: docs/format/general.md."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_df.encodings.buffers import Bytes, Chunked, Counts, align8, allocate, as_bytes
from lance_df.encodings.general import codecs as compression
from lance_df.errors import CorruptDataError

if TYPE_CHECKING:
    from lance_df.format.encodings_v2_1 import General, Scheme


# The most bytes that the chunks of a page together may hold if nothing else bounds it, unless they have more
# compressed: pages of pylance have 32 MiB, and a chunk holds a few KiB or two values.
_MAX_PLAIN_BYTES = 256 * 1024 * 1024
_MAX_PLAIN_RATIO = 255
# of bit-packed values that fill a block of 1024, and of headers of blocks
_SLACK_BYTES = 16 * 1024


def decompress(data: Bytes, scheme: Scheme, *, max_bytes: int | None = None) -> Bytes:
    """Decompress one framed buffer. Raises as `compression.decompress` does.

    Parameters
    ----------
    max_bytes
        The maximum size of the result. By default the best ratio that the scheme can reach.
    """
    limit = sys.maxsize if max_bytes is None else max_bytes
    return as_bytes(compression.decompress(scheme, pa.py_buffer(data), max_bytes=limit))


def most_plain_bytes(compressed_bytes: int) -> int:
    """Return the most bytes that buffers can hold if neither number nor width of values bounds it."""
    return max(_MAX_PLAIN_BYTES, _MAX_PLAIN_RATIO * compressed_bytes)


def decompress_chunks(
    encoding: General, buffers: tuple[Chunked, ...], counts: Counts, *, bits_per_value: int | None
) -> tuple[Chunked, ...]:
    """Decompress the first buffer of every chunk; the other buffers are not compressed.

    Parameters
    ----------
    counts
        The number of values of each chunk.
    bits_per_value
        The width of a value; None for values of variable width.

    Raises
    ------
    CorruptDataError
        There is no buffer, or a buffer cannot be decompressed or claims to hold more than the values need.
    """
    if not buffers:
        raise CorruptDataError("compressed values have no buffer, expected at least 1")
    first, *rest = buffers
    parts = []
    left = most_plain_bytes(int(first.sizes.sum()))
    for i, count in enumerate(counts.tolist()):
        # one more byte for each value: the lengths of runs may be stored with them
        limit = left if bits_per_value is None else count * (bits_per_value + 8) // 8 + _SLACK_BYTES
        parts.append(decompress(first.chunk(i), encoding.scheme, max_bytes=limit))
        left -= len(parts[-1])
    sizes = np.array([len(part) for part in parts], np.int64)
    stops = np.cumsum(align8(sizes))
    starts = stops - align8(sizes)
    _, out = allocate(int(stops[-1]) if len(stops) else 0)
    for start, part in zip(starts.tolist(), parts, strict=True):
        out[start : start + len(part)] = part
    out.flags.writeable = False
    return Chunked(out, starts, sizes), *rest
