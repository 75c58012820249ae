"""Encode the positions of the blobs of a 2.0 file, whose bytes are already written.

::

    u64 position | u64 size         of each value; (0, 0) is empty, (1, 0) is null
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lance_df.format.encodings_v2_0 import BufferRef, Encoding, Flat, NoNulls, PackedStruct

if TYPE_CHECKING:
    import pyarrow as pa

    from lance_df.encodings.encoded_page import Buffer

_NULL_POSITION = 1


def encode_blobs(positions: pa.StructArray, buffers: list[Buffer]) -> Encoding:
    """Encode structs of a position and a size, as packed structs that may be null."""
    rows = np.empty((len(positions), 2), "<u8")
    null = positions.is_null().to_numpy(zero_copy_only=False)
    sizes = np.where(null, 0, positions.field("size").fill_null(0).to_numpy())
    rows[:, 0] = np.where(null, _NULL_POSITION, positions.field("position").fill_null(0).to_numpy())
    rows[:, 0][~null & (sizes == 0)] = 0
    rows[:, 1] = sizes
    buffers.append(rows.reshape(-1).view(np.uint8).data)
    number = NoNulls(Flat(64, BufferRef(len(buffers) - 1)))
    return PackedStruct((number, number), BufferRef(len(buffers) - 1))
