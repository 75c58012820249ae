"""Write one 2.x file: pages as they fill up, then the metadata."""

from __future__ import annotations

import dataclasses
import os
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import cache, partial
from typing import TYPE_CHECKING, Protocol, TypeAlias

import pyarrow as pa

from lance_df.encodings.v2_0 import encode as encode_v2_0
from lance_df.encodings.v2_1 import encode_columns as encode_v2_1
from lance_df.errors import InvalidInputError
from lance_df.file.blobs.columns import has_blobs
from lance_df.file.blobs.writer import BlobMover
from lance_df.file.texts import check_texts
from lance_df.file.v2.container_writer import ContainerWriter
from lance_df.file.v2.dictionary_room import DictionaryRoom
from lance_df.format.blobs import blob_description
from lance_df.format.file_tail import serialize_column, serialize_descriptor
from lance_df.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from lance_df.encodings.encoded_page import EncodedPage
    from lance_df.file.blobs.writer import BlobPlacement
    from lance_df.format.column_metadata import PageInfo
    from lance_df.format.schema import Field, Schema
    from lance_df.storage import ByteRange
    from lance_df.storage.sink import ByteSink

PAGE_BYTES = 8 * 1024 * 1024
# Encoding smaller pages takes less time than starting a thread.
_MIN_THREAD_BYTES = 512 * 1024
_MAX_THREADS = 8


class _Encoders(Protocol):
    """The functions of the encoder modules of each version."""

    def column_field_ids(self, field: Field) -> list[int]: ...

    def encode_column(self, field: Field, array: pa.Array, *, version: str) -> list[list[EncodedPage]]: ...


EncodedRows: TypeAlias = "list[tuple[int, list[list[EncodedPage]]]]"
"""For each run of rows that is encoded by itself: its first row, and the pages of its file columns."""

_ENCODERS: Mapping[str, _Encoders] = {"2.0": encode_v2_0, "2.1": encode_v2_1, "2.2": encode_v2_1}


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """A finished file as manifests describe it: ``fields[i]`` is stored in column ``column_indices[i]``."""

    num_rows: int
    size_bytes: int
    version: str
    fields: tuple[int, ...]
    column_indices: tuple[int, ...]


class FileWriter:
    """Encodes batches into pages and writes pages as soon as they are full.

    The writer holds at most about ``page_bytes`` of each top-level column, the batches that these rows belong
    to, and one more page for each processor: pages are encoded in threads, and written in the order in which
    they became full.
    """

    def __init__(
        self,
        sink: ByteSink,
        schema: Schema,
        *,
        version: str = "2.2",
        page_bytes: int = PAGE_BYTES,
        blob_placement: BlobPlacement | None = None,
        num_encoders: int | None = None,
    ) -> None:
        """Start a file.

        Parameters
        ----------
        sink
            An empty sink; closed by :meth:`finish`, removed by :meth:`abort`.
        schema
            The fields, with the ids that the table assigned.
        version
            ``"2.0"``, ``"2.1"`` or ``"2.2"``.
        page_bytes
            The Arrow bytes of a column that become one page.
        blob_placement
            Where to copy blobs from, and where to store those outside of this file; closed and removed with
            it.
        num_encoders
            How many pages to encode at the same time, by default the number of processors; 1 uses no threads.
        """
        self.num_rows = 0
        self._sink = sink
        self._container = ContainerWriter(sink, version)
        self._schema = schema
        self._version = version
        self._page_bytes = page_bytes
        self._encoders = _ENCODERS[version]
        self._pending = [_PendingColumn() for _ in schema.fields]
        self._field_ids = [self._encoders.column_field_ids(field) for field in schema.fields]
        self._pages: list[list[list[PageInfo]]] = [[[] for _ in ids] for ids in self._field_ids]
        self._global_buffers: list[ByteRange] = []
        self._encoder_pool = _EncoderPool(num_encoders or num_threads())
        self._dictionary_room = DictionaryRoom(schema.fields)
        self._has_blobs = any(has_blobs(field) for field in schema.fields)
        self._blobs = BlobMover(self._write_blob, blob_placement)

    @property
    def position(self) -> int:
        """The number of bytes in the file so far."""
        return self._sink.position

    def has_room(self, arrays: Sequence[pa.Array]) -> bool:
        """Whether the dictionaries of these rows, together with those before, fit their index types."""
        return self._dictionary_room.has_room(arrays)

    def write_batch(self, arrays: Sequence[pa.Array]) -> None:
        """Add rows: one array of storage type for each field of the schema, all of the same length.

        Raises
        ------
        InvalidInputError
            The arrays do not fit the schema, a null is not allowed, a string is not UTF-8, or a dictionary
            has more values than its index type can number; see `has_room`.
        StorageError
            The store failed.
        """
        if len(arrays) != len(self._schema.fields) or len({len(array) for array in arrays}) > 1:
            raise InvalidInputError(
                f"expected {len(self._schema.fields)} arrays of the same length, got the lengths "
                f"{[len(array) for array in arrays]}"
            )
        check_texts(self._schema.fields, arrays)
        self._dictionary_room.add(arrays)
        for column, array in enumerate(self._without_blobs(arrays)):
            for piece, num_bytes in _pieces(array, self._page_bytes):
                pending = self._pending[column]
                pending.add(piece, num_bytes)
                if pending.num_bytes >= self._page_bytes:
                    self._flush(column)
        self.num_rows += len(arrays[0]) if arrays else 0

    def add_global_buffer(self, data: bytes) -> int:
        """Store application data as a global buffer and return its number (0 is the file's descriptor)."""
        self._global_buffers.append(self._container.write_aligned(data))
        return len(self._global_buffers)

    def finish(self, *, metadata: Mapping[str, bytes] | None = None) -> WrittenFile:
        """Write pending rows and the metadata, and make the file durable.

        Parameters
        ----------
        metadata
            Replaces the schema metadata of the file.
        """
        self.flush()
        if not self.num_rows:
            self._add_headers()
        schema = self._schema
        if self._has_blobs:
            schema = dataclasses.replace(schema, fields=tuple(map(_stored_field, schema.fields)))
        if metadata is not None:
            schema = dataclasses.replace(schema, metadata=metadata)
        blobs = set()
        if self._has_blobs and self._version == "2.0":
            blobs = {field.id for field in self._schema.walk() if field.is_blob}
        fields = [field_id for ids in self._field_ids for field_id in ids]
        pages = [each for columns in self._pages for each in columns]
        self._container.finish(
            serialize_descriptor(schema, self.num_rows),
            (
                serialize_column(each, is_blob=field_id in blobs)
                for field_id, each in zip(fields, pages, strict=True)
            ),
            self._global_buffers,
        )
        self._blobs.close()
        self._sink.close()
        return WrittenFile(
            num_rows=self.num_rows,
            size_bytes=self._sink.position,
            version=self._version,
            fields=tuple(fields),
            column_indices=tuple(range(len(fields))),
        )

    def flush(self) -> None:
        """Write pending rows as pages, and hold no rows and no threads until more are added."""
        for column in range(len(self._pending)):
            self._flush(column)
        while self._encoder_pool.num_pages:
            self._write_next()
        self._encoder_pool.close()

    def abort(self) -> None:
        """Remove the unfinished file."""
        self._encoder_pool.close()
        self._blobs.abort()
        self._sink.abort()

    def _without_blobs(self, arrays: Sequence[pa.Array]) -> Sequence[pa.Array]:
        if not self._has_blobs:
            return arrays
        pairs = zip(arrays, self._schema.fields, strict=True)
        return [self._blobs.move(array, field) if has_blobs(field) else array for array, field in pairs]

    def _write_blob(self, pieces: Iterable[memoryview]) -> int:
        start = self._container.write_aligned(b"").start
        for piece in pieces:
            self._container.write(piece)
        return start

    def _flush(self, column: int) -> None:
        pending = self._pending[column]
        if not pending.num_rows:
            return
        field, encode_column, version = (
            self._schema.fields[column],
            self._encoders.encode_column,
            self._version,
        )
        num_bytes, first_row, arrays = pending.num_bytes, pending.first_row, pending.take()
        encode = partial(_encode_rows, partial(encode_column, field, version=version), arrays, first_row)
        self._encoder_pool.add(_FullPage(column, num_bytes, encode))
        while self._encoder_pool.is_full:
            self._write_next()

    def _write_next(self) -> None:
        """Wait for the oldest full page, and write it."""
        page, encoded_rows = self._encoder_pool.take()
        for first_row, columns in encoded_rows:
            for pages, encoded in zip(self._pages[page.column], columns, strict=True):
                for encoded_page in encoded:
                    self._add_page(pages, encoded_page, first_row)

    def _add_headers(self) -> None:
        """Encode zero rows, since struct columns of 2.0 have a page even then."""
        if self._version != "2.0":
            return
        fields = self._schema.fields
        arrays = self._without_blobs([pa.array([], field.arrow_type()) for field in fields])
        for field, array, columns in zip(fields, arrays, self._pages, strict=True):
            encoded_columns = self._encoders.encode_column(field, array, version="2.0")
            for pages, encoded in zip(columns, encoded_columns, strict=True):
                for page in encoded:
                    self._add_page(pages, page, 0)

    def _add_page(self, pages: list[PageInfo], page: EncodedPage, first_row: int) -> None:
        if page.joins_previous and pages:
            last = pages[-1]
            pages[-1] = dataclasses.replace(last, num_rows=last.num_rows + page.num_rows)
        elif page.num_rows or page.joins_previous:
            pages.append(self._container.write_page(page, first_row=first_row))


@dataclass(frozen=True, slots=True)
class _FullPage:
    """Rows of a top-level column that become one page in each of its file columns."""

    column: int
    num_bytes: int
    encode: Callable[[], EncodedRows]


@cache
def num_threads() -> int:
    """Return the number of pages to encode at the same time."""
    return min(os.cpu_count() or 1, _MAX_THREADS)


class _EncoderPool:
    """Encodes a few pages at the same time, and returns them in the order in which they were added."""

    def __init__(self, num_encoders: int) -> None:
        self._num_encoders = num_encoders
        self._waiting: deque[tuple[_FullPage, Future[EncodedRows] | None]] = deque()
        self._threads: ThreadPoolExecutor | None = None

    @property
    def num_pages(self) -> int:
        return len(self._waiting)

    @property
    def is_full(self) -> bool:
        """Whether as many pages are waiting as can be encoded at the same time."""
        return len(self._waiting) > (self._num_encoders if self._num_encoders > 1 else 0)

    def add(self, page: _FullPage) -> None:
        future = None
        if self._num_encoders > 1 and page.num_bytes >= _MIN_THREAD_BYTES:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(self._num_encoders, "lance-df-encode")
            future = self._threads.submit(page.encode)
        self._waiting.append((page, future))

    def take(self) -> tuple[_FullPage, EncodedRows]:
        """Return the first page, encoded; raises the error of its encoding."""
        page, future = self._waiting.popleft()
        return page, page.encode() if future is None else future.result()

    def close(self) -> None:
        """Stop the threads, and drop pages whose encoding has not begun."""
        self._waiting.clear()
        if self._threads is not None:
            self._threads.shutdown(cancel_futures=True)
            self._threads = None


class _PendingColumn:
    """Rows of a top-level column that are not in a page yet."""

    def __init__(self) -> None:
        self.num_bytes = 0
        self.num_rows = 0
        self.first_row = 0
        self._arrays: list[pa.Array] = []

    def add(self, array: pa.Array, num_bytes: int) -> None:
        if len(array):
            self._arrays.append(array)
            self.num_bytes += num_bytes
            self.num_rows += len(array)

    def take(self) -> list[pa.Array]:
        """Remove and return the pending rows."""
        arrays, self._arrays = self._arrays, []
        self.first_row += self.num_rows
        self.num_bytes = self.num_rows = 0
        return arrays


def _encode_rows(
    encode: Callable[[pa.Array], list[list[EncodedPage]]], arrays: list[pa.Array], first_row: int
) -> EncodedRows:
    """Encode rows as one page, or as several if an array cannot hold them together."""
    if len(arrays) > 1:
        # values that are too large for one array raise, and the arrays become separate pages
        with suppress(pa.ArrowInvalid):
            arrays = [pa.concat_arrays(arrays)]
    encoded = []
    for array in arrays:
        encoded.append((first_row, encode(array)))
        first_row += len(array)
    return encoded


def _stored_field(field: Field) -> Field:
    """Return a field as the file stores it; structs of blobs become those of their descriptions."""
    if field.is_blob:
        return blob_description(field) if field.is_struct else field
    return field.with_children(_stored_field(child) for child in field.children)


def _pieces(array: pa.Array, page_bytes: int) -> list[tuple[pa.Array, int]]:
    """Split an array into pieces of about one page at most; return each with its number of bytes."""
    num_bytes = _num_bytes(array)
    if num_bytes <= page_bytes or len(array) < 2:
        return [(array, num_bytes)]
    rows = max(1, len(array) * page_bytes // num_bytes)
    pieces = [array.slice(start, rows) for start in range(0, len(array), rows)]
    return [(piece, _num_bytes(piece)) for piece in pieces]


def _num_bytes(array: pa.Array) -> int:
    # adding up the sizes of buffers takes as long as writing a small column
    if pa.types.is_primitive(array.type):
        return len(array) * array.type.bit_width // 8
    return array.nbytes
