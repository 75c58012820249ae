"""Read the bytes of blobs, from the data file, from files beside it, or from a URL.

Pages hold a description of each value. Before 2.2 that is a position and a size in the data file; from 2.2 on
it also has the kind of location. Spec: file format 2.x, 3.3, 4.6 and 5.6.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_df.errors import CorruptDataError, InvalidInputError, NotFoundError, UnsupportedFeatureError
from lance_df.file.blobs.sidecars import sidecar_path
from lance_df.format.blobs import DEDICATED, EXTERNAL, INLINE, PACKED
from lance_df.records import dataclass
from lance_df.storage import ByteRange
from lance_df.table.parallel import map_reads
from lance_df.table.reading.row_ids import split_addresses
from lance_df.table.reading.system_columns import ROW_ADDRESS
from lance_df.table.scan.columns import StoredColumn, resolve_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lance_df.format.fragments import DataFile, Fragment
    from lance_df.format.schema import Field
    from lance_df.storage import ByteSource, Location
    from lance_df.table.table import Table

# as in 2.0 files
_NULLS = ({"position": 1, "size": 0},)


@dataclass(frozen=True, slots=True)
class BlobLocation:
    """The location of the bytes of a blob. ``size`` is None for a whole external file."""

    location: Location
    start: int
    size: int | None

    def open(self) -> tuple[ByteSource, int, int]:
        """Open the file; return it with the start and the stop (exclusive) of the blob in it.

        Raises
        ------
        CorruptDataError
            The file ends before the blob does, or is missing.
        """
        try:
            source = self.location.open()
        except NotFoundError as err:
            raise CorruptDataError(f"{self.location.uri}: this blob file is missing") from err
        stop = source.size if self.size is None else self.start + self.size
        if not self.start <= stop <= source.size:
            raise CorruptDataError(
                f"{self.location.uri}: a blob refers to bytes {self.start} to {stop}, but the file has "
                f"{source.size} bytes"
            )
        return source, self.start, stop


def find_blobs(
    table: Table, column: str, take: Callable[[Sequence[str]], pa.Table]
) -> tuple[list[int], list[BlobLocation | None]]:
    """Return the row addresses and the locations of blobs, with None for NULL.

    Parameters
    ----------
    take
        Returns the given columns of the wanted rows.

    Raises
    ------
    ColumnNotFoundError
        There is no such column.
    InvalidInputError
        The column is not a blob column.
    """
    resolved = resolve_name(table.schema, column)
    field = _leaf(resolved.field, len(resolved.path)) if isinstance(resolved, StoredColumn) else None
    if field is None or not field.is_blob:
        raise InvalidInputError(f"{table.uri}: column {column!r} is not a blob column")
    rows = take([column, ROW_ADDRESS])
    addresses = rows.column(1).to_numpy()
    described = rows.column(0).combine_chunks()
    return addresses.tolist(), _locations(table, field, addresses.astype(np.uint64), described)


def values_of(table: Table, fragment: Fragment, column: StoredColumn, stored: pa.Array) -> pa.Array:
    """Return the values of a column from those of its stored field; located blobs as bytes."""
    values = column.extract(stored)
    if not column.is_located:
        return values
    file = fragment.file_of(_leaf(column.field, len(column.path)).id)
    locations = [
        None if value is None or file is None else _location(table, file, value)
        for value in values.to_pylist()
    ]
    return pa.array(read_blobs(table, [(blob, None) for blob in locations]), pa.large_binary())


def _leaf(field: Field, depth: int) -> Field:
    for _ in range(depth - 1):
        (field,) = field.children
    return field


def _locations(
    table: Table, field: Field, addresses: np.ndarray[tuple[int], np.dtype[np.uint64]], described: pa.Array
) -> list[BlobLocation | None]:
    fragment_ids, _ = split_addresses(addresses)
    files: dict[int, DataFile] = {}
    for fragment_id in np.unique(fragment_ids).tolist():
        file = table.fragment(fragment_id).file_of(field.id)
        if file is not None:
            files[fragment_id] = file
    return [
        None
        if value is None or value in _NULLS or fragment_id not in files
        else _location(table, files[fragment_id], value)
        for fragment_id, value in zip(fragment_ids.tolist(), described.to_pylist(), strict=True)
    ]


def _location(table: Table, file: DataFile, described: dict[str, int | str]) -> BlobLocation:
    start, size = int(described["position"]), int(described["size"])
    kind, blob_id = int(described.get("kind", INLINE)), int(described.get("blob_id", 0))
    if kind == EXTERNAL:
        uri = str(described["blob_uri"])
        where = table.base_location(blob_id).child(uri) if blob_id else table.location.elsewhere(uri)
        return BlobLocation(where, start, size or None)
    if kind not in (INLINE, PACKED, DEDICATED):
        raise UnsupportedFeatureError(f"{table.uri}: a blob has the unknown kind {kind}")
    if not size:
        return BlobLocation(table.data_file_location(file), 0, 0)
    if kind == INLINE:
        return BlobLocation(table.data_file_location(file), start, size)
    beside = dataclasses.replace(file, path=sidecar_path(file.path, blob_id))
    return BlobLocation(table.data_file_location(beside), start, size)


def read_blobs(
    table: Table, wanted: Sequence[tuple[BlobLocation | None, tuple[int, int] | None]]
) -> list[bytes | None]:
    """Return the bytes of blobs, or of (offset, length) within them; None for NULL.

    Ranges of the same file share requests.

    Raises
    ------
    InvalidInputError
        A range ends after its blob.
    """
    by_file: dict[Location, list[int]] = {}
    for number, (blob, _) in enumerate(wanted):
        if blob is not None:
            by_file.setdefault(blob.location, []).append(number)
    contents: list[bytes | None] = [None] * len(wanted)

    def read(numbers: list[int]) -> list[bytes]:
        source: ByteSource | None = None
        ranges = []
        for number in numbers:
            blob, part = wanted[number]
            if blob is None:
                raise InvalidInputError("cannot read a blob that has no location")
            source, start, stop = blob.open() if source is None else _bounds(source, blob)
            ranges.append(ByteRange(start, stop) if part is None else _within(start, stop, part))
        return [] if source is None else [buffer.to_pybytes() for buffer in source.read_ranges(ranges)]

    groups = list(by_file.values())
    for numbers, values in zip(groups, map_reads(read, groups, where=table.location), strict=True):
        for number, value in zip(numbers, values, strict=True):
            contents[number] = value
    return contents


def _bounds(source: ByteSource, blob: BlobLocation) -> tuple[ByteSource, int, int]:
    return source, blob.start, source.size if blob.size is None else blob.start + blob.size


def _within(start: int, stop: int, part: tuple[int, int]) -> ByteRange:
    offset, length = part
    if offset < 0 or length < 0 or offset + length > stop - start:
        raise InvalidInputError(
            f"bytes {offset} to {offset + length} are out of range, the blob has {stop - start} bytes"
        )
    return ByteRange(start + offset, start + offset + length)
