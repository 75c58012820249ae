"""Constant pages: nothing but nulls and empty lists, or one value for all that is not null.

Spec: file format, 4.6 and 5.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lance_df.encodings.v2_1.encode_values import (
    BooleanValues,
    FixedListValues,
    FixedValues,
    LeafValues,
    VariableValues,
)
from lance_df.encodings.v2_1.laid_out_page import LaidOutPage
from lance_df.errors import UnsupportedFeatureError
from lance_df.format.encodings_v2_1 import ConstantLayout, RepDefLayer

if TYPE_CHECKING:
    import numpy.typing as npt

    from lance_df.encodings.v2_1.encode_levels import LeafColumn

_MAX_INLINE_BYTES = 32


def encode_all_null(leaf: LeafColumn) -> LaidOutPage:
    """Lay out a page none of whose slots holds a value."""
    if leaf.repetition is None and len(leaf.layers) == 1:
        layout = ConstantLayout(layers=(RepDefLayer.NULLABLE_ITEM,))
        return LaidOutPage(layout=layout, buffers=(), num_rows=leaf.num_rows)
    return LaidOutPage(
        layout=ConstantLayout(layers=leaf.layers), buffers=_raw_levels(leaf), num_rows=leaf.num_rows
    )


def encode_empty_struct(leaf: LeafColumn) -> LaidOutPage:
    """Lay out a struct without children: rows that are neither null nor hold anything.

    Raises
    ------
    UnsupportedFeatureError
        It, or what it lies in, is null or a list: the layout has no place for levels.
    """
    if leaf.definition is not None or leaf.repetition is not None:
        raise UnsupportedFeatureError(
            f"column {leaf.path!r}: a struct without fields can be neither null nor in a list"
        )
    layout = ConstantLayout(layers=(RepDefLayer.NULLABLE_ITEM,))
    return LaidOutPage(layout=layout, buffers=(), num_rows=leaf.num_rows)


def try_constant(leaf: LeafColumn, values: LeafValues) -> LaidOutPage | None:
    """Lay out a page of one value beside nulls, compared bit for bit (2.2 only); None when values differ."""
    scalar = _common_value(values, leaf.valid())
    if scalar is None:
        return None
    levels = () if leaf.definition is None and leaf.repetition is None else _raw_levels(leaf)
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


def _common_value(values: LeafValues, valid: npt.NDArray[np.bool_] | None) -> bytes | None:
    if isinstance(values, FixedListValues):
        return None
    if isinstance(values, BooleanValues):
        flags = np.unpackbits(values.bitmap, bitorder="little", count=len(values))
        values = FixedValues(flags, 1)
    if isinstance(values, FixedValues):
        rows = values.data.reshape(-1, values.width_bytes)
        first = rows[0 if valid is None else int(valid.argmax())]
        chosen = rows if valid is None else rows[valid]
        # most columns differ early on: look at a few before looking at all
        same = bool((chosen[:16] == first).all() and (chosen == first).all())
        return first.tobytes() if same else None
    lengths = np.diff(values.offsets)
    if valid is not None:
        lengths = lengths[valid]
    width = int(lengths[0])
    if not (lengths == width).all():
        return None
    rows = values.data.reshape(len(lengths), width)
    return rows[0].tobytes() if bool((rows[:16] == rows[0]).all() and (rows == rows[0]).all()) else None
