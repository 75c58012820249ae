"""Encode columns into pages of 0.1 files, many batches at a time.

Spec: file format 0.1, chapter 5. Only strings, binaries and columns of type null can be null. Other nulls are
stored as zeros, as empty lists, or as structs of the values of their children.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.encodings.arrays import has_nulls
from lance_df.encodings.leaf_values import (
    BooleanValues,
    FixedListValues,
    VariableValues,
    leaf_values,
    pack_bits,
)
from lance_df.encodings.list_items import list_offsets, selected_items
from lance_df.errors import InvalidInputError
from lance_df.records import dataclass

if TYPE_CHECKING:
    from lance_df.format.schema import Field

Bounds: TypeAlias = npt.NDArray[np.int64]
"""The first row (or item) of each batch, followed by the total number."""

_Bytes: TypeAlias = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class LegacyPage:
    """One page.

    Attributes
    ----------
    data
        The bytes to store.
    count
        The count in the page table: of values, or of offsets of lists.
    offsets
        Only for strings and binaries: the bounds of the values in ``data``. They are stored after ``data`` as
        positions in the file, and the position of the page is their start.
    """

    data: _Bytes
    count: int
    offsets: npt.NDArray[np.int64] | None = None


FieldPages: TypeAlias = tuple[int, Sequence[LegacyPage]]
"""The id of a field, and its page in each batch."""


def encode_column(field: Field, array: pa.Array, bounds: Bounds) -> Iterator[FieldPages]:
    """Yield the pages of a column, and of all fields below it that have pages, depth first.

    Parameters
    ----------
    array
        The array, of storage type. Dictionary indices refer to the values that the whole table shares.
    bounds
        The first row of each batch, followed by the total number.

    Raises
    ------
    InvalidInputError
        A value is null, but the schema does not allow it.
    """
    yield from _encode(field, field.name, array, bounds, None)


def encode_values(array: pa.Array) -> LegacyPage:
    """Encode strings, binaries or numbers (the values of a dictionary) as one page."""
    valid = array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else None
    (page,) = _leaf_pages(array, np.array([0, len(array)], np.int64), valid)
    return page


def _encode(
    field: Field, path: str, array: pa.Array, bounds: Bounds, parent_valid: npt.NDArray[np.bool_] | None
) -> Iterator[FieldPages]:
    valid = array.is_valid().to_numpy(zero_copy_only=False) if has_nulls(array) else None
    if valid is not None and not field.nullable and not pa.types.is_null(array.type):
        excused = np.zeros(len(array), np.bool_) if parent_valid is None else ~parent_valid
        if not (valid | excused).all():
            raise InvalidInputError(f"column {path!r} is declared not null, but the data holds nulls")
    if field.is_struct:
        within = valid if parent_valid is None else parent_valid if valid is None else valid & parent_valid
        for position, child in enumerate(field.children):
            yield from _encode(child, f"{path}.{child.name}", array.field(position), bounds, within)
    elif field.is_list:
        (child,) = field.children
        offsets = list_offsets(array)
        sizes = np.diff(offsets) if valid is None else np.where(valid, np.diff(offsets), 0)
        items = selected_items(array, offsets, sizes)
        starts = np.concatenate([[0], np.cumsum(sizes)])
        yield field.id, list(_list_pages(starts, bounds, pa.types.is_large_list(array.type)))
        yield from _encode(child, f"{path}.{child.name}", items, starts[bounds], None)
    else:
        yield field.id, list(_leaf_pages(array, bounds, valid))


def _list_pages(starts: npt.NDArray[np.int64], bounds: Bounds, large: bool) -> Iterator[LegacyPage]:
    width = "<i8" if large else "<i4"
    for low, high in pairwise(bounds.tolist()):
        offsets = (starts[low : high + 1] - starts[low]).astype(width)
        yield LegacyPage(offsets.view(np.uint8), len(offsets))


def _leaf_pages(array: pa.Array, bounds: Bounds, valid: npt.NDArray[np.bool_] | None) -> Iterator[LegacyPage]:
    if pa.types.is_null(array.type):
        return (LegacyPage(np.zeros(0, np.uint8), high - low) for low, high in pairwise(bounds.tolist()))
    if pa.types.is_dictionary(array.type):
        array, valid = pc.fill_null(array.indices, 0), None  # an index may be of a value that is null
    values = leaf_values(array, valid)
    if isinstance(values, VariableValues):
        return _text_pages(values, bounds)
    per_row = 1
    if isinstance(values, FixedListValues):
        per_row = math.prod(layer.dimension for layer in values.layers)
        values = values.items
    if isinstance(values, BooleanValues):
        return _bit_pages(values, per_row, bounds)
    return _byte_pages(values.data.reshape(len(array), per_row * values.width_bytes), valid, bounds)


def _text_pages(values: VariableValues, bounds: Bounds) -> Iterator[LegacyPage]:
    for low, high in pairwise(bounds.tolist()):
        offsets = values.offsets[low : high + 1]
        yield LegacyPage(values.data[offsets[0] : offsets[-1]], high - low, offsets - offsets[0])


def _bit_pages(values: BooleanValues, per_row: int, bounds: Bounds) -> Iterator[LegacyPage]:
    bits = np.unpackbits(values.bitmap, count=values.count, bitorder="little").view(np.bool_)
    for low, high in pairwise(bounds.tolist()):
        yield LegacyPage(pack_bits(bits[low * per_row : high * per_row]), high - low)


def _byte_pages(rows: _Bytes, valid: npt.NDArray[np.bool_] | None, bounds: Bounds) -> Iterator[LegacyPage]:
    if valid is not None:
        rows = np.where(valid[:, None], rows, np.uint8(0))
    for low, high in pairwise(bounds.tolist()):
        yield LegacyPage(rows[low:high].reshape(-1), high - low)
