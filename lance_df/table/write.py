"""Write rows into new data files, and commit them: create, append, overwrite."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from lance_df.errors import (
    AlreadyExistsError,
    CommitStateUnknownError,
    InvalidInputError,
    LanceError,
    UnsupportedFeatureError,
)
from lance_df.file.writer import FileWriter
from lance_df.format.fragments import DataFile, Fragment
from lance_df.format.operations import Append, Overwrite
from lance_df.format.schema import Schema, schema_from_arrow
from lance_df.format.transaction import Transaction
from lance_df.storage.sink import ByteSink
from lance_df.table.base_paths import DATA_DIR
from lance_df.table.commit import TRANSACTIONS_DIR, commit, create_table, open_manifest
from lance_df.table.conform import conform, schema_to_write
from lance_df.table.schema_rules import check_schema, resolve_version
from lance_df.table.versions import VERSIONS_DIR, NamingScheme, list_versions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import pyarrow as pa

    from lance_df.file.writer import WrittenFile
    from lance_df.format.manifest import Manifest
    from lance_df.storage import Location

Mode: TypeAlias = Literal["create", "append", "overwrite"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """How rows become files.

    Attributes
    ----------
    max_rows_per_file, max_bytes_per_file
        A new file is started when either is reached; bytes are checked after each batch.
    data_storage_version
        ``None`` stands for the newest stable version when a table is created or overwritten, and for the
        table's own when rows are appended.
    stable_row_ids, v2_manifest_names
        For new tables only.
    properties
        Kept with the transaction.
    """

    max_rows_per_file: int = 1024 * 1024
    max_bytes_per_file: int = 90 * 1024**3
    data_storage_version: str | None = None
    stable_row_ids: bool = False
    v2_manifest_names: bool = True
    properties: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("max_rows_per_file", "max_bytes_per_file"):
            if getattr(self, name) < 1:
                raise InvalidInputError(f"{name} must be at least 1, got {getattr(self, name)}")


def write_table(
    table: Location,
    data_schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    *,
    mode: Mode = "create",
    options: WriteOptions | None = None,
) -> int:
    """Write batches and commit them.

    On failure nothing is left behind, unless the outcome of the commit is unknown.

    Parameters
    ----------
    table
        The root of the table. In mode ``append`` or ``overwrite`` it is created if it does not exist.
    data_schema, batches
        The rows; consumed one batch at a time.

    Returns
    -------
    The version that was made.

    Raises
    ------
    InvalidInputError
        Data that does not fit the table, or a wrong argument.
    AlreadyExistsError
        ``create``, and there is a table.
    ConflictError, CommitStateUnknownError
        See :func:`lance_df.table.commit.commit`.
    StorageError
        The store failed.
    """
    options = options or WriteOptions()
    if mode not in ("create", "append", "overwrite"):
        raise InvalidInputError(f"mode {mode!r} is unknown; use 'create', 'append' or 'overwrite'")
    listing = list_versions(table)
    if listing.latest is None:
        return _create(table, data_schema, batches, options)
    if mode == "create":
        raise AlreadyExistsError(f"{table.uri}: there is a table already; pass mode='append' or 'overwrite'")
    latest = open_manifest(table, listing.latest, listing.scheme)
    latest.check_readable()
    if mode == "append":
        return _append(table, latest.manifest, data_schema, batches, options)
    return _overwrite(table, latest.manifest, data_schema, batches, options)


def _create(
    table: Location, data_schema: pa.Schema, batches: Iterable[pa.RecordBatch], options: WriteOptions
) -> int:
    version = resolve_version(options.data_storage_version)
    schema = schema_from_arrow(data_schema)
    check_schema(schema, version)
    with (
        _folders(table),
        fragments_written(table, schema, batches, version=version, options=options) as fragments,
    ):
        return create_table(
            table,
            _transaction(0, Overwrite(fragments, schema), options),
            data_format=version,
            stable_row_ids=options.stable_row_ids,
            scheme=NamingScheme.V2 if options.v2_manifest_names else NamingScheme.V1,
        )


def _append(
    table: Location,
    manifest: Manifest,
    data_schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    options: WriteOptions,
) -> int:
    version = _version_to_append(table, manifest, options)
    schema = schema_to_write(data_schema, manifest.schema)
    check_schema(schema, version)
    with fragments_written(table, schema, batches, version=version, options=options) as fragments:
        return commit(table, _transaction(manifest.version, Append(fragments), options))


def _overwrite(
    table: Location,
    manifest: Manifest,
    data_schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    options: WriteOptions,
) -> int:
    version = resolve_version(options.data_storage_version)
    # ids of former columns are free again, unless the table says that they are not
    mark = manifest.max_allocated_field_id
    schema = schema_from_arrow(data_schema, first_id=0 if mark is None else mark + 1)
    check_schema(schema, version)
    with fragments_written(table, schema, batches, version=version, options=options) as fragments:
        transaction = _transaction(manifest.version, Overwrite(fragments, schema), options)
        return commit(table, transaction, data_format=version)


@contextmanager
def fragments_written(
    table: Location,
    schema: Schema,
    batches: Iterable[pa.RecordBatch],
    *,
    version: str,
    options: WriteOptions,
) -> Iterator[tuple[Fragment, ...]]:
    """Write batches into data files, and remove these again when what is done with them fails.

    Parameters
    ----------
    table
        The root of the table.
    schema
        The fields that the batches bring, with the table's ids.
    version
        ``"2.0"``, ``"2.1"`` or ``"2.2"``.

    Yields
    ------
    The new fragments, all with id 0: ids are given out by the commit.
    """
    writer = _FragmentWriter(table / DATA_DIR, schema, version, options)
    try:
        for batch in batches:
            writer.write(batch)
        yield writer.finish()
    except CommitStateUnknownError:
        raise
    except BaseException:
        writer.remove()
        raise


class _FragmentWriter:
    """Cuts a stream of batches into data files."""

    def __init__(self, folder: Location, schema: Schema, version: str, options: WriteOptions) -> None:
        self._folder = folder
        self._schema = schema
        self._version = version
        self._options = options
        self._open: FileWriter | None = None
        self._name = ""
        self._fragments: list[Fragment] = []

    def write(self, batch: pa.RecordBatch) -> None:
        while batch.num_rows:
            if self._open is None:
                self._name = data_file_name()
                sink = ByteSink(self._folder / self._name)
                self._open = FileWriter(sink, self._schema, version=self._version)
            room = self._options.max_rows_per_file - self._open.num_rows
            self._open.write_batch(conform(batch.slice(0, room), self._schema))
            batch = batch.slice(room)
            if (
                self._open.num_rows >= self._options.max_rows_per_file
                or self._open.position >= self._options.max_bytes_per_file
            ):
                self._finish_file()

    def finish(self) -> tuple[Fragment, ...]:
        self._finish_file()
        return tuple(self._fragments)

    def remove(self) -> None:
        """Remove all files, as far as the store lets us."""
        if self._open is not None:
            self._open.abort()
        for fragment in self._fragments:
            for file in fragment.files:
                with suppress(LanceError):
                    (self._folder / file.path).remove()

    def _finish_file(self) -> None:
        if self._open is None:
            return
        written = self._open.finish()
        self._open = None
        self._fragments.append(
            Fragment(id=0, files=(_data_file(self._name, written),), physical_rows=written.num_rows)
        )


def data_file_name() -> str:
    """Return a new random name, whose start spreads over the key space of object stores."""
    random = uuid.uuid4().bytes
    return f"{int.from_bytes(random[:3]):024b}{random[3:].hex()}.lance"


def _data_file(name: str, written: WrittenFile) -> DataFile:
    major, minor = (int(part) for part in written.version.split("."))
    return DataFile(
        path=name,
        fields=written.fields,
        column_indices=written.column_indices,
        major_version=major,
        minor_version=minor,
        size_bytes=written.size_bytes,
    )


def _version_to_append(table: Location, manifest: Manifest, options: WriteOptions) -> str:
    own = manifest.data_format
    if own is None or own == "0.1":
        raise UnsupportedFeatureError(
            f"{table.uri}: a table of file version {own or 'unknown'}; this release writes 2.0, 2.1 and 2.2"
        )
    if options.data_storage_version is not None and resolve_version(options.data_storage_version) != own:
        raise InvalidInputError(
            f"{table.uri}: the table is of file version {own}, "
            f"data_storage_version {options.data_storage_version!r} cannot be appended to it"
        )
    return own


def _transaction(read_version: int, operation: Any, options: WriteOptions) -> Transaction:
    return Transaction(
        read_version=read_version,
        uuid=str(uuid.uuid4()),
        operation=operation,
        properties=options.properties,
    )


@contextmanager
def _folders(table: Location) -> Iterator[None]:
    """Remove the folders that a new local table came with, when it does not come to be."""
    existed = not table.is_local or os.path.isdir(table.path)
    try:
        yield
    except CommitStateUnknownError:
        raise
    except BaseException:
        for name in (DATA_DIR, TRANSACTIONS_DIR, VERSIONS_DIR):
            (table / name).remove_empty_folder()
        if not existed:
            table.remove_empty_folder()
        raise
