"""General-purpose compression around another encoding. Format: docs/format/general.md."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_df.encodings.buffers import Bytes, Chunked, align8, allocate, as_bytes
from lance_df.encodings.general import codecs as compression
from lance_df.errors import CorruptDataError

if TYPE_CHECKING:
    from lance_df.format.encodings_v2_1 import General, Scheme


def decompress(data: Bytes, scheme: Scheme) -> Bytes:
    """Decompress one framed buffer. Raises `CorruptDataError` as `compression.decompress` does."""
    # what a scheme can reach at best is checked there; nothing here knows a tighter bound
    plain = compression.decompress(scheme, pa.py_buffer(data), max_bytes=sys.maxsize)
    return as_bytes(plain)


def decompress_chunks(encoding: General, buffers: tuple[Chunked, ...]) -> tuple[Chunked, ...]:
    """Decompress the first buffer of every chunk; the others are stored as they are."""
    if not buffers:
        raise CorruptDataError("general compression without a buffer")
    first, *rest = buffers
    parts = [decompress(first.chunk(i), encoding.scheme) for i in range(len(first))]
    sizes = np.array([len(part) for part in parts], np.int64)
    stops = np.cumsum(align8(sizes))
    starts = stops - align8(sizes)
    _, out = allocate(int(stops[-1]) if len(stops) else 0)
    for start, part in zip(starts.tolist(), parts, strict=True):
        out[start : start + len(part)] = part
    out.flags.writeable = False
    return Chunked(out, starts, sizes), *rest
