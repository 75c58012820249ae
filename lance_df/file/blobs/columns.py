"""Find and replace the blobs within a column, at any depth of structs and lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_df.encodings.list_items import list_offsets, selected_items
from lance_df.format.blobs import MOVED_BLOB

if TYPE_CHECKING:
    from collections.abc import Callable

    from lance_df.format.schema import Field


def has_blobs(field: Field) -> bool:
    """Return whether the field, or one below it, is a blob."""
    return any(node.is_blob for node in field.walk())


def map_blobs(array: pa.Array, field: Field, change: Callable[[pa.Array, Field], pa.Array]) -> pa.Array:
    """Return a column with all blobs replaced; the structs and lists around them are unchanged.

    Parameters
    ----------
    array
        The column, of the field's storage type except for the blobs.
    change
        Called with the values of a blob field and with the field; returns as many values, of any type.
    """
    if field.is_blob:
        return change(array, field)
    if not has_blobs(field):
        return array
    if field.is_list:
        return _map_items(array, field, change)
    children = [map_blobs(array.field(i), child, change) for i, child in enumerate(field.children)]
    fields = [
        pa.field(child.name, changed.type, child.nullable)
        for child, changed in zip(field.children, children, strict=True)
    ]
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=fields, mask=mask)


def _map_items(array: pa.Array, field: Field, change: Callable[[pa.Array, Field], pa.Array]) -> pa.Array:
    (child,) = field.children
    offsets = list_offsets(array)
    sizes = np.where(array.is_null().to_numpy(zero_copy_only=False), 0, np.diff(offsets))
    items = map_blobs(selected_items(array, offsets, sizes), child, change)
    kind = pa.LargeListArray if pa.types.is_large_list(array.type) else pa.ListArray
    ends = pa.array(np.concatenate([[0], np.cumsum(sizes)])).cast(array.offsets.type)
    return kind.from_arrays(ends, items, mask=array.is_null() if array.null_count else None)


def as_moved(array: pa.Array, field: Field) -> pa.Array:
    """Convert the blobs of a column of storage type to `MOVED_BLOB` without copying them."""
    return map_blobs(array, field, lambda blobs, _: _moved(blobs))


def _moved(blobs: pa.Array) -> pa.Array:
    if blobs.type == MOVED_BLOB:
        return blobs
    given = {"data": blobs}
    if pa.types.is_struct(blobs.type):
        given = {child.name: blobs.field(number) for number, child in enumerate(blobs.type)}
    given["is_copied"] = pa.repeat(pa.scalar(False), len(blobs))
    children = [
        given[child.name] if child.name in given else pa.nulls(len(blobs), child.type) for child in MOVED_BLOB
    ]
    mask = blobs.is_null() if blobs.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(MOVED_BLOB), mask=mask)
