"""Read blobs as files, as bytes, or in part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from lance_df.api.base import DatasetBase
from lance_df.arguments import checked_integer, checked_text
from lance_df.errors import InvalidInputError, UnsupportedFeatureError
from lance_df.table.blobs.columns import find_blobs, read_blobs
from lance_df.table.reading.take import take_addresses, take_offsets, take_row_ids

if TYPE_CHECKING:
    from lance_df.blob import BlobFile
    from lance_df.table.blobs.columns import BlobLocation

Numbers: TypeAlias = "Sequence[int] | pa.Array"

_TAKES: dict[str, Callable[..., pa.Table]] = {
    "ids": take_row_ids,
    "addresses": take_addresses,
    "indices": take_offsets,
}


class BlobReading(DatasetBase):
    """Methods that read the blobs of chosen rows."""

    def take_blobs(
        self,
        blob_column: str,
        ids: Numbers | None = None,
        addresses: Numbers | None = None,
        indices: Numbers | None = None,
        *,
        buffer_size: int = 512 * 1024,
    ) -> list[BlobFile | None]:
        """Return blobs as files, with None for NULL. The bytes of the blobs are not read yet.

        Parameters
        ----------
        ids, addresses, indices
            The rows, given as row ids, as row addresses, or as positions in a scan of the whole table.
            Exactly one of them is required.
        buffer_size
            No effect.

        Raises
        ------
        InvalidInputError
            The column has no blobs, a row is deleted or does not exist, or not exactly one selection is
            given.
        """
        from lance_df.blob import BlobFile

        if checked_integer(buffer_size, "buffer_size") < 0:
            raise InvalidInputError(f"buffer_size is {buffer_size}, expected a number of bytes")
        _, blobs = self._find(blob_column, ids, addresses, indices)
        return [None if blob is None else BlobFile(blob) for blob in blobs]

    def read_blobs(
        self,
        blob_column: str,
        ids: Numbers | None = None,
        addresses: Numbers | None = None,
        indices: Numbers | None = None,
        *,
        io_buffer_size: int | None = None,
        preserve_order: bool | None = None,
    ) -> list[tuple[int, bytes | None]]:
        """Return (row address, bytes) of each row in the requested order, with None for NULL.

        The rows are selected as in :meth:`take_blobs`, which also lists the errors. The other arguments have
        no effect.
        """
        del io_buffer_size, preserve_order
        row_addresses, blobs = self._find(blob_column, ids, addresses, indices)
        return list(
            zip(row_addresses, read_blobs(self._table, [(blob, None) for blob in blobs]), strict=True)
        )

    def read_blob_ranges(
        self,
        blob_column: str,
        requests: Sequence[tuple[int, int, int]],
        *,
        selector: str,
        io_buffer_size: int | None = None,
        preserve_order: bool | None = None,
    ) -> list[tuple[int, int, bytes | None]]:
        """Return (number of the request, row address, bytes) of parts of blobs, in the requested order.

        Parameters
        ----------
        requests
            Tuples (row, offset, length). A row may occur several times.
        selector
            How rows are identified: ``"ids"``, ``"addresses"`` or ``"indices"``.
        io_buffer_size, preserve_order
            No effect.

        Raises
        ------
        InvalidInputError
            As for :meth:`take_blobs`; or a range ends after the end of its blob.
        """
        del io_buffer_size, preserve_order
        if checked_text(selector, "selector") not in _TAKES:
            raise InvalidInputError(f"selector must be one of {', '.join(_TAKES)}, got {selector!r:.60}")
        rows = [row for row, _, _ in requests]
        row_addresses, blobs = self._find(blob_column, **{selector: rows})
        parts = [(offset, length) for _, offset, length in requests]
        values = read_blobs(self._table, list(zip(blobs, parts, strict=True)))
        return [(number, *pair) for number, pair in enumerate(zip(row_addresses, values, strict=True))]

    def _find(
        self,
        column: str,
        ids: Numbers | None = None,
        addresses: Numbers | None = None,
        indices: Numbers | None = None,
    ) -> tuple[list[int], list[BlobLocation | None]]:
        given = {"ids": ids, "addresses": addresses, "indices": indices}
        chosen = {kind: rows for kind, rows in given.items() if rows is not None}
        if len(chosen) != 1:
            raise InvalidInputError("exactly one of ids, indices or addresses must be given")
        ((kind, rows),) = chosen.items()

        def take(columns: Sequence[str]) -> pa.Table:
            rows_read = _TAKES[kind](self._table, rows, columns=columns)
            if rows_read.num_rows != len(rows):
                deleted = len(rows) - rows_read.num_rows
                raise UnsupportedFeatureError(
                    f"{self._table.uri}: A take operation that includes row addresses must not target "
                    f"deleted rows: of the {len(rows)} rows given as {kind}, {deleted} are deleted"
                )
            return rows_read

        return find_blobs(self._table, column, take)
