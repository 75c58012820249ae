"""Move blobs out of the columns of a file that is being written. Spec: 3.3, 4.6 and 5.6."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_df.file.blobs.columns import as_moved, map_blobs
from lance_df.file.blobs.contents import BlobContents
from lance_df.format.blobs import (
    DEDICATED,
    DESCRIPTOR,
    DESCRIPTOR_2_2,
    EXTERNAL,
    INLINE,
    PACKED,
    BlobThresholds,
)
from lance_df.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lance_df.file.blobs.contents import Content, OpenSource
    from lance_df.file.blobs.sidecars import Sidecars
    from lance_df.format.schema import Field


@dataclass(frozen=True, slots=True)
class BlobPlacement:
    """Where to copy blobs from, and where to store those outside of the data file.

    Attributes
    ----------
    sidecars
        The files beside the data file, which hold the large blobs of 2.2 files.
    open_source
        Opens the files to copy from.
    pack_bytes
        The maximum size of files that hold several blobs; by default that of the columns.
    """

    sidecars: Sidecars
    open_source: OpenSource
    pack_bytes: int | None = None


class BlobMover:
    """Stores the blobs of one data file, and returns their descriptions."""

    def __init__(
        self, write_inline: Callable[[Iterable[memoryview]], int], placement: BlobPlacement | None
    ) -> None:
        """Prepare to store blobs.

        Parameters
        ----------
        write_inline
            Writes bytes into the data file and returns their position.
        placement
            Where else to store blobs; if None, all blobs are stored in the data file.
        """
        self._write_inline = write_inline
        self._sidecars = None if placement is None else placement.sidecars
        self._open_source = None if placement is None else placement.open_source
        self._pack_bytes = None if placement is None else placement.pack_bytes

    def move(self, array: pa.Array, field: Field) -> pa.Array:
        """Store the blobs of a column; return the column with descriptions in their place.

        Parameters
        ----------
        array
            The column, of the field's storage type or with `MOVED_BLOB` values.

        Raises
        ------
        InvalidInputError
            A blob has both bytes and a URI, or neither; or the thresholds are wrong.
        NotFoundError, CorruptDataError
            A file to copy from does not exist, or is too short.
        """
        return map_blobs(as_moved(array, field), field, self._described)

    def close(self) -> None:
        """Make the files beside the data file durable."""
        if self._sidecars is not None:
            self._sidecars.close()

    def abort(self) -> None:
        """Remove the files beside the data file."""
        if self._sidecars is not None:
            self._sidecars.abort()

    def _described(self, array: pa.Array, field: Field) -> pa.StructArray:
        contents = BlobContents(array, field.name)
        positions, sizes = np.zeros((2, len(array)), np.uint64)
        mask = pa.array(contents.is_null) if array.null_count else None
        if not field.is_struct:
            for each in contents.stored(self._open_source):
                positions[each.row], sizes[each.row] = self._inline(each), each.size
            children = [pa.array(positions), pa.array(sizes)]
            return pa.StructArray.from_arrays(children, fields=list(DESCRIPTOR), mask=mask)
        thresholds = BlobThresholds.of(field.metadata)
        external = contents.is_reference
        kinds = np.where(external, EXTERNAL, INLINE).astype(np.uint8)
        blob_ids = np.where(external, contents.base_ids, 0).astype(np.uint32)
        positions[external], sizes[external] = contents.positions[external], contents.sizes[external]
        for each in contents.stored(self._open_source):
            row, sizes[each.row] = each.row, each.size
            kinds[row], positions[row], blob_ids[row] = self._written(each, thresholds)
        uris = pa.compute.if_else(pa.array(external), contents.uris, "")
        children = [*map(pa.array, (kinds, positions, sizes, blob_ids)), uris]
        return pa.StructArray.from_arrays(children, fields=list(DESCRIPTOR_2_2), mask=mask)

    def _written(self, content: Content, thresholds: BlobThresholds) -> tuple[int, int, int]:
        """Store a blob where its size requires, and return its kind, its position and the id of the file."""
        if self._sidecars is not None and content.size > thresholds.dedicated:
            return DEDICATED, 0, self._sidecars.add_dedicated(content.pieces)
        if self._sidecars is not None and content.size > thresholds.inline:
            pack_bytes = thresholds.pack_file if self._pack_bytes is None else self._pack_bytes
            blob_id, start = self._sidecars.add_packed(content.pieces, content.size, pack_bytes=pack_bytes)
            return PACKED, start, blob_id
        return INLINE, self._inline(content), 0

    def _inline(self, content: Content) -> int:
        return self._write_inline(content.pieces) if content.size else 0
