"""Write the container of a 2.x file: buffers one after another, then the metadata that refers to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from lance_df.format.column_metadata import PageInfo
from lance_df.format.file_metadata import ALIGNMENT_BYTES
from lance_df.format.file_tail import serialize_tables_and_footer
from lance_df.storage import ByteRange

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lance_df.encodings.encoded_page import Buffer, EncodedPage


class Sink(Protocol):
    """Receives the bytes of a file, from start to end."""

    @property
    def position(self) -> int: ...

    def write(self, data: Buffer, /) -> None: ...


class ContainerWriter:
    """Writes buffers, and finally the metadata.

    Parameters
    ----------
    sink
        An empty sink; this class does not close it.
    version
        ``"2.0"``, ``"2.1"`` or ``"2.2"``.
    """

    def __init__(self, sink: Sink, version: str) -> None:
        self._sink = sink
        self._version = version

    def write(self, data: Buffer) -> ByteRange:
        """Write bytes at the end of the file."""
        start = self._sink.position
        self._sink.write(data)
        return ByteRange(start, self._sink.position)

    def write_aligned(self, data: Buffer) -> ByteRange:
        """Write bytes with the alignment that buffers of pages and global buffers need."""
        if padding := -self._sink.position % ALIGNMENT_BYTES:
            self._sink.write(bytes(padding))
        return self.write(data)

    def write_page(self, page: EncodedPage, *, first_row: int) -> PageInfo:
        """Write the buffers of a page, and return its entry in the column metadata."""
        return PageInfo(
            buffers=tuple(map(self.write_aligned, page.buffers)),
            num_rows=page.num_rows,
            priority=self.priority(first_row),
            encoding_url=page.encoding_url,
            encoding=page.encoding,
        )

    def priority(self, first_row: int) -> int:
        """Return the ``priority`` of a page, given its first row in the file."""
        return 0 if self._version == "2.0" else first_row

    def finish(
        self, descriptor: bytes, columns: Iterable[bytes], global_buffers: Sequence[ByteRange] = ()
    ) -> None:
        """Write the metadata.

        Parameters
        ----------
        descriptor
            See :func:`lance_df.format.file_tail.serialize_descriptor`.
        columns
            The metadata of each column, see :func:`lance_df.format.file_tail.serialize_column`.
        global_buffers
            The global buffers that were written, without the descriptor.
        """
        buffers = [self.write_aligned(descriptor), *global_buffers]
        written = list(map(self.write, columns))
        position = self._sink.position
        self.write(serialize_tables_and_footer(written, buffers, position=position, version=self._version))
