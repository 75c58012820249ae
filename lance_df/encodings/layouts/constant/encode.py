"""Encode constant pages: only nulls and empty lists, or one value for all rows that are not null.

Format: docs/format/constant.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lance_df.encodings.codecs.encode_blocks import encode_levels
from lance_df.encodings.layouts.laid_out_page import LaidOutPage
from lance_df.encodings.leaf_values import (
    BooleanValues,
    FixedListValues,
    FixedValues,
    LeafValues,
    VariableValues,
)
from lance_df.errors import UnsupportedFeatureError
from lance_df.format.encodings_v2_1 import ConstantLayout, Encoding, RepDefLayer

if TYPE_CHECKING:
    import numpy.typing as npt

    from lance_df.encodings.buffers import Bytes
    from lance_df.encodings.levels.encode import LeafColumn, Levels

_MAX_INLINE_BYTES = 32
_MAX_RAW_LEVELS = 1024


def encode_all_null(leaf: LeafColumn, *, version: str) -> LaidOutPage:
    """Lay out a page without values: all slots are null or empty. Levels are compressed from 2.2 on."""
    if leaf.repetition is None and len(leaf.layers) == 1:
        layout = ConstantLayout(layers=(RepDefLayer.NULLABLE_ITEM,))
        return LaidOutPage(layout=layout, buffers=(), num_rows=leaf.num_rows)
    if version == "2.1":
        layout = ConstantLayout(layers=leaf.layers)
        return LaidOutPage(layout=layout, buffers=_raw_levels(leaf), num_rows=leaf.num_rows)
    repetition, repetition_block = _compressed_levels(leaf.repetition, leaf.max_repetition)
    definition, definition_block = _compressed_levels(leaf.definition, leaf.max_definition)
    layout = ConstantLayout(
        layers=leaf.layers,
        repetition=repetition,
        definition=definition,
        num_repetition_levels=0 if leaf.repetition is None else len(leaf.repetition),
        num_definition_levels=0 if leaf.definition is None else len(leaf.definition),
    )
    return LaidOutPage(
        layout=layout, buffers=(repetition_block.data, definition_block.data), num_rows=leaf.num_rows
    )


def encode_empty_struct(leaf: LeafColumn) -> LaidOutPage:
    """Lay out a struct without children: its rows are not null and have no content.

    Raises
    ------
    UnsupportedFeatureError
        The struct or one of its ancestors is null or a list, but the layout cannot store levels.
    """
    if leaf.definition is not None or leaf.repetition is not None:
        raise UnsupportedFeatureError(
            f"column {leaf.path!r}: a struct without fields cannot be null or in a list"
        )
    layout = ConstantLayout(layers=(RepDefLayer.NULLABLE_ITEM,))
    return LaidOutPage(layout=layout, buffers=(), num_rows=leaf.num_rows)


def try_constant(
    leaf: LeafColumn, values: LeafValues, valid: npt.NDArray[np.bool_] | None
) -> LaidOutPage | None:
    """Lay out a page of one value, compared bit for bit, and nulls (2.2 only); None if values differ.

    Levels cannot be compressed beside a value, so pages with many of them are left to other layouts.
    """
    is_empty = isinstance(values, FixedValues) and not values.width_bytes
    has_levels = leaf.definition is not None or leaf.repetition is not None
    if has_levels and leaf.num_slots > _MAX_RAW_LEVELS and not is_empty:
        return None
    scalar = b"" if is_empty else _common_value(values, valid)
    if scalar is None:
        return None
    levels = _raw_levels(leaf) if has_levels else ()
    if isinstance(values, VariableValues):
        offsets = np.array([0, len(scalar)], f"<u{values.offset_bits // 8}").tobytes()
        lengths = np.array([2, len(offsets), len(scalar)], "<u4").tobytes()
        layout, buffers = ConstantLayout(layers=leaf.layers), (lengths + offsets + scalar, *levels)
    elif len(scalar) <= _MAX_INLINE_BYTES:
        layout, buffers = ConstantLayout(layers=leaf.layers, inline_value=scalar), levels
    else:
        head = np.array([1, len(scalar)], "<u4").tobytes()
        layout, buffers = ConstantLayout(layers=leaf.layers), (head + scalar, *levels)
    return LaidOutPage(layout=layout, buffers=buffers, num_rows=leaf.num_rows)


def _raw_levels(leaf: LeafColumn) -> tuple[bytes, bytes]:
    repetition = b"" if leaf.repetition is None else leaf.repetition.astype("<u2").tobytes()
    definition = b"" if leaf.definition is None else leaf.definition.astype("<u2").tobytes()
    return repetition, definition


def _compressed_levels(levels: Levels | None, max_level: int) -> tuple[Encoding | None, Bytes]:
    if levels is None:
        return None, np.zeros(0, np.uint8)
    ends = np.array([len(levels)], np.int64)
    encoding, block = encode_levels(levels, ends, max_level=max_level, allow_runs=True)
    return encoding, block.joined()


def _common_value(values: LeafValues, valid: npt.NDArray[np.bool_] | None) -> bytes | None:
    if isinstance(values, FixedListValues) or (isinstance(values, FixedValues) and values.row_encoding):
        return None
    if isinstance(values, BooleanValues):
        flags = np.unpackbits(values.bitmap, bitorder="little", count=len(values))
        values = FixedValues(flags, 1)
    if isinstance(values, FixedValues):
        if len(values) == 1:
            return values.data.tobytes()
        rows = values.data.reshape(-1, values.width_bytes)
        first = rows[0 if valid is None else int(valid.argmax())]
        chosen = rows if valid is None else rows[valid]
        # most columns differ early: compare a few values before all
        same = bool((chosen[:16] == first).all() and (chosen == first).all())
        return first.tobytes() if same else None
    if len(values) == 1:
        return values.data.tobytes()
    lengths = np.diff(values.offsets)
    if valid is not None:
        lengths = lengths[valid]
    width = int(lengths[0])
    if not (lengths == width).all():
        return None
    rows = values.data.reshape(len(lengths), width)
    return rows[0].tobytes() if bool((rows[:16] == rows[0]).all() and (rows == rows[0]).all()) else None
