"""Move the bytes of blobs out of the columns of a file that is being written. Spec: 3.3, 4.6 and 5.6."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_df.encodings.list_items import kept_items, list_offsets
from lance_df.encodings.v2_1.blob import DESCRIPTOR, DESCRIPTOR_2_2
from lance_df.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from lance_df.format.schema import Field

_INLINE, _EXTERNAL = 0, 3


def has_blobs(field: Field) -> bool:
    """Return whether the field, or one below it, is a blob."""
    return any(node.is_blob for node in field.walk())


def move_blobs(array: pa.Array, field: Field, store: Callable[[memoryview], int]) -> pa.Array:
    """Return a column with the place of each blob instead of its bytes.

    Parameters
    ----------
    array
        Of the field's storage type: large binaries; or structs of ``data``, ``uri``, ``position`` and
        ``size``, one of the first two of which is not null (from 2.2 on).
    store
        Writes bytes into the file and returns where they begin. Called for every blob that is not empty.

    Raises
    ------
    InvalidInputError
        A blob that is both bytes and a reference to some, or neither.
    """
    if field.is_blob:
        return _described(array, field, store) if field.is_struct else _stored(array, store)
    if not has_blobs(field):
        return array
    if field.is_list:
        return _moved_items(array, field, store)
    children = [move_blobs(array.field(i), child, store) for i, child in enumerate(field.children)]
    fields = [
        pa.field(child.name, moved.type, child.nullable)
        for child, moved in zip(field.children, children, strict=True)
    ]
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=fields, mask=mask)


def _moved_items(array: pa.Array, field: Field, store: Callable[[memoryview], int]) -> pa.Array:
    (child,) = field.children
    offsets = list_offsets(array)
    kept = np.where(array.is_null().to_numpy(zero_copy_only=False), 0, np.diff(offsets))
    items = move_blobs(kept_items(array, offsets, kept), child, store)
    kind = pa.LargeListArray if pa.types.is_large_list(array.type) else pa.ListArray
    ends = pa.array(np.concatenate([[0], np.cumsum(kept)])).cast(array.offsets.type)
    return kind.from_arrays(ends, items, mask=array.is_null() if array.null_count else None)


def _stored(array: pa.Array, store: Callable[[memoryview], int]) -> pa.Array:
    positions, sizes = _store_all(array, store)
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(
        [pa.array(positions), pa.array(sizes)], fields=list(DESCRIPTOR), mask=mask
    )


def _described(array: pa.Array, field: Field, store: Callable[[memoryview], int]) -> pa.Array:
    parts = {child.name: array.field(i) for i, child in enumerate(array.type)}
    data, uri = parts["data"], parts["uri"]
    null = array.is_null().to_numpy(zero_copy_only=False)
    has_data, has_uri = (each.is_valid().to_numpy(zero_copy_only=False) for each in (data, uri))
    if (~null & (has_data == has_uri)).any():
        raise InvalidInputError(f"column {field.name!r}: a blob is either bytes or a URI")
    positions, sizes = _store_all(data, store, null)
    external = has_uri & ~null
    for name, numbers in (("position", positions), ("size", sizes)):
        if name in parts:
            numbers[external] = parts[name].fill_null(0).to_numpy()[external]
    kinds = np.where(external, _EXTERNAL, _INLINE).astype(np.uint8)
    uris = pa.compute.if_else(pa.array(external), uri, "")
    children = [kinds, positions, sizes, np.zeros(len(array), np.uint32), uris]
    return pa.StructArray.from_arrays(
        [pa.array(child) for child in children], fields=list(DESCRIPTOR_2_2), mask=pa.array(null)
    )


def _store_all(
    blobs: pa.Array, store: Callable[[memoryview], int], left_out: npt.NDArray[np.bool_] | None = None
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    positions, sizes = np.zeros((2, len(blobs)), np.uint64)
    if not len(blobs):
        return positions, sizes
    offsets = np.frombuffer(blobs.buffers()[1], np.int64, len(blobs) + 1, blobs.offset * 8)
    lengths = np.diff(offsets)
    if blobs.null_count:
        lengths = np.where(blobs.is_valid().to_numpy(zero_copy_only=False), lengths, 0)
    if left_out is not None:
        lengths = np.where(left_out, 0, lengths)
    data = memoryview(blobs.buffers()[2] or b"")
    for row in np.flatnonzero(lengths).tolist():
        positions[row] = store(data[offsets[row] : offsets[row] + lengths[row]])
    sizes[:] = lengths
    return positions, sizes
