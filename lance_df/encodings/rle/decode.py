"""Decode run-length encoding: ``run values`` and ``u8 run lengths`` in two buffers.

In a block both are in one buffer: ``u64 size of the values | values | lengths``. Format: docs/format/rle.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lance_df.encodings.buffers import Bytes, Chunked, Counts, allocate
from lance_df.encodings.kernels import fixed_width
from lance_df.errors import CorruptDataError, UnsupportedFeatureError
from lance_df.format.encodings_v2_1 import Flat

if TYPE_CHECKING:
    from lance_df.format.encodings_v2_1 import Rle

_MAX_RUN = 255


def decode_rle(encoding: Rle, values: Chunked, lengths: Chunked, counts: Counts) -> Bytes:
    """Expand the runs of each chunk to ``counts[i]`` values."""
    width = _value_bytes(encoding)
    num_runs = np.minimum(values.sizes // width, lengths.sizes)
    if (counts > num_runs * _MAX_RUN).any():
        raise CorruptDataError("the runs expand to fewer values than expected")
    _, out = allocate(int(counts.sum()) * width)
    broken = fixed_width.expand_runs(
        values.data, values.starts, width, lengths.data, lengths.starts, num_runs, counts, out
    )
    if broken >= 0:
        raise CorruptDataError(
            f"the runs of chunk {broken} expand to fewer than the expected {counts[broken]} values"
        )
    return out


def split_block(block: Chunked) -> tuple[Chunked, Chunked]:
    """Return the values and the lengths of blocks that have both."""
    block.require(8, "runs")
    room = block.sizes - 8
    sizes = block.words(8)[block.starts // 8]
    if (sizes > room.astype(np.uint64)).any():
        raise CorruptDataError(f"run values take {int(sizes.max())} bytes, more than their block has")
    value_sizes = sizes.astype(np.int64)
    values = Chunked(block.data, block.starts + 8, value_sizes)
    return values, Chunked(block.data, block.starts + 8 + value_sizes, room - value_sizes)


def _value_bytes(encoding: Rle) -> int:
    values, lengths = encoding.values, encoding.run_lengths
    if not isinstance(values, Flat) or lengths != Flat(8):
        raise UnsupportedFeatureError(
            f"run-length encoding of {values} with lengths of {lengths} is not supported"
        )
    if values.bits_per_value not in (8, 16, 32, 64):
        raise CorruptDataError(
            f"run-length encoded values have {values.bits_per_value} bits, expected 8, 16, 32 or 64"
        )
    return values.bits_per_value // 8
