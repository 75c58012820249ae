"""Locate the blobs of rows that are rewritten, so that the writer can copy them or keep references to them.

No bytes are read here: the writer copies blobs in files of the table, and keeps references to other files.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_df.errors import CorruptDataError, UnsupportedFeatureError
from lance_df.file.blobs.columns import has_blobs, map_blobs
from lance_df.file.blobs.sidecars import sidecar_path
from lance_df.format.blobs import EXTERNAL, INLINE, MOVED_BLOB, blob_description
from lance_df.table.reading.row_ids import split_addresses
from lance_df.table.reading.take import take_addresses

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from lance_df.format.fragments import DataFile, Fragment
    from lance_df.format.schema import Field
    from lance_df.table.table import Table


def take_whole(table: Table, addresses: npt.NDArray[np.uint64], *, columns: Sequence[str]) -> pa.Table:
    """Return live rows of one fragment, in a form that a writer takes.

    Like :func:`lance_df.table.reading.take.take_addresses`, but blobs are `MOVED_BLOB`.
    """
    rows = take_addresses(table, addresses, columns=columns)
    if not len(addresses):
        return rows
    fragment_ids, _ = split_addresses(addresses[:1])
    fragment = table.fragment(int(fragment_ids[0]))
    for index, name in enumerate(rows.schema.names):
        field = table.schema.field(name)
        if has_blobs(field):
            column = rows.column(index).combine_chunks()
            array = column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
            moved = moved_blobs(table, fragment, field, array)
            rows = rows.set_column(index, pa.field(name, moved.type), moved)
    return rows


def moved_blobs(table: Table, fragment: Fragment, field: Field, described: pa.Array) -> pa.Array:
    """Return a column with its blob descriptions replaced by `MOVED_BLOB`.

    Parameters
    ----------
    described
        Values of the field in this fragment, as `blob_description` has them.

    Raises
    ------
    CorruptDataError, UnsupportedFeatureError
        A description is invalid, or of an unknown kind.
    """

    def moved(blobs: pa.Array, blob: Field) -> pa.Array:
        file = fragment.file_of(blob.id)
        if file is None:
            return pa.nulls(len(blobs), MOVED_BLOB)
        return _moved_2_2(table, file, blobs) if blob.is_struct else _moved(table, file, blobs)

    return map_blobs(described, field, moved)


def described(field: Field) -> Field:
    """Return the field to read for :func:`moved_blobs`."""
    return blob_description(field) if has_blobs(field) else field


def _moved(table: Table, file: DataFile, blobs: pa.Array) -> pa.StructArray:
    positions, sizes = (_numbers(blobs.field(i)) for i in range(2))
    null = blobs.is_null().to_numpy(zero_copy_only=False) | ((sizes == 0) & (positions == 1))
    uri = pa.repeat(table.data_file_location(file).uri, len(blobs))
    return _assembled(
        null,
        uri,
        positions,
        sizes,
        base_ids=_same(len(blobs), file.base_id),
        copied=np.ones(len(blobs), bool),
    )


def _moved_2_2(table: Table, file: DataFile, blobs: pa.Array) -> pa.StructArray:
    null = blobs.is_null().to_numpy(zero_copy_only=False)
    kinds, positions, sizes, blob_ids = (_numbers(blobs.field(i)) for i in range(4))
    if (unknown := kinds[~null & (kinds > EXTERNAL)]).size:
        raise UnsupportedFeatureError(f"{table.uri}: a blob has the unknown kind {unknown[0]}")
    external = kinds == EXTERNAL
    uris = blobs.field(4)
    if (~null & external & ~uris.is_valid().to_numpy(zero_copy_only=False)).any():
        raise CorruptDataError(f"{table.data_file_location(file).uri}: an external blob has no URI")
    # the file of each blob of the table; the data file itself has the number 0
    numbers, inverse = np.unique(
        np.where(external | (kinds == INLINE), 0, blob_ids.astype(np.int64) + 1), return_inverse=True
    )
    files = pa.array([_uri(table, file, number - 1) for number in numbers.tolist()], pa.string())
    bases = pa.array(_same(len(blobs), file.base_id))
    return _assembled(
        null,
        pa.compute.if_else(pa.array(external), uris, files.take(pa.array(inverse))),
        positions,
        sizes,
        base_ids=pa.compute.if_else(pa.array(external), pa.array(blob_ids.astype(np.uint32)), bases),
        copied=~external,
    )


def _uri(table: Table, file: DataFile, blob_id: int) -> str:
    beside = file if blob_id < 0 else dataclasses.replace(file, path=sidecar_path(file.path, blob_id))
    return table.data_file_location(beside).uri


def _assembled(
    null: npt.NDArray[np.bool_],
    uris: pa.Array,
    positions: npt.NDArray[np.uint64],
    sizes: npt.NDArray[np.uint64],
    *,
    base_ids: pa.Array,
    copied: npt.NDArray[np.bool_],
) -> pa.StructArray:
    """Build `MOVED_BLOB`; empty blobs of the table have no location."""
    empty = copied & (sizes == 0)
    # a reference to a whole file has no size
    whole = ~copied & (sizes == 0)
    data = pa.compute.if_else(pa.array(empty), pa.scalar(b"", pa.large_binary()), None)
    children = [
        data,
        pa.compute.if_else(pa.array(empty), None, uris),
        pa.array(positions, mask=empty | whole),
        pa.array(sizes, mask=empty | whole),
        pa.array(base_ids),
        pa.array(copied & ~empty),
    ]
    return pa.StructArray.from_arrays(children, fields=list(MOVED_BLOB), mask=pa.array(null))


def _same(count: int, base_id: int | None) -> pa.Array:
    return (
        pa.nulls(count, pa.uint32()) if base_id is None else pa.repeat(pa.scalar(base_id, pa.uint32()), count)
    )


def _numbers(array: pa.Array) -> npt.NDArray[np.uint64]:
    numbers: npt.NDArray[np.uint64] = array.fill_null(0).to_numpy()
    return numbers
