"""Encode packed structs: the values of all fields of a row are stored together.

Format: docs/format/packed_struct.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.encodings.leaf_values import (
    BooleanValues,
    FixedListValues,
    FixedValues,
    VariableValues,
    leaf_values,
)
from lance_df.errors import UnsupportedFeatureError
from lance_df.format.encodings_v2_1 import (
    Encoding,
    FixedSizeList,
    Flat,
    PackedField,
    PackedStruct,
    VariablePackedStruct,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from lance_df.encodings.buffers import Bytes

_ROW_OFFSET_BITS = 32


def packed_values(
    array: pa.StructArray, valid: npt.NDArray[np.bool_] | None, path: str
) -> FixedValues | VariableValues:
    """Return the rows of a struct array, of fixed width if all fields are plain numbers.

    If ``valid`` is false, the row is zero or empty.

    Raises
    ------
    UnsupportedFeatureError
        A field cannot be packed, or is null in a struct that is not null.
    """
    children = [
        _child_values(array.field(i), valid, f"{path}.{array.type.field(i).name}")
        for i in range(array.type.num_fields)
    ]
    fixed = [child for child in children if isinstance(child, FixedValues)]
    if len(fixed) == len(children):
        return _fixed_rows(fixed, valid)
    return _variable_rows(children, len(array), valid)


def _child_values(
    child: pa.Array, valid: npt.NDArray[np.bool_] | None, path: str
) -> FixedValues | FixedListValues | VariableValues:
    if (
        child.null_count
        and not (child.is_null().to_numpy(zero_copy_only=False) <= (False if valid is None else ~valid)).all()
    ):
        raise UnsupportedFeatureError(f"column {path!r}: the fields of a packed struct cannot be null")
    values = leaf_values(child, valid)
    if isinstance(values, BooleanValues) or (
        isinstance(values, FixedListValues) and isinstance(values.items, BooleanValues)
    ):
        raise UnsupportedFeatureError(f"column {path!r}: a packed struct cannot have boolean fields")
    if isinstance(values, FixedListValues) and any(layer.validity is not None for layer in values.layers):
        raise UnsupportedFeatureError(
            f"column {path!r}: the items of a list in a packed struct cannot be null"
        )
    return values


def _fixed_rows(children: Sequence[FixedValues], valid: npt.NDArray[np.bool_] | None) -> FixedValues:
    widths = [child.width_bytes for child in children]
    rows = np.concatenate([child.data.reshape(-1, child.width_bytes) for child in children], axis=1)
    if valid is not None:
        rows[~valid] = 0
    encoding = PackedStruct(tuple(width * 8 for width in widths), Flat(sum(widths) * 8))
    return FixedValues(rows.reshape(-1), sum(widths), encoding)


def _variable_rows(
    children: Sequence[FixedValues | FixedListValues | VariableValues],
    count: int,
    valid: npt.NDArray[np.bool_] | None,
) -> VariableValues:
    """Prefix each value of variable width with its length, and join the values of each row."""
    fields: list[PackedField] = []
    columns: list[pa.Array] = []
    for child in children:
        if isinstance(child, VariableValues):
            lengths = np.diff(child.offsets).astype(f"<u{child.offset_bits // 8}")
            columns.append(_binaries(lengths.view(np.uint8), count))
            columns.append(_binaries(child.data, count, child.offsets))
            fields.append(PackedField(child.encoding, bits_per_length=child.offset_bits))
            continue
        items = child.items if isinstance(child, FixedListValues) else child
        data = items.data if isinstance(items, FixedValues) else items.bitmap
        columns.append(_binaries(data, count))
        fields.append(PackedField(_fixed_encoding(child), bits_per_value=len(data) // count * 8))
    rows = pc.binary_join_element_wise(*columns, pa.scalar(b"", pa.large_binary()))
    if valid is not None:
        rows = pc.if_else(pa.array(valid), rows, pa.scalar(b"", pa.large_binary()))
    joined = leaf_values(rows)
    if not isinstance(joined, VariableValues):
        raise TypeError(f"unexpected type of joined values: {rows.type}")
    encoding = VariablePackedStruct(tuple(fields))
    return VariableValues(joined.offsets, joined.data, _ROW_OFFSET_BITS, lambda _: encoding)


def _fixed_encoding(values: FixedValues | FixedListValues) -> Encoding:
    if isinstance(values, FixedValues):
        return values.encoding
    encoding: Encoding = Flat(values.items.width_bytes * 8 if isinstance(values.items, FixedValues) else 1)
    for layer in reversed(values.layers):
        encoding = FixedSizeList(layer.dimension, encoding)
    return encoding


def _binaries(data: Bytes, count: int, offsets: npt.NDArray[np.int64] | None = None) -> pa.Array:
    """Return binaries; without offsets, all have the same length."""
    if offsets is None:
        offsets = np.arange(count + 1, dtype=np.int64) * (len(data) // count)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(pa.large_binary(), count, buffers)
