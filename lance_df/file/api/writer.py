"""`LanceFileWriter`: write a single data file, with the names of pylance."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lance_df.arguments import checked_integer, checked_text, checked_type
from lance_df.errors import InvalidInputError, UnsupportedFeatureError
from lance_df.expr.text_views import parts_of_texts
from lance_df.file.conform import conform_array
from lance_df.file.storable import check_storable, resolve_version
from lance_df.file.v2.writer import PAGE_BYTES, FileWriter
from lance_df.format.schema import EXTENSION_NAME, schema_from_arrow
from lance_df.storage import open_location
from lance_df.storage.sink import ByteSink

if TYPE_CHECKING:
    import os
    from types import TracebackType
    from typing import Self

    from lance_df.file.v2.writer import WrittenFile
    from lance_df.format.schema import Field, Schema

__all__ = ["LanceFileWriter"]

_MAX_PAGE_BYTES = 32 * 1024 * 1024


class LanceFileWriter:
    """A writer of one data file of version 2.0, 2.1 or 2.2.

    The file appears under its name only when it is complete. An existing file with that name is replaced.
    After an error, or an exception in a ``with`` block, nothing is left behind.

    Attributes
    ----------
    closed
        Whether :meth:`close` was called.
    size_bytes
        The size of the file; ``None`` before :meth:`close`.

    Parameters
    ----------
    path
        A path or URL.
    schema
        The schema of the file. The default is the schema of the first batch.
    data_cache_bytes
        The number of bytes of all columns together that may be buffered until their pages are full. The
        default is 8 MiB per column.
    version
        The file version. The default is the newest stable version.
    storage_options
        Options for the fsspec filesystem. They never appear in messages.
    max_page_bytes
        The maximum number of bytes in a page of a top-level column.
    keep_original_array
        Accepted for compatibility with pylance; it has no effect.

    Raises
    ------
    InvalidInputError
        An argument or the schema is invalid.
    UnsupportedFeatureError
        The version or a type cannot be written. 0.1 files can be written only as part of a table.
    StorageError
        The location cannot be written to.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        schema: pa.Schema | None = None,
        *,
        data_cache_bytes: int | None = None,
        version: str | None = None,
        storage_options: Mapping[str, Any] | None = None,
        max_page_bytes: int | None = None,
        keep_original_array: bool | None = None,  # noqa: ARG002 - pylance's; it only tunes
    ) -> None:
        if data_cache_bytes is not None:
            data_cache_bytes = checked_integer(data_cache_bytes, "data_cache_bytes", 1)
        if max_page_bytes is not None:
            max_page_bytes = checked_integer(max_page_bytes, "max_page_bytes", 1)
        if schema is not None:
            checked_type(schema, "schema", pa.Schema, "a pyarrow Schema")
        self.closed = False
        self.size_bytes: int | None = None
        self._lock = threading.Lock()
        self._version = resolve_version(version)
        if self._version == "0.1":
            raise UnsupportedFeatureError(
                "0.1 files can be written only as part of a table; use write_dataset"
            )
        self._cache_bytes = data_cache_bytes
        self._max_page_bytes = max_page_bytes or _MAX_PAGE_BYTES
        checked = None if schema is None else self._checked(schema)
        self._sink = ByteSink(open_location(path, storage_options), replaces=True)
        self._discard = weakref.finalize(self, self._sink.abort)
        self._metadata: dict[str, bytes] = {}
        self._global_buffers: list[bytes] = []
        self._seen: pa.Schema | None = None
        self._schema: Schema | None = None
        self._writer: FileWriter | None = None
        if checked is not None:
            self._open(checked)

    def write_batch(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Append the rows of a batch.

        Several threads may call this method at once. The rows of one call stay together.

        Parameters
        ----------
        batch
            Its columns are matched by name. Columns that the file does not have are ignored.

        Raises
        ------
        InvalidInputError
            Columns do not fit the schema of the file, or a value is null where the schema does not allow it.
            The file is abandoned.
        """
        if not isinstance(batch, pa.RecordBatch | pa.Table):
            raise InvalidInputError(f"expected a RecordBatch or a Table, got {type(batch).__name__}")
        with self._lock:
            self._check_open()
            try:
                for part in batch.to_batches() if isinstance(batch, pa.Table) else [batch]:
                    self._write(part)
            except BaseException:
                self._give_up()
                raise

    def close(self) -> int | None:
        """Complete the file and return its number of rows; ``None`` if it is already closed.

        Raises
        ------
        InvalidInputError
            There was neither a schema nor a batch.
        StorageError
            The store failed.
        """
        with self._lock:
            if self.closed:
                return None
            try:
                written = self._finish()
            except BaseException:
                self._give_up()
                raise
            self.closed = True
            self._discard.detach()
            self.size_bytes = written.size_bytes
            return written.num_rows

    def add_schema_metadata(self, key: str, value: str) -> None:
        """Set an entry of the metadata of the schema.

        Raises
        ------
        InvalidInputError
            The key or the value is not text, or the writer is closed.
        """
        name, data = checked_text(key, "key"), checked_text(value, "value").encode()
        with self._lock:
            self._check_open()
            self._metadata[name] = data

    def add_global_buffer(self, data: bytes) -> int:
        """Store application data, and return the number to read it by. Numbers start at 1.

        Raises
        ------
        InvalidInputError
            ``data`` is not bytes, or the writer is closed.
        """
        try:
            stored = bytes(memoryview(data))
        except TypeError as err:
            raise InvalidInputError(f"a global buffer must be bytes, got {type(data).__name__}") from err
        with self._lock:
            self._check_open()
            self._global_buffers.append(stored)
            return len(self._global_buffers)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if exc_type is None:
            self.close()
        else:
            self._give_up()

    def _check_open(self) -> None:
        if self.closed:
            raise InvalidInputError(f"{self._sink.location.uri}: the writer is closed")

    def _checked(self, schema: pa.Schema) -> Schema:
        checked = schema_from_arrow(schema)
        check_storable(checked, self._version)
        return checked

    def _open(self, schema: Schema) -> tuple[Schema, FileWriter]:
        page_bytes = PAGE_BYTES
        if self._cache_bytes is not None:
            page_bytes = max(1, self._cache_bytes // max(1, len(schema.fields)))
        page_bytes = min(page_bytes, self._max_page_bytes)
        writer = FileWriter(self._sink, schema, version=self._version, page_bytes=page_bytes)
        self._schema, self._writer = schema, writer
        return schema, writer

    def _write(self, batch: pa.RecordBatch) -> None:
        if self._schema is None or self._writer is None:
            schema, writer = self._open(self._checked(batch.schema))
        else:
            schema, writer = self._schema, self._writer
        if self._seen is None or not self._seen.equals(batch.schema, check_metadata=True):
            _check_batch(batch.schema, schema)
            self._seen = batch.schema
        for part in parts_of_texts(batch):
            writer.write_batch([conform_array(part.column(field.name), field) for field in schema.fields])

    def _finish(self) -> WrittenFile:
        if self._writer is None or self._schema is None:
            raise InvalidInputError(
                f"{self._sink.location.uri}: Schema is unknown and file cannot be created: "
                "no rows were written, and no schema was given"
            )
        for data in self._global_buffers:
            self._writer.add_global_buffer(data)
        return self._writer.finish(metadata={**self._schema.metadata, **self._metadata})

    def _give_up(self) -> None:
        self.closed = True
        if self._writer is not None:
            self._writer.abort()  # stops its threads, too
        self._discard()


def _check_batch(batch: pa.Schema, schema: Schema) -> None:
    """Check that a batch has all columns of a file, once each and of the same types."""
    given: dict[str, list[Field]] = {}
    for each in schema_from_arrow(batch).fields:
        given.setdefault(each.name, []).append(each)
    for field in schema.fields:
        named = given.get(field.name, [])
        if len(named) != 1:
            raise InvalidInputError(
                f"column {field.name!r} occurs {len(named)} times in a batch, expected once"
            )
        _check_type(field, named[0], field.name)


def _check_type(field: Field, given: Field, path: str) -> None:
    if (field.logical_type, _extension(field)) != (given.logical_type, _extension(given)):
        raise InvalidInputError(
            f"column {path!r} is of type {_type_name(field)} in the file, but of type {_type_name(given)} "
            "in a batch"
        )
    if field.is_struct:
        names, others = ([each.name for each in side.children] for side in (field, given))
        if sorted(names) != sorted(others):
            raise InvalidInputError(
                f"column {path!r} has the fields {names} in the file, but {others} in a batch"
            )
    children = {each.name: each for each in given.children}
    for position, child in enumerate(field.children):
        other = children[child.name] if field.is_struct else given.children[position]
        _check_type(child, other, f"{path}.{child.name}")


def _extension(field: Field) -> bytes | None:
    return field.metadata.get(EXTENSION_NAME)


def _type_name(field: Field) -> str:
    extension = _extension(field)
    return field.logical_type if extension is None else f"{field.logical_type} ({extension.decode()})"
