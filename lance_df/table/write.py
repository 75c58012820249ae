"""Write rows into new data files, and commit them: create, append, overwrite."""

from __future__ import annotations

import os
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from lance_df.errors import (
    AlreadyExistsError,
    CommitStateUnknownError,
    InvalidInputError,
    LanceError,
)
from lance_df.file.legacy_dictionary_writer import check_dictionaries
from lance_df.format.feature_flags import FeatureFlag
from lance_df.format.operations import Append, Operation, Overwrite
from lance_df.format.schema import Schema, schema_from_arrow
from lance_df.format.transaction import Transaction
from lance_df.table.base_paths import DATA_DIR
from lance_df.table.commit.loop import TRANSACTIONS_DIR, commit, create_table, open_manifest
from lance_df.table.conform import schema_to_write
from lance_df.table.fragment_writer import FileLimits, fragments_written
from lance_df.table.schema_rules import check_schema, resolve_version
from lance_df.table.versions import VERSIONS_DIR, NamingScheme, list_versions
from lance_df.table.zone_map_writer import ZoneMapBuilder

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import pyarrow as pa

    from lance_df.format.fragments import Fragment
    from lance_df.format.manifest import Manifest
    from lance_df.storage import Location

Mode: TypeAlias = Literal["create", "append", "overwrite"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """How rows become a version.

    Attributes
    ----------
    limits
        When to start the next data file.
    data_storage_version
        ``None`` stands for the newest stable version when a table is created or overwritten, and for the
        table's own when rows are appended.
    stable_row_ids, v2_manifest_names
        For new tables only.
    properties
        Kept with the transaction.
    statistics
        Whether to build zone maps for the new rows.
    """

    limits: FileLimits = field(default_factory=FileLimits)
    data_storage_version: str | None = None
    stable_row_ids: bool = False
    v2_manifest_names: bool = True
    properties: Mapping[str, str] = field(default_factory=dict)
    statistics: bool = False


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is written, in which file version, and how the new fragments are published as a version.

    ``dictionaries`` is told the values of dictionary columns of 0.1 while rows are written.
    """

    schema: Schema
    version: str
    publish: Callable[[tuple[Fragment, ...]], int]
    dictionaries: dict[int, pa.Array] = field(default_factory=dict)


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
        See :func:`lance_df.table.commit.loop.commit`.
    StorageError
        The store failed.
    """
    options = options or WriteOptions()
    if mode not in ("create", "append", "overwrite"):
        raise InvalidInputError(f"mode {mode!r} is unknown; use 'create', 'append' or 'overwrite'")
    with _folders(table):
        plan = _plan(table, data_schema, mode, options)
        zone_maps = ZoneMapBuilder(plan.schema) if options.statistics else None
        with fragments_written(
            table,
            plan.schema,
            batches,
            version=plan.version,
            limits=options.limits,
            zone_maps=zone_maps,
            dictionaries=plan.dictionaries,
        ) as fragments:
            version = plan.publish(fragments)
    return version if zone_maps is None else _with_zone_maps(table, version, fragments, zone_maps)


def _plan(table: Location, data_schema: pa.Schema, mode: Mode, options: WriteOptions) -> _Plan:
    listing = list_versions(table)
    if listing.latest is None:
        return _plan_create(table, data_schema, options)
    if mode == "create":
        raise AlreadyExistsError(f"{table.uri}: there is a table already; pass mode='append' or 'overwrite'")
    latest = open_manifest(table, listing.latest, listing.scheme)
    latest.check_readable()
    if mode == "append":
        return _plan_append(table, latest.manifest, data_schema, options)
    return _plan_overwrite(table, latest.manifest, data_schema, options)


def _plan_create(table: Location, data_schema: pa.Schema, options: WriteOptions) -> _Plan:
    version = resolve_version(options.data_storage_version)
    schema = schema_from_arrow(data_schema)
    check_schema(schema, version)
    dictionaries: dict[int, pa.Array] = {}

    def publish(fragments: tuple[Fragment, ...]) -> int:
        operation = Overwrite(fragments, _with_dictionaries(schema, version, dictionaries))
        return create_table(
            table,
            _transaction(0, operation, options),
            data_format=version,
            stable_row_ids=options.stable_row_ids,
            scheme=NamingScheme.V2 if options.v2_manifest_names else NamingScheme.V1,
        )

    return _Plan(schema, version, publish, dictionaries)


def _plan_append(table: Location, manifest: Manifest, data_schema: pa.Schema, options: WriteOptions) -> _Plan:
    version = _version_to_append(table, manifest, options)
    schema = schema_to_write(data_schema, manifest.schema)
    check_schema(schema, version)

    def publish(fragments: tuple[Fragment, ...]) -> int:
        return commit(table, _transaction(manifest.version, Append(fragments), options))

    return _Plan(schema, version, publish)


def _plan_overwrite(
    table: Location, manifest: Manifest, data_schema: pa.Schema, options: WriteOptions
) -> _Plan:
    version = resolve_version(options.data_storage_version)
    # ids of former columns are free again, unless the table says that they are not
    mark = manifest.max_allocated_field_id
    schema = schema_from_arrow(data_schema, first_id=0 if mark is None else mark + 1)
    check_schema(schema, version)
    dictionaries: dict[int, pa.Array] = {}

    def publish(fragments: tuple[Fragment, ...]) -> int:
        operation = Overwrite(fragments, _with_dictionaries(schema, version, dictionaries))
        return commit(table, _transaction(manifest.version, operation, options), data_format=version)

    return _Plan(schema, version, publish, dictionaries)


def _with_dictionaries(schema: Schema, version: str, dictionaries: Mapping[int, pa.Array]) -> Schema:
    """Add what the manifest of a 0.1 table stores."""
    if version != "0.1":
        return schema
    schema = schema.with_dictionaries(dictionaries)
    check_dictionaries(schema)
    return schema


def _with_zone_maps(
    table: Location, version: int, fragments: tuple[Fragment, ...], zone_maps: ZoneMapBuilder
) -> int:
    """Add the zone maps of rows that are committed already, so that failing to is no error."""
    try:
        latest = open_manifest(table, version, list_versions(table).scheme)
        ids = {file.path: fragment.id for fragment in latest.manifest.fragments for file in fragment.files}
        return zone_maps.commit(table, latest, [ids[fragment.files[0].path] for fragment in fragments])
    except LanceError as err:
        message = f"{table.uri}: version {version} is committed, but its statistics are not: {err}"
        warnings.warn(message, RuntimeWarning, stacklevel=4)
        return version


def _version_to_append(table: Location, manifest: Manifest, options: WriteOptions) -> str:
    own = manifest.data_format or ("2.0" if manifest.writer_feature_flags & FeatureFlag.V2_FORMAT else "0.1")
    if options.data_storage_version is not None and resolve_version(options.data_storage_version) != own:
        raise InvalidInputError(
            f"{table.uri}: the table is of file version {own}, "
            f"data_storage_version {options.data_storage_version!r} cannot be appended to it"
        )
    return own


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
