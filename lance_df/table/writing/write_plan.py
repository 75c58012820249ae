"""Plan writes: the schema, the file version, and the operation that creates, appends or overwrites."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from lance_df.errors import (
    AlreadyExistsError,
    DatasetNotFoundError,
    IncompatibleConflictError,
    InvalidInputError,
)
from lance_df.file.legacy.dictionary_writer import check_dictionaries
from lance_df.format.blobs import blobs_as_stored
from lance_df.format.operations import Append, Operation, Overwrite
from lance_df.format.schema import Schema, check_field_id, schema_from_arrow
from lance_df.format.transaction import Transaction
from lance_df.records import dataclass
from lance_df.table.blobs.references import BlobReferences
from lance_df.table.commit.loop import commit, create_table
from lance_df.table.commit.row_account import RowChange
from lance_df.table.metadata.base_paths_write import checked_bases, choose_targets, numbered_bases
from lance_df.table.metadata.history import History
from lance_df.table.metadata.missing_files import check_same_table, gone
from lance_df.table.metadata.versions import NamingScheme, check_attached
from lance_df.table.writing.fitting_schema import FITTING_SCHEMAS
from lance_df.table.writing.fragment_writer import FileLimits
from lance_df.table.writing.free_location import check_location_is_free
from lance_df.table.writing.schema_rules import check_schema, resolve_version

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from lance_df.format.fragments import Fragment
    from lance_df.format.manifest import BasePath, Manifest
    from lance_df.storage import Location
    from lance_df.table.commit.options import CommitOptions
    from lance_df.table.metadata.base_paths import DataTarget
    from lance_df.table.metadata.base_paths_write import DatasetBasePath
    from lance_df.table.metadata.external_store import ExternalManifestStore
    from lance_df.table.metadata.manifest_io import ManifestFile
    from lance_df.table.table import Table
    from lance_df.table.writing.fragment_writer import WriteProgress

Mode: TypeAlias = Literal["create", "append", "overwrite"]
MODES: Final[tuple[Mode, ...]] = ("create", "append", "overwrite")


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """Options of a write.

    Attributes
    ----------
    limits
        Limits at which the next data file begins.
    data_storage_version
        ``None`` means the newest stable version for a new table, and the table's own when rows are appended
        or replaced.
    stable_row_ids, v2_manifest_names, config, initial_bases
        For new tables only: ``config`` and ``initial_bases`` become part of the manifest.
    properties
        Stored with the transaction.
    target_bases, target_all_bases
        The base paths for data files, see :func:`lance_df.table.metadata.base_paths_write.choose_targets`.
    progress
        Callbacks for each data file.
    statistics
        Whether to build zone maps for the new rows.
    external_store
        The store that decides on versions, if the store of the files cannot.
    commit_options
        Options of the commit.
    known
        The open table, if the write is one of its object: it is not created if it was dropped, or if its
        branch was deleted.
    external_blob_mode, allow_external_blobs, blob_pack_bytes
        See :class:`lance_df.table.blobs.references.BlobReferences`.
    """

    limits: FileLimits = field(default_factory=FileLimits)
    data_storage_version: str | None = None
    stable_row_ids: bool = False
    v2_manifest_names: bool = True
    config: Mapping[str, str] = field(default_factory=dict)
    initial_bases: tuple[DatasetBasePath, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    target_bases: tuple[str, ...] = ()
    target_all_bases: bool | None = None
    progress: WriteProgress | None = None
    statistics: bool = False
    external_store: ExternalManifestStore | None = None
    commit_options: CommitOptions | None = None
    known: Table | None = None
    external_blob_mode: str = "reference"
    allow_external_blobs: bool | None = None
    blob_pack_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class WritePlan:
    """The schema and file version of a write, and the operation for its fragments.

    ``read`` is the newest version of the table, if there is one. ``dictionaries`` is filled with the values
    of dictionary columns of 0.1 while rows are written.
    """

    schema: Schema
    version: str
    targets: tuple[DataTarget, ...]
    read: ManifestFile | None
    operation: Callable[[tuple[Fragment, ...]], Append | Overwrite]
    references: BlobReferences
    dictionaries: dict[int, pa.Array] = field(default_factory=dict)

    def publish(
        self, table: Location, fragments: tuple[Fragment, ...], options: WriteOptions, *, num_rows: int
    ) -> ManifestFile:
        """Commit the fragments and return the version that was made.

        Parameters
        ----------
        num_rows
            The number of rows that were passed to the writer.
        """
        operation = self.operation(fragments)
        rows = RowChange(num_rows, replaces_all=isinstance(operation, Overwrite))
        if self.read is None:
            return create_table(
                table,
                _transaction(0, operation, options),
                rows=rows,
                data_format=self.version,
                stable_row_ids=options.stable_row_ids,
                scheme=NamingScheme.V2 if options.v2_manifest_names else NamingScheme.V1,
                external_store=options.external_store,
                options=options.commit_options,
            )
        transaction = _transaction(self.read.manifest.version, operation, options)
        data_format = self.version if isinstance(operation, Overwrite) else None
        return commit(
            table,
            transaction,
            rows=rows,
            read=self.read,
            data_format=data_format,
            external_store=options.external_store,
            options=options.commit_options,
        )


def as_mode(mode: object) -> Mode:
    """Return a mode; its letters may be upper or lower case.

    Raises
    ------
    InvalidInputError
        It is not a mode.
    """
    for known in MODES:
        if isinstance(mode, str) and mode.lower() == known:
            return known
    raise InvalidInputError(f"mode {mode!r} is unknown; use 'create', 'append' or 'overwrite'")


def plan_write(table: Location, data_schema: pa.Schema, mode: Mode, options: WriteOptions) -> WritePlan:
    """Plan a write to a table, or to a new one; see `lance_df.table.writing.write.write_table`.

    Raises
    ------
    IncompatibleConflictError
        The known table was dropped, or its branch deleted; it may have been created again.
    UnsupportedFeatureError
        The known table is open at a detached version, which an append does not follow.
    """
    mode = as_mode(mode)
    if options.known is not None:
        check_attached(options.known.version, table.uri)
    if options.initial_bases and mode != "create":
        raise InvalidInputError(
            f"Cannot register new bases in {mode.capitalize()} mode: use add_bases, or mode='create'"
        )
    try:
        latest = History(table, options.external_store).open_latest()
    except DatasetNotFoundError as err:
        if options.known is not None:
            raise IncompatibleConflictError(f"{gone(options.known) or err}; nothing was written") from err
        check_location_is_free(table)
        return _plan_create(table, data_schema, options)
    if mode == "create":
        raise AlreadyExistsError(f"{table.uri}: table already exists; pass mode='append' or 'overwrite'")
    if options.known is not None:
        check_same_table(options.known, latest)
    latest.check_readable()
    if mode == "append":
        return _plan_append(table, latest, data_schema, options)
    return _plan_overwrite(table, latest, data_schema, options)


def _plan_create(table: Location, data_schema: pa.Schema, options: WriteOptions) -> WritePlan:
    version = resolve_version(options.data_storage_version)
    schema = schema_from_arrow(blobs_as_stored(data_schema, version))
    check_schema(schema, version)
    bases = numbered_bases(checked_bases(options.initial_bases, (), table))
    dictionaries: dict[int, pa.Array] = {}

    def operation(fragments: tuple[Fragment, ...]) -> Overwrite:
        stored = _with_dictionaries(schema, version, dictionaries)
        return Overwrite(fragments, stored, config_upsert_values=options.config, initial_bases=bases)

    references = _references(table, bases, options)
    return WritePlan(
        schema, version, _targets(table, bases, options), None, operation, references, dictionaries
    )


def _plan_append(
    table: Location, latest: ManifestFile, data_schema: pa.Schema, options: WriteOptions
) -> WritePlan:
    version = _version_to_append(table, latest.manifest, options)
    schema = FITTING_SCHEMAS.get(data_schema, latest.manifest.schema, version)
    targets = _targets(table, latest.manifest.base_paths, options)
    references = _references(table, latest.manifest.base_paths, options)
    return WritePlan(schema, version, targets, latest, Append, references)


def _plan_overwrite(
    table: Location, latest: ManifestFile, data_schema: pa.Schema, options: WriteOptions
) -> WritePlan:
    manifest = latest.manifest
    version = resolve_version(options.data_storage_version or manifest.file_version)
    # ids of former columns may be used again, unless the table records the ids that were assigned
    mark = manifest.max_allocated_field_id
    new_schema = blobs_as_stored(data_schema, version)
    schema = schema_from_arrow(new_schema, first_id=0 if mark is None else mark + 1)
    check_field_id(schema.max_field_id, table.uri)
    check_schema(schema, version)
    dictionaries: dict[int, pa.Array] = {}

    def operation(fragments: tuple[Fragment, ...]) -> Overwrite:
        return Overwrite(fragments, _with_dictionaries(schema, version, dictionaries))

    targets = _targets(table, manifest.base_paths, options)
    references = _references(table, manifest.base_paths, options)
    return WritePlan(schema, version, targets, latest, operation, references, dictionaries)


def _targets(table: Location, bases: tuple[BasePath, ...], options: WriteOptions) -> tuple[DataTarget, ...]:
    return choose_targets(table, bases, names=options.target_bases, all_bases=options.target_all_bases)


def _references(table: Location, bases: tuple[BasePath, ...], options: WriteOptions) -> BlobReferences:
    return BlobReferences(
        table, bases, options.external_blob_mode, options.allow_external_blobs, options.blob_pack_bytes
    )


def _with_dictionaries(schema: Schema, version: str, dictionaries: Mapping[int, pa.Array]) -> Schema:
    """Add the dictionaries that the manifest of a 0.1 table stores."""
    if version != "0.1":
        return schema
    schema = schema.with_dictionaries(dictionaries)
    check_dictionaries(schema)
    return schema


def _version_to_append(table: Location, manifest: Manifest, options: WriteOptions) -> str:
    current = manifest.file_version
    version = resolve_version(options.data_storage_version or current)
    if version != current and "0.1" in (version, current):
        raise InvalidInputError(
            f"{table.uri}: the table has file version {current}, data with data_storage_version "
            f"{options.data_storage_version!r} cannot be appended"
        )
    return version


def _transaction(read_version: int, operation: Operation, options: WriteOptions) -> Transaction:
    return Transaction(
        read_version=read_version,
        uuid=str(uuid.uuid4()),
        operation=operation,
        properties=options.properties,
    )
