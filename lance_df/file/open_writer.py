"""Open the data file writer for a file version."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from lance_df.file.legacy.writer import LegacyFileWriter
from lance_df.file.v2.writer import PAGE_BYTES, FileWriter

if TYPE_CHECKING:
    import pyarrow as pa

    from lance_df.file.blobs.writer import BlobPlacement
    from lance_df.file.v2.writer import WrittenFile
    from lance_df.format.schema import Schema
    from lance_df.storage.sink import ByteSink


class DataFileWriter(Protocol):
    """Writes one data file. See :class:`lance_df.file.v2.writer.FileWriter`."""

    num_rows: int

    @property
    def position(self) -> int:
        """The number of bytes in the file so far."""
        ...

    def has_room(self, arrays: Sequence[pa.Array]) -> bool:
        """Whether the file has room for these rows in addition to those before."""
        ...

    def write_batch(self, arrays: Sequence[pa.Array]) -> None:
        """Add rows: one array of storage type for each field of the schema."""
        ...

    def flush(self) -> None:
        """Write pending rows, unless the format has batches of a fixed number of rows."""
        ...

    def finish(self) -> WrittenFile:
        """Write pending rows and the metadata, and make the file durable."""
        ...

    def abort(self) -> None:
        """Remove the unfinished file."""
        ...


def open_writer(
    sink: ByteSink,
    schema: Schema,
    *,
    version: str,
    page_bytes: int = PAGE_BYTES,
    rows_per_group: int = 1024,
    dictionaries: dict[int, pa.Array] | None = None,
    blob_placement: BlobPlacement | None = None,
    num_encoders: int | None = None,
) -> DataFileWriter:
    """Start a data file.

    Parameters
    ----------
    sink
        An empty sink; closed by ``finish``, removed by ``abort``.
    schema
        The fields, with the ids that the table assigned.
    version
        ``"0.1"``, ``"2.0"``, ``"2.1"`` or ``"2.2"``.
    page_bytes
        2.x only: the Arrow bytes of a column that become one page.
    rows_per_group, dictionaries
        0.1 only, see :class:`lance_df.file.legacy.writer.LegacyFileWriter`.
    blob_placement
        Where to copy blobs from, and where to store those outside of the file.
    num_encoders
        2.x only, see :class:`lance_df.file.v2.writer.FileWriter`.
    """
    if version == "0.1":
        return LegacyFileWriter(sink, schema, rows_per_group=rows_per_group, dictionaries=dictionaries)
    return FileWriter(
        sink,
        schema,
        version=version,
        page_bytes=page_bytes,
        blob_placement=blob_placement,
        num_encoders=num_encoders,
    )
