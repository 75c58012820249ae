"""String views: two words each, which contain a short value or point to the shared bytes of a long one."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lance_df.encodings.gather import FEW
from lance_df.encodings.kernels import COMPILED
from lance_df.encodings.kernels.strings import string_views
from lance_df.errors import CorruptDataError

_VIEW_BYTES = 16


def as_views(strings: pa.Array) -> pa.Array:
    """Convert strings (of 32-bit offsets) to views, several times as fast as pyarrow's cast."""
    data, count = strings.buffers()[2], len(strings)
    if count < FEW or strings.offset or not data or not COMPILED:
        return strings.cast(pa.string_view())
    valid, offsets, _ = strings.buffers()
    buffer = pa.allocate_buffer(count * _VIEW_BYTES)
    out = np.frombuffer(buffer, np.uint8)
    if not string_views(np.frombuffer(offsets, np.uint8), np.frombuffer(data, np.uint8), out):
        raise CorruptDataError("the offsets of strings do not ascend or are out of range")
    return pa.Array.from_buffers(
        pa.string_view(), count, [valid, buffer, data], null_count=strings.null_count
    )
