"""Write one 2.x file: pages as they fill up, then the metadata."""

from __future__ import annotations

import dataclasses
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from lance_df.encodings.v2_0 import encode as encode_v2_0
from lance_df.encodings.v2_1 import encode as encode_v2_1
from lance_df.errors import InvalidInputError
from lance_df.format.file_metadata import ALIGNMENT_BYTES, PageInfo
from lance_df.format.file_tail import serialize_column, serialize_descriptor, serialize_tables_and_footer
from lance_df.storage import ByteRange

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lance_df.encodings.encoded_page import Buffer, EncodedPage
    from lance_df.format.schema import Field, Schema
    from lance_df.storage.sink import ByteSink

PAGE_BYTES = 8 * 1024 * 1024


class _Encoders(Protocol):
    """What the encoder modules of each version offer."""

    def column_field_ids(self, field: Field) -> list[int]: ...

    def encode_column(self, field: Field, array: pa.Array, *, version: str) -> list[list[EncodedPage]]: ...


_ENCODERS: Mapping[str, _Encoders] = {"2.0": encode_v2_0, "2.1": encode_v2_1, "2.2": encode_v2_1}


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """A finished file, as manifests describe it: ``fields[i]`` is stored in column ``column_indices[i]``."""

    num_rows: int
    size_bytes: int
    version: str
    fields: tuple[int, ...]
    column_indices: tuple[int, ...]


class FileWriter:
    """Encodes batches into pages and writes them as soon as they are full.

    Holds at most about ``page_bytes`` of each top-level column, beside the batches that these rows belong to.
    """

    def __init__(
        self, sink: ByteSink, schema: Schema, *, version: str = "2.2", page_bytes: int = PAGE_BYTES
    ) -> None:
        """Start a file.

        Parameters
        ----------
        sink
            Empty; closed by :meth:`finish`, removed by :meth:`abort`.
        schema
            The fields, with the ids that the table gave them.
        version
            ``"2.0"``, ``"2.1"`` or ``"2.2"``.
        page_bytes
            Arrow bytes of a column that become one page.
        """
        self.num_rows = 0
        self._sink = sink
        self._schema = schema
        self._version = version
        self._page_bytes = page_bytes
        self._encoders = _ENCODERS[version]
        self._pending = [_PendingColumn() for _ in schema.fields]
        self._field_ids = [self._encoders.column_field_ids(field) for field in schema.fields]
        self._pages: list[list[list[PageInfo]]] = [[[] for _ in ids] for ids in self._field_ids]
        self._global_buffers: list[ByteRange] = []

    @property
    def position(self) -> int:
        """Bytes in the file so far."""
        return self._sink.position

    def write_batch(self, arrays: Sequence[pa.Array]) -> None:
        """Add rows: one array of storage type for each field of the schema, all of the same length.

        Raises
        ------
        InvalidInputError
            Arrays that do not fit the schema, or a null where it allows none.
        StorageError
            The store failed.
        """
        if len(arrays) != len(self._schema.fields) or len({len(array) for array in arrays}) > 1:
            raise InvalidInputError(
                f"{len(self._schema.fields)} arrays of one length are needed, "
                f"got the lengths {[len(array) for array in arrays]}"
            )
        for column, array in enumerate(arrays):
            for piece in _pieces(array, self._page_bytes):
                pending = self._pending[column]
                pending.add(piece)
                if pending.num_bytes >= self._page_bytes:
                    self._flush(column)
        self.num_rows += len(arrays[0]) if arrays else 0

    def add_global_buffer(self, data: bytes) -> int:
        """Store application data and return its number (0 is the file's descriptor)."""
        self._global_buffers.append(self._write_aligned(data))
        return len(self._global_buffers)

    def finish(self, *, metadata: Mapping[str, bytes] | None = None) -> WrittenFile:
        """Write what is pending and the metadata, and make the file durable.

        Parameters
        ----------
        metadata
            Replaces the schema metadata in the file.
        """
        for column in range(len(self._pending)):
            self._flush(column)
        if not self.num_rows:
            self._add_headers()
        schema = (
            self._schema
            if metadata is None
            else type(self._schema)(fields=self._schema.fields, metadata=metadata)
        )
        descriptor = self._write_aligned(serialize_descriptor(schema, self.num_rows))
        columns = [self._write(serialize_column(pages)) for columns in self._pages for pages in columns]
        self._write(
            serialize_tables_and_footer(
                columns,
                [descriptor, *self._global_buffers],
                position=self._sink.position,
                version=self._version,
            )
        )
        self._sink.close()
        fields = [field_id for ids in self._field_ids for field_id in ids]
        return WrittenFile(
            num_rows=self.num_rows,
            size_bytes=self._sink.position,
            version=self._version,
            fields=tuple(fields),
            column_indices=tuple(range(len(fields))),
        )

    def abort(self) -> None:
        """Remove the unfinished file."""
        self._sink.abort()

    def _flush(self, column: int) -> None:
        pending = self._pending[column]
        for array, first_row in pending.take():
            pages_of_columns = self._encoders.encode_column(
                self._schema.fields[column], array, version=self._version
            )
            for pages, encoded in zip(self._pages[column], pages_of_columns, strict=True):
                for page in encoded:
                    self._add_page(pages, page, first_row)

    def _add_headers(self) -> None:
        """Encode no rows at all: the struct columns of 2.0 have a page even then."""
        for field, columns in zip(self._schema.fields, self._pages, strict=True):
            if self._version == "2.0":
                empty = pa.array([], field.arrow_type())
                for pages, encoded in zip(
                    columns, self._encoders.encode_column(field, empty, version="2.0"), strict=True
                ):
                    for page in encoded:
                        self._add_page(pages, page, 0)

    def _add_page(self, pages: list[PageInfo], page: EncodedPage, first_row: int) -> None:
        if page.joins_previous and pages:
            last = pages[-1]
            pages[-1] = dataclasses.replace(last, num_rows=last.num_rows + page.num_rows)
        elif page.num_rows or page.joins_previous:
            pages.append(self._write_page(page, first_row))

    def _write_page(self, page: EncodedPage, first_row: int) -> PageInfo:
        return PageInfo(
            buffers=tuple(self._write_aligned(buffer) for buffer in page.buffers),
            num_rows=page.num_rows,
            priority=0 if self._version == "2.0" else first_row,
            encoding_url=page.encoding_url,
            encoding=page.encoding,
        )

    def _write_aligned(self, data: Buffer) -> ByteRange:
        self._sink.write(bytes(-self._sink.position % ALIGNMENT_BYTES))
        return self._write(data)

    def _write(self, data: Buffer) -> ByteRange:
        start = self._sink.position
        self._sink.write(data)
        return ByteRange(start, self._sink.position)


class _PendingColumn:
    """Rows of a top-level column that are not in a page yet."""

    def __init__(self) -> None:
        self.num_bytes = 0
        self._first_row = 0
        self._arrays: list[pa.Array] = []

    def add(self, array: pa.Array) -> None:
        if len(array):
            self._arrays.append(array)
            self.num_bytes += array.nbytes

    def take(self) -> list[tuple[pa.Array, int]]:
        """Return what becomes a page, with its first row: one array, or several that do not fit together."""
        arrays, self._arrays, self.num_bytes = self._arrays, [], 0
        if len(arrays) > 1:
            # dictionaries whose union is too large for the index type fail, and become pages of their own
            with suppress(pa.ArrowInvalid):
                arrays = [pa.concat_arrays(arrays)]
        taken = []
        for array in arrays:
            taken.append((array, self._first_row))
            self._first_row += len(array)
        return taken


def _pieces(array: pa.Array, page_bytes: int) -> list[pa.Array]:
    num_bytes = array.nbytes
    if num_bytes <= page_bytes or len(array) < 2:
        return [array]
    rows = max(1, len(array) * page_bytes // num_bytes)
    return [array.slice(start, rows) for start in range(0, len(array), rows)]
