"""Encode blob pages: the position and size of each blob, or the levels of a null.

Format: docs/format/blob.md.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from lance_df.encodings.codecs.encode_options import EncodingOptions
from lance_df.encodings.encode_chunks import value_cutter
from lance_df.encodings.layouts.mini_block.encode import encode_mini_block
from lance_df.encodings.leaf_values import FixedValues
from lance_df.errors import UnsupportedFeatureError
from lance_df.format.encodings_v2_1 import BlobLayout, Flat, PackedStruct, RepDefLayer

if TYPE_CHECKING:
    from lance_df.encodings.layouts.laid_out_page import LaidOutPage
    from lance_df.encodings.levels.encode import LeafColumn

_ROWS = PackedStruct((64, 64), Flat(128))


def encode_blobs(leaf: LeafColumn, *, large_chunks: bool) -> LaidOutPage:
    """Lay out positions and sizes; (0, 0) is an empty blob.

    Raises
    ------
    UnsupportedFeatureError
        The blobs are within lists, which no reader supports.
    """
    if leaf.repetition is not None:
        raise UnsupportedFeatureError(f"column {leaf.path!r}: blobs cannot be stored within lists")
    rows = np.empty((len(leaf.values), 2), "<u8")
    for index, name in enumerate(("position", "size")):
        rows[:, index] = leaf.values.field(name).fill_null(0).to_numpy()
    if leaf.definition is not None:
        null = leaf.definition > 0
        rows[null, 0] = leaf.definition[null].astype(np.uint64) << np.uint64(16)
        rows[null, 1] = 0
    inner = replace(leaf, layers=(RepDefLayer.ALL_VALID_ITEM,), definition=None, max_visible=0)
    values = FixedValues(rows.reshape(-1).view(np.uint8), 16, _ROWS)
    page = encode_mini_block(inner, value_cutter(values), EncodingOptions(), large_chunks=large_chunks)
    if page is None:
        raise TypeError("positions of blobs do not fit into chunks")
    return replace(page, layout=BlobLayout(inner=page.layout, layers=leaf.layers))
