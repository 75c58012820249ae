"""Write a 2.x file from the pages of other files without decoding them.

A page of 2.1 and later is self-contained: its layout includes the levels of the lists and structs around the
values, and it has no positions outside of its own buffers (except for blobs, which cannot be copied in this
way). In 2.0 this holds for columns without children.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from lance_df.encodings.v2_1.encode_columns import column_field_ids
from lance_df.errors import CorruptDataError, UnsupportedFeatureError
from lance_df.file.v2.container_writer import ContainerWriter
from lance_df.file.v2.writer import WrittenFile
from lance_df.format.file_tail import serialize_column, serialize_descriptor

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from lance_df.file.v2.container import Container
    from lance_df.format.column_metadata import PageInfo
    from lance_df.format.schema import Schema
    from lance_df.storage.sink import ByteSink

_READ_BYTES = 32 * 1024 * 1024


class PageCopier:
    """Writes a file from pages of other files, one source file (or set of source files) at a time.

    Parameters
    ----------
    sink
        An empty sink; closed by :meth:`finish`.
    schema
        The fields, with the ids that the table assigned.
    version
        The version of the source files.
    """

    def __init__(self, sink: ByteSink, schema: Schema, *, version: str) -> None:
        self.num_rows = 0
        self._sink = sink
        self._container = ContainerWriter(sink, version)
        self._schema = schema
        self._version = version
        self._field_ids = copied_field_ids(schema)
        self._pages: list[list[PageInfo]] = [[] for _ in self._field_ids]

    @property
    def position(self) -> int:
        """The number of bytes in the file so far."""
        return self._sink.position

    def add(self, columns: Sequence[tuple[Container, int]], num_rows: int) -> None:
        """Append rows, given a file and a column number for each id of :func:`copied_field_ids`.

        Parameters
        ----------
        num_rows
            The number of rows, which all the files have.

        Raises
        ------
        CorruptDataError
            The pages of a column have another number of rows.
        UnsupportedFeatureError
            A column has other data than its pages.
        StorageError
            A store failed.
        """
        for pages, (container, number) in zip(self._pages, columns, strict=True):
            column = container.column(number)
            if column.buffers:
                raise UnsupportedFeatureError(
                    f"{container.path}: column {number} has buffers outside its pages, which cannot be "
                    "copied; re-encode it instead"
                )
            copied = column.pages
            # pages of fixed-size lists may count items, a fixed number for each row
            held = sum(page.num_rows for page in copied)
            if held % max(num_rows, 1) or (held == 0) != (num_rows == 0):
                raise CorruptDataError(
                    f"{container.path}: column {number} has {held} rows, but its fragment has {num_rows}"
                )
            first_row = self.num_rows
            for page, buffers in _read(container, copied):
                ranges = tuple(self._container.write_aligned(memoryview(buffer)) for buffer in buffers)
                priority = self._container.priority(first_row)
                pages.append(dataclasses.replace(page, buffers=ranges, priority=priority))
                first_row += page.num_rows * num_rows // held
        self.num_rows += num_rows

    def finish(self) -> WrittenFile:
        """Write the metadata, and make the file durable."""
        descriptor = serialize_descriptor(self._schema, self.num_rows)
        self._container.finish(descriptor, map(serialize_column, self._pages))
        self._sink.close()
        return WrittenFile(
            num_rows=self.num_rows,
            size_bytes=self._sink.position,
            version=self._version,
            fields=tuple(self._field_ids),
            column_indices=tuple(range(len(self._field_ids))),
        )


def copied_field_ids(schema: Schema) -> list[int]:
    """Return the ids of the fields that have a column of their own, in file order."""
    return [field_id for field in schema.fields for field_id in column_field_ids(field)]


def _read(container: Container, pages: Sequence[PageInfo]) -> Iterator[tuple[PageInfo, Sequence[pa.Buffer]]]:
    """Yield pages with their buffers, read with few requests and in bounded memory."""
    start = 0
    while start < len(pages):
        stop, num_bytes = start, 0
        while stop < len(pages) and num_bytes < _READ_BYTES:
            num_bytes += sum(buffer.num_bytes for buffer in pages[stop].buffers)
            stop += 1
        chosen = pages[start:stop]
        buffers = iter(container.source.read_ranges([each for page in chosen for each in page.buffers]))
        for page in chosen:
            yield page, [next(buffers) for _ in page.buffers]
        start = stop
