"""Encode full-zip pages: one record for each slot. Format: docs/format/full_zip.md.

::

    record   control word (rep << bits_def | def)? | u32/u64 length? | value

Fixed-width values without levels are stored as a plain array, which readers map instead of copying.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.encodings.layouts.laid_out_page import LaidOutPage
from lance_df.encodings.leaf_values import (
    BooleanValues,
    FixedListValues,
    FixedValues,
    LeafValues,
    VariableValues,
)
from lance_df.format.encodings_v2_1 import Constant, Encoding, FixedSizeList, Flat, FullZipLayout

if TYPE_CHECKING:
    import numpy.typing as npt

    from lance_df.encodings.leaf_values import Bytes
    from lance_df.encodings.levels.encode import LeafColumn


def encode_full_zip(leaf: LeafColumn, values: LeafValues) -> LaidOutPage:
    """Lay out a page as records, one for each slot of ``leaf``."""
    if isinstance(values, VariableValues):
        return _variable(leaf, values)
    encoding, data, width = _records(values)
    control = _control_words(leaf)
    buffers: tuple[bytes | memoryview, ...]
    if control is None:
        buffers = (data.data,)
    elif leaf.repetition is None:
        buffers = (np.concatenate([control, data.reshape(-1, width)], axis=1).tobytes(),)
    else:
        widths = (
            np.where(leaf.definition <= leaf.max_visible, width, 0) if leaf.definition is not None else width
        )
        lengths = np.broadcast_to(widths, leaf.num_slots)
        control_lengths = np.full(leaf.num_slots, control.shape[1])
        zipped, ends = _interleave(control_lengths, control.reshape(-1), lengths, data)
        buffers = (zipped, _row_index(leaf, ends))
    layout = _layout(leaf, encoding, bits_per_value=width * 8)
    return LaidOutPage(layout=layout, buffers=buffers, num_rows=leaf.num_rows)


def _variable(leaf: LeafColumn, values: VariableValues) -> LaidOutPage:
    """Store a length and the bytes for every value that is not null."""
    dtype = np.dtype(f"<u{values.offset_bits // 8}")
    lengths = np.diff(values.offsets)
    valid = leaf.valid()
    has_value = np.ones(leaf.num_slots, np.bool_) if valid is None else leaf.definition == 0
    slot_lengths = np.zeros(leaf.num_slots, np.int64)
    slot_lengths[has_value] = lengths if valid is None else lengths[valid]
    heads = np.ascontiguousarray(slot_lengths.astype(dtype)).view(np.uint8).reshape(-1, dtype.itemsize)
    control = _control_words(leaf)
    if control is not None:
        heads = np.concatenate([control, heads], axis=1)
    keep = np.ones(heads.shape, np.bool_)
    if control is not None:
        keep[~has_value, control.shape[1] :] = False
    zipped, ends = _interleave(keep.sum(axis=1), heads[keep], slot_lengths, values.data)
    layout = _layout(leaf, values.encoding, bits_per_offset=values.offset_bits)
    return LaidOutPage(layout=layout, buffers=(zipped, _row_index(leaf, ends)), num_rows=leaf.num_rows)


def _records(values: FixedValues | BooleanValues | FixedListValues) -> tuple[Encoding, Bytes, int]:
    """Return the encoding, the bytes and the size in bytes of values that all have the same size."""
    if isinstance(values, FixedValues):
        return values.encoding, values.data, values.width_bytes
    if isinstance(values, BooleanValues):
        return Flat(8), np.unpackbits(values.bitmap, bitorder="little", count=len(values)), 1
    encoding: Encoding
    if isinstance(values.items, BooleanValues):
        flags = np.unpackbits(values.items.bitmap, bitorder="little", count=len(values.items))
        encoding, parts = Flat(1), [_bits_per_value(flags, len(values))]
    else:
        width = values.items.width_bytes
        encoding = Flat(width * 8) if width else Constant(None)
        parts = [values.items.data.reshape(len(values), len(values.items.data) // max(len(values), 1))]
    nested: Encoding = encoding
    for layer in reversed(values.layers):
        nested = FixedSizeList(layer.dimension, nested, layer.validity is not None)
    validities = [layer.validity for layer in values.layers if layer.validity is not None]
    parts = [*(_bits_per_value(validity, len(values)) for validity in validities), *parts]
    data = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
    return nested, data.reshape(-1), data.shape[1]


def _interleave(
    head_lengths: npt.NDArray[np.int64], heads: Bytes, lengths: npt.NDArray[np.int64], data: Bytes
) -> tuple[memoryview, npt.NDArray[np.int64]]:
    """Return head 0, value 0, head 1, value 1, … and the end of each pair."""
    joined = pc.binary_join_element_wise(
        _binary(head_lengths, heads), _binary(lengths, data), pa.scalar(b"", pa.large_binary())
    )
    _, offsets, zipped = joined.buffers()
    ends = np.frombuffer(offsets, np.int64, len(joined) + 1)[1:]
    return memoryview(zipped)[: ends[-1] if len(ends) else 0], ends


def _binary(lengths: npt.NDArray[np.int64], data: Bytes) -> pa.LargeBinaryArray:
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(pa.large_binary(), len(lengths), buffers)


def _bits_per_value(flags: npt.NDArray[np.generic], count: int) -> Bytes:
    """Return one bitmap for each value."""
    return np.packbits(flags.reshape(count, -1).astype(np.bool_), axis=1, bitorder="little")


def _control_words(leaf: LeafColumn) -> Bytes | None:
    """Return the control words as rows of bytes."""
    bits = leaf.max_repetition.bit_length() + leaf.max_definition.bit_length()
    if bits == 0:
        return None
    words = np.zeros(leaf.num_slots, np.uint32)
    if leaf.repetition is not None:
        words |= leaf.repetition.astype(np.uint32) << np.uint32(leaf.max_definition.bit_length())
    if leaf.definition is not None:
        words |= leaf.definition
    width = 1 if bits <= 8 else 2 if bits <= 16 else 4
    return words.astype(f"<u{width}").view(np.uint8).reshape(-1, width)


def _layout(
    leaf: LeafColumn,
    encoding: Encoding,
    *,
    bits_per_value: int | None = None,
    bits_per_offset: int | None = None,
) -> FullZipLayout:
    return FullZipLayout(
        values=encoding,
        num_slots=leaf.num_slots,
        num_visible_items=len(leaf.values),
        layers=leaf.layers,
        bits_per_repetition=leaf.max_repetition.bit_length(),
        bits_per_definition=leaf.max_definition.bit_length(),
        bits_per_value=bits_per_value,
        bits_per_offset=bits_per_offset,
    )


def _row_index(leaf: LeafColumn, record_ends: npt.NDArray[np.int64]) -> bytes:
    """Return the byte offset of the first record of every row, and the end."""
    starts = np.concatenate([[0], record_ends[:-1]])[: leaf.num_slots]
    if leaf.repetition is not None:
        starts = starts[leaf.repetition == leaf.max_repetition]
    total = int(record_ends[-1]) if len(record_ends) else 0
    return np.append(starts, total).astype("<u4" if total < 1 << 32 else "<u8").tobytes()
