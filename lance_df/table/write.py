"""Write rows into new data files, and commit them: create, append, overwrite."""

from __future__ import annotations

import os
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Literal, TypeAlias

from lance_df.errors import (
    AlreadyExistsError,
    CommitStateUnknownError,
    DatasetNotFoundError,
    InvalidInputError,
    LanceError,
    RetryableConflictError,
)
from lance_df.file.legacy_dictionary_writer import check_dictionaries
from lance_df.format.blobs import blobs_as_stored
from lance_df.format.feature_flags import FeatureFlag
from lance_df.format.operations import Append, Operation, Overwrite
from lance_df.format.schema import Schema, schema_from_arrow
from lance_df.format.transaction import Transaction
from lance_df.table.base_paths import DATA_DIR
from lance_df.table.base_paths_write import checked_bases, choose_targets, numbered_bases
from lance_df.table.blob_references import BlobReferences
from lance_df.table.commit.loop import TRANSACTIONS_DIR, commit, create_table
from lance_df.table.fitting_schema import FITTING_SCHEMAS
from lance_df.table.fragment_writer import FileLimits, fragments_written
from lance_df.table.history import History
from lance_df.table.schema_rules import check_schema, resolve_version
from lance_df.table.versions import VERSIONS_DIR, NamingScheme
from lance_df.table.zone_map_writer import ZoneMapBuilder

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pyarrow as pa

    from lance_df.format.fragments import Fragment
    from lance_df.format.manifest import BasePath, Manifest
    from lance_df.storage import Location
    from lance_df.table.base_paths import DataTarget
    from lance_df.table.base_paths_write import DatasetBasePath
    from lance_df.table.commit.options import CommitOptions
    from lance_df.table.external_store import ExternalManifestStore
    from lance_df.table.fragment_writer import WriteProgress
    from lance_df.table.manifest_io import ManifestFile

Mode: TypeAlias = Literal["create", "append", "overwrite"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """How rows become a version.

    Attributes
    ----------
    limits
        When to start the next data file.
    data_storage_version
        ``None`` stands for the newest stable version when a table is created, and for the table's own when
        rows are appended or replaced.
    stable_row_ids, v2_manifest_names, config, initial_bases
        For new tables only: ``config`` and ``initial_bases`` become part of the manifest.
    properties
        Kept with the transaction.
    target_bases, target_all_bases
        Where data files go, see :func:`lance_df.table.base_paths_write.choose_targets`.
    progress
        Is told of data files.
    statistics
        Whether to build zone maps for the new rows.
    external_store
        What decides on versions, where the store of the files cannot.
    commit_options
        How the version is committed.
    external_blob_mode, allow_external_blobs, blob_pack_bytes
        See :class:`lance_df.table.blob_references.BlobReferences`.
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
    external_blob_mode: str = "reference"
    allow_external_blobs: bool = False
    blob_pack_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class StagedRows:
    """New fragments, and what to commit to make a version of them; computed from ``read_version``.

    ``schema`` has the fields that were written, with the ids that they have in the files.
    """

    fragments: tuple[Fragment, ...]
    operation: Append | Overwrite
    read_version: int
    schema: Schema


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is written, in which file version, and what becomes of the new fragments.

    ``read`` is the newest version of the table, if there is one. ``dictionaries`` is told the values of
    dictionary columns of 0.1 while rows are written.
    """

    schema: Schema
    version: str
    targets: tuple[DataTarget, ...]
    read: ManifestFile | None
    operation: Callable[[tuple[Fragment, ...]], Append | Overwrite]
    references: BlobReferences
    dictionaries: dict[int, pa.Array] = field(default_factory=dict)

    def publish(
        self, table: Location, fragments: tuple[Fragment, ...], options: WriteOptions
    ) -> ManifestFile:
        """Commit the fragments and return the version that was made."""
        operation = self.operation(fragments)
        if self.read is None:
            return create_table(
                table,
                _transaction(0, operation, options),
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
            read=self.read,
            data_format=data_format,
            external_store=options.external_store,
            options=options.commit_options,
        )


def write_table(
    table: Location,
    data_schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    *,
    mode: Mode = "create",
    options: WriteOptions | None = None,
) -> ManifestFile:
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
        See :func:`lance_df.table.commit.loop.commit`.
    StorageError
        The store failed.
    """
    options = options or WriteOptions()
    with _folders(table):
        plan = _plan(table, data_schema, mode, options)
        zone_maps = ZoneMapBuilder(plan.schema) if options.statistics else None
        with _written(table, plan, batches, options, zone_maps) as fragments:
            made = plan.publish(table, fragments, options)
    if zone_maps is None:
        return made
    return _with_zone_maps(table, made, fragments, zone_maps, options)


def stage_rows(
    table: Location,
    data_schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    *,
    mode: Mode = "append",
    options: WriteOptions | None = None,
) -> StagedRows:
    """Write batches into data files without committing them; see :func:`write_table`.

    Nobody knows the files before they are committed; they are left alone when they never are.
    """
    options = options or WriteOptions()
    with _folders(table):
        plan = _plan(table, data_schema, mode, options)
        with _written(table, plan, batches, options, None) as fragments:
            read_version = 0 if plan.read is None else plan.read.manifest.version
            return StagedRows(fragments, plan.operation(fragments), read_version, plan.schema)


def publish_staged(
    table: Location,
    data_schema: pa.Schema,
    staged: Sequence[StagedRows],
    *,
    mode: Mode = "append",
    options: WriteOptions | None = None,
) -> ManifestFile:
    """Commit what several processes staged, with the same arguments, in one version; see :func:`write_table`.

    Files are left alone when that fails.

    Raises
    ------
    RetryableConflictError
        The schema of the table changed since rows were staged, so that these do not fit it any more.
    AlreadyCommittedError
        See the marks of ``options.commit_options``.
    """
    options = options or WriteOptions()
    with _folders(table):
        conflict = f"{table.uri}: the schema changed while rows were written; write them again"
        try:
            plan = _plan(table, data_schema, mode, options)
        except InvalidInputError as err:
            if not staged:
                raise
            raise RetryableConflictError(conflict) from err
        if any(each.schema.fields != plan.schema.fields for each in staged):
            raise RetryableConflictError(conflict)
        return plan.publish(table, tuple(chain.from_iterable(each.fragments for each in staged)), options)


def _written(
    table: Location,
    plan: _Plan,
    batches: Iterable[pa.RecordBatch],
    options: WriteOptions,
    zone_maps: ZoneMapBuilder | None,
) -> AbstractContextManager[tuple[Fragment, ...]]:
    return fragments_written(
        table,
        plan.schema,
        batches,
        version=plan.version,
        limits=options.limits,
        zone_maps=zone_maps,
        dictionaries=plan.dictionaries,
        targets=plan.targets,
        progress=options.progress,
        references=plan.references,
    )


def _plan(table: Location, data_schema: pa.Schema, mode: Mode, options: WriteOptions) -> _Plan:
    if mode not in ("create", "append", "overwrite"):
        raise InvalidInputError(f"mode {mode!r} is unknown; use 'create', 'append' or 'overwrite'")
    if options.initial_bases and mode != "create":
        raise InvalidInputError("initial_bases are for new tables: use add_bases, or mode='create'")
    try:
        latest = History(table, options.external_store).open_latest()
    except DatasetNotFoundError:
        return _plan_create(table, data_schema, options)
    if mode == "create":
        raise AlreadyExistsError(f"{table.uri}: there is a table already; pass mode='append' or 'overwrite'")
    latest.check_readable()
    if mode == "append":
        return _plan_append(table, latest, data_schema, options)
    return _plan_overwrite(table, latest, data_schema, options)


def _plan_create(table: Location, data_schema: pa.Schema, options: WriteOptions) -> _Plan:
    version = resolve_version(options.data_storage_version)
    schema = schema_from_arrow(blobs_as_stored(data_schema, version))
    check_schema(schema, version)
    bases = numbered_bases(checked_bases(options.initial_bases, (), table))
    dictionaries: dict[int, pa.Array] = {}

    def operation(fragments: tuple[Fragment, ...]) -> Overwrite:
        stored = _with_dictionaries(schema, version, dictionaries)
        return Overwrite(fragments, stored, config_upsert_values=options.config, initial_bases=bases)

    references = _references(table, bases, options)
    return _Plan(schema, version, _targets(table, bases, options), None, operation, references, dictionaries)


def _plan_append(
    table: Location, latest: ManifestFile, data_schema: pa.Schema, options: WriteOptions
) -> _Plan:
    version = _version_to_append(table, latest.manifest, options)
    schema = FITTING_SCHEMAS.get(data_schema, latest.manifest.schema, version)
    targets = _targets(table, latest.manifest.base_paths, options)
    references = _references(table, latest.manifest.base_paths, options)
    return _Plan(schema, version, targets, latest, Append, references)


def _plan_overwrite(
    table: Location, latest: ManifestFile, data_schema: pa.Schema, options: WriteOptions
) -> _Plan:
    manifest = latest.manifest
    version = resolve_version(options.data_storage_version or _own_version(manifest))
    # ids of former columns are free again, unless the table says that they are not
    mark = manifest.max_allocated_field_id
    new_schema = blobs_as_stored(data_schema, version)
    schema = schema_from_arrow(new_schema, first_id=0 if mark is None else mark + 1)
    check_schema(schema, version)
    dictionaries: dict[int, pa.Array] = {}

    def operation(fragments: tuple[Fragment, ...]) -> Overwrite:
        return Overwrite(fragments, _with_dictionaries(schema, version, dictionaries))

    targets = _targets(table, manifest.base_paths, options)
    references = _references(table, manifest.base_paths, options)
    return _Plan(schema, version, targets, latest, operation, references, dictionaries)


def _targets(table: Location, bases: tuple[BasePath, ...], options: WriteOptions) -> tuple[DataTarget, ...]:
    return choose_targets(table, bases, names=options.target_bases, all_bases=options.target_all_bases)


def _references(table: Location, bases: tuple[BasePath, ...], options: WriteOptions) -> BlobReferences:
    return BlobReferences(
        table, bases, options.external_blob_mode, options.allow_external_blobs, options.blob_pack_bytes
    )


def _with_dictionaries(schema: Schema, version: str, dictionaries: Mapping[int, pa.Array]) -> Schema:
    """Add what the manifest of a 0.1 table stores."""
    if version != "0.1":
        return schema
    schema = schema.with_dictionaries(dictionaries)
    check_dictionaries(schema)
    return schema


def _with_zone_maps(
    table: Location,
    made: ManifestFile,
    fragments: tuple[Fragment, ...],
    zone_maps: ZoneMapBuilder,
    options: WriteOptions,
) -> ManifestFile:
    """Add the zone maps of rows that are committed already, so that failing to is no error."""
    try:
        return zone_maps.commit(table, made, fragments, options.external_store, options.commit_options)
    except LanceError as err:
        version = made.manifest.version
        message = f"{table.uri}: version {version} is committed, but its statistics are not: {err}"
        warnings.warn(message, RuntimeWarning, stacklevel=4)
        return made


def _version_to_append(table: Location, manifest: Manifest, options: WriteOptions) -> str:
    own = _own_version(manifest)
    version = resolve_version(options.data_storage_version or own)
    if version != own and "0.1" in (version, own):
        raise InvalidInputError(
            f"{table.uri}: the table is of file version {own}, "
            f"data_storage_version {options.data_storage_version!r} cannot be appended to it"
        )
    return version


def _own_version(manifest: Manifest) -> str:
    return manifest.data_format or ("2.0" if manifest.writer_feature_flags & FeatureFlag.V2_FORMAT else "0.1")


def _transaction(read_version: int, operation: Operation, options: WriteOptions) -> Transaction:
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
