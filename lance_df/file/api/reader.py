"""`LanceFileReader`: read a single data file, with the names of pylance."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lance_df.arguments import checked_integer, checked_items, checked_names
from lance_df.encodings.plan import RowRange
from lance_df.errors import ColumnNotFoundError, InvalidInputError, UnsupportedFeatureError
from lance_df.exits import busy, stoppable
from lance_df.file.describe import describe_file
from lance_df.file.open import open_file
from lance_df.file.v2.container import Container
from lance_df.format.blobs import blob_description
from lance_df.format.file_metadata import Footer
from lance_df.records import dataclass
from lance_df.storage import open_location

if TYPE_CHECKING:
    import os

    from lance_df.encodings.plan import Rows
    from lance_df.format.schema import Field

__all__ = [
    "ColumnStatistics",
    "LanceBufferDescriptor",
    "LanceColumnMetadata",
    "LanceFileMetadata",
    "LanceFileReader",
    "LanceFileStatistics",
    "LancePageMetadata",
    "ReaderResults",
]

_READ_BYTES = 16 * 1024 * 1024
_MAX_READ_ROWS = 64 * 1024


@dataclass(frozen=True, slots=True)
class LanceBufferDescriptor:
    """The position and size of a buffer in the file, in bytes."""

    position: int
    size: int


@dataclass(frozen=True, slots=True)
class LancePageMetadata:
    """A page: its buffers, and its encoding as text."""

    buffers: list[LanceBufferDescriptor]
    encoding: str


@dataclass(frozen=True, slots=True)
class LanceColumnMetadata:
    """A column of the file."""

    column_buffers: list[LanceBufferDescriptor]
    pages: list[LancePageMetadata]


@dataclass(frozen=True, slots=True)
class LanceFileMetadata:
    """The metadata of a 2.x file."""

    schema: pa.Schema
    num_rows: int
    num_data_bytes: int
    num_column_metadata_bytes: int
    num_global_buffer_bytes: int
    global_buffers: list[LanceBufferDescriptor]
    columns: list[LanceColumnMetadata]
    major_version: int
    minor_version: int


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """The size of a column of the file."""

    num_pages: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class LanceFileStatistics:
    """The sizes of the columns of the file."""

    columns: list[ColumnStatistics]


class ReaderResults:
    """The requested rows. They are read when they are converted."""

    def __init__(self, reader: pa.RecordBatchReader) -> None:
        self.reader = reader

    def to_batches(self) -> pa.RecordBatchReader:
        """Return a reader of the batches."""
        return self.reader

    def to_table(self) -> pa.Table:
        """Read the rows into a pyarrow Table."""
        with busy():
            return self.reader.read_all()


class LanceFileReader:
    """An open data file of any version from 0.1 to 2.2.

    Blobs of 2.0 and 2.1 files are returned as bytes. Blobs of 2.2 files are returned as descriptions of the
    location of the bytes.

    Parameters
    ----------
    path
        A path or URL.
    storage_options
        Options for the fsspec filesystem. They never appear in messages.
    columns
        Names of columns, or of struct fields as ``"a.b"``, which are returned as structs of the requested
        fields. The default is all columns.

    Raises
    ------
    NotFoundError
        There is no such file.
    CorruptDataError
        The file is not a Lance file, or is damaged.
    ColumnNotFoundError
        The file has no such column.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        storage_options: Mapping[str, Any] | None = None,
        columns: Sequence[str] | None = None,
    ) -> None:
        names = None if columns is None else checked_names(columns, "columns")
        self._source = open_location(path, storage_options).open()
        self._reader = open_file(self._source)
        schema = self._reader.schema
        fields = schema.fields if names is None else _project(schema.fields, names)
        if self._reader.version == "2.2":
            fields = tuple(_with_described_blobs(field) for field in fields)
        self._fields = fields
        self._stored = pa.schema([field.to_arrow() for field in self._fields], schema.arrow_metadata)

    def __repr__(self) -> str:
        return (
            f"<lance_df.LanceFileReader {self._reader.path} version {self._reader.version}: "
            f"{self.num_rows()} rows, {len(self._fields)} columns>"
        )

    def num_rows(self) -> int:
        """Return the number of rows of the file."""
        return self._reader.num_rows

    def read_all(self, *, batch_size: int = 1024, batch_readahead: int = 16) -> ReaderResults:
        """Read the whole file, in batches of at most ``batch_size`` rows."""
        return self.read_range(0, self.num_rows(), batch_size=batch_size, batch_readahead=batch_readahead)

    def read_range(
        self,
        start: int,
        num_rows: int,
        *,
        batch_size: int = 1024,
        batch_readahead: int = 16,  # noqa: ARG002 - pylance's; it only tunes
    ) -> ReaderResults:
        """Read ``num_rows`` rows, beginning with row ``start``.

        Raises
        ------
        InvalidInputError
            The file has no such rows.
        """
        start, num_rows = checked_integer(start, "start"), checked_integer(num_rows, "num_rows")
        if start < 0 or num_rows < 0 or start + num_rows > self.num_rows():
            raise InvalidInputError(
                f"{self._reader.path}: rows {start} to {start + num_rows} are out of range, the file has "
                f"{self.num_rows()} rows"
            )
        step = self._rows_at_once()
        stop = start + num_rows
        rows = (RowRange(low, min(low + step, stop)) for low in range(start, stop, step))
        return self._results(rows, batch_size)

    def take_rows(
        self,
        indices: Sequence[int] | pa.Array | pa.ChunkedArray,
        *,
        batch_size: int = 1024,
        batch_readahead: int = 16,  # noqa: ARG002 - pylance's; it only tunes
    ) -> ReaderResults:
        """Read single rows.

        Parameters
        ----------
        indices
            Row numbers in ascending order, without duplicates.

        Raises
        ------
        InvalidInputError
            The row numbers are not in ascending order, or the file has no such rows.
        """
        if isinstance(indices, pa.Array | pa.ChunkedArray):
            indices = indices.to_pylist()
        positions = np.asarray(checked_items(indices, "indices", "a sequence of integers"))
        if positions.size and (positions.ndim != 1 or positions.dtype.kind not in "iu"):
            raise InvalidInputError("indices must be a sequence of integers")
        if (positions[1:] <= positions[:-1]).any():
            raise InvalidInputError("indices must be in ascending order, without duplicates")
        if positions.size and not (positions[0] >= 0 and int(positions[-1]) < self.num_rows()):
            raise InvalidInputError(
                f"{self._reader.path}: rows {positions[0]} to {positions[-1]} are out of range, the file "
                f"has {self.num_rows()} rows"
            )
        step = self._rows_at_once()
        wanted = positions.astype(np.int64)
        return self._results((wanted[low : low + step] for low in range(0, len(wanted), step)), batch_size)

    def metadata(self) -> LanceFileMetadata:
        """Return the metadata of the file.

        Raises
        ------
        UnsupportedFeatureError
            The file is a 0.1 file, which does not have this metadata.
        """
        container = self._container()
        described = describe_file(self._source, self._reader)
        footer = container.footer
        buffers = [container.global_buffer_range(index) for index in range(container.num_global_buffers)]
        num_global_bytes = sum(buffer.num_bytes for buffer in buffers)
        columns = []
        for number in range(container.num_columns):
            info = container.column(number)
            texts = (page.encoding for page in described.columns[number].pages)
            pages = [
                LancePageMetadata([_descriptor(buffer) for buffer in page.buffers], text)
                for page, text in zip(info.pages, texts, strict=True)
            ]
            columns.append(LanceColumnMetadata([_descriptor(buffer) for buffer in info.buffers], pages))
        # as stored: 2.0 files say 0.3
        major, minor = np.frombuffer(self._source.read_tail(Footer.NUM_BYTES), "<u2")[-4:-2].tolist()
        return LanceFileMetadata(
            schema=_with_extensions(container.schema.to_arrow()),
            num_rows=container.num_rows,
            num_data_bytes=footer.columns_start - num_global_bytes,
            num_column_metadata_bytes=footer.global_buffer_table.start - footer.columns_start,
            num_global_buffer_bytes=num_global_bytes,
            global_buffers=[_descriptor(buffer) for buffer in buffers],
            columns=columns,
            major_version=major,
            minor_version=minor,
        )

    def file_statistics(self) -> LanceFileStatistics:
        """Return the number of pages and the stored bytes of each column."""
        described = describe_file(self._source, self._reader)
        return LanceFileStatistics(
            [ColumnStatistics(len(column.pages), column.num_bytes) for column in described.columns]
        )

    def read_global_buffer(self, index: int) -> bytes:
        """Return the bytes of a global buffer.

        Raises
        ------
        InvalidInputError
            There is no such buffer.
        """
        container = self._container()
        if not 0 <= checked_integer(index, "index") < container.num_global_buffers:
            raise InvalidInputError(
                f"{self._reader.path}: global buffer {index} does not exist, the file has "
                f"{container.num_global_buffers} global buffers"
            )
        return container.global_buffer(index).to_pybytes()

    def _container(self) -> Container:
        if self._reader.version == "0.1":
            raise UnsupportedFeatureError(
                f"{self._reader.path}: pages and buffers of 0.1 files cannot be listed"
            )
        return Container(self._source)

    def _rows_at_once(self) -> int:
        stored = sum(size for field in self._fields for _, size in self._reader.page_bytes(field))
        width = max(1, stored // max(1, self.num_rows()))
        return max(1, min(_MAX_READ_ROWS, _READ_BYTES // width))

    def _results(self, rows: Iterator[Rows], batch_size: int) -> ReaderResults:
        step = checked_integer(batch_size, "batch_size", 1)
        schema = _with_extensions(self._stored)
        batches = stoppable(self._batches(rows, step))
        return ReaderResults(pa.RecordBatchReader.from_batches(schema, batches))

    def _batches(self, windows: Iterator[Rows], batch_size: int) -> Generator[pa.RecordBatch]:
        for rows in windows:
            arrays = self._reader.read(self._fields, rows)
            stored = pa.RecordBatch.from_arrays(arrays, schema=self._stored)
            batch = pa.RecordBatch._import_from_c_capsule(*stored.__arrow_c_array__())
            for start in range(0, batch.num_rows, batch_size):
                yield batch.slice(start, batch_size)


def _descriptor(buffer: Any) -> LanceBufferDescriptor:
    return LanceBufferDescriptor(buffer.start, buffer.num_bytes)


def _with_extensions(schema: pa.Schema) -> pa.Schema:
    """Return the schema with those extension types that pyarrow knows."""
    return pa.Schema._import_from_c_capsule(schema.__arrow_c_schema__())


def _with_described_blobs(field: Field) -> Field:
    """Return a field as readers of a 2.2 file see it: blobs that are structs in tables are descriptions."""
    if field.is_blob:
        return blob_description(field) if field.is_struct else field
    return field.with_children(_with_described_blobs(child) for child in field.children)


def _project(fields: Sequence[Field], names: Sequence[str]) -> tuple[Field, ...]:
    """Return top-level fields cut down to what is named, in the order in which they are first named."""
    groups: dict[str, list[str]] = {}
    top = {field.name: field for field in fields}
    for name in names:
        first, _, rest = (name, "", "") if name in top else name.partition(".")
        if first not in top:
            known = ", ".join(repr(each) for each in top)
            raise ColumnNotFoundError(f"column {name!r} does not exist; the columns are {known}")
        groups.setdefault(first, []).append(rest)
    return tuple(
        top[first] if "" in below else top[first].with_children(_project(top[first].children, below))
        for first, below in groups.items()
    )
