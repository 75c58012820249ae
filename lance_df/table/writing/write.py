"""Write rows into new data files, and commit them: create, append, overwrite."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_df.errors import (
    AlreadyExistsError,
    InvalidInputError,
    RetryableConflictError,
)
from lance_df.records import dataclass
from lance_df.table.reading.batches import CountedBatches, source_closed
from lance_df.table.writing.fragment_writer import fragments_written
from lance_df.table.writing.free_location import new_folders_removed
from lance_df.table.writing.write_plan import Mode as Mode
from lance_df.table.writing.write_plan import WriteOptions as WriteOptions
from lance_df.table.writing.write_plan import as_mode, plan_write
from lance_df.table.writing.zone_map_writer import ZoneMapBuilder, ZoneMaps, with_zone_maps

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from contextlib import AbstractContextManager

    import pyarrow as pa

    from lance_df.format.fragments import Fragment
    from lance_df.format.operations import Append, Overwrite
    from lance_df.format.schema import Schema
    from lance_df.storage import Location
    from lance_df.table.metadata.manifest_io import ManifestFile
    from lance_df.table.writing.write_plan import WritePlan


@dataclass(frozen=True, slots=True)
class StagedRows:
    """New fragments, and the operation that adds them; computed from ``read_version``.

    ``schema`` has the written fields with their ids in the files, ``num_rows`` is the number of rows that
    were passed to the writer, and ``zone_maps`` has the collected bounds.
    """

    fragments: tuple[Fragment, ...]
    operation: Append | Overwrite
    read_version: int
    schema: Schema
    num_rows: int
    zone_maps: ZoneMaps | None = None


def write_table(
    table: Location,
    data_schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    *,
    mode: Mode = "create",
    options: WriteOptions | None = None,
) -> ManifestFile:
    """Write batches and commit them.

    On failure no files are left behind, unless the outcome of the commit is unknown.

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
        The data does not fit the table, or an argument is invalid.
    AlreadyExistsError
        In mode ``create`` there is a table already; or, in any mode, there is a namespace.
    ConflictError, CommitStateUnknownError
        See :func:`lance_df.table.commit.loop.commit`.
    StorageError
        The store failed.
    """
    options = options or WriteOptions()
    with source_closed(batches), new_folders_removed(table):
        plan = plan_write(table, data_schema, mode, options)
        zone_maps = ZoneMapBuilder(plan.schema) if options.statistics else None
        counted = CountedBatches(batches)
        with _written(table, plan, counted, options, zone_maps) as fragments:
            made = _published(table, data_schema, mode, options, plan, fragments, counted.num_rows)
    if zone_maps is None:
        return made
    collected = ZoneMaps(zone_maps, list(fragments))
    return with_zone_maps(table, made, collected, options.external_store, options.commit_options)


def stage_rows(
    table: Location,
    data_schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    *,
    mode: Mode = "append",
    options: WriteOptions | None = None,
) -> StagedRows:
    """Write batches into data files without committing them; see :func:`write_table`.

    No version refers to the files until they are committed; files that are never committed stay.
    """
    options = options or WriteOptions()
    with source_closed(batches), new_folders_removed(table):
        plan = plan_write(table, data_schema, mode, options)
        zone_maps = ZoneMapBuilder(plan.schema) if options.statistics else None
        counted = CountedBatches(batches)
        with _written(table, plan, counted, options, zone_maps) as fragments:
            read_version = 0 if plan.read is None else plan.read.manifest.version
            collected = None if zone_maps is None else ZoneMaps(zone_maps, list(fragments))
            return StagedRows(
                fragments, plan.operation(fragments), read_version, plan.schema, counted.num_rows, collected
            )


def publish_staged(
    table: Location,
    data_schema: pa.Schema,
    staged: Sequence[StagedRows],
    *,
    mode: Mode = "append",
    options: WriteOptions | None = None,
) -> ManifestFile:
    """Commit rows that processes staged with the same arguments, in one version; see :func:`write_table`.

    Files stay if this fails. The caller has to add zone maps: `with_zone_maps`.

    Raises
    ------
    RetryableConflictError
        The schema of the table changed after rows were staged, so these do not fit it any more.
    AlreadyCommittedError
        See the marks of ``options.commit_options``.
    """
    options = options or WriteOptions()
    fragments = tuple(fragment for each in staged for fragment in each.fragments)
    num_rows = sum(each.num_rows for each in staged)
    with new_folders_removed(table):
        plan = _plan_for(table, data_schema, mode, options, [each.schema for each in staged], fragments)
        return _published(table, data_schema, mode, options, plan, fragments, num_rows)


def _published(
    table: Location,
    data_schema: pa.Schema,
    mode: Mode,
    options: WriteOptions,
    plan: WritePlan,
    fragments: tuple[Fragment, ...],
    num_rows: int,
) -> ManifestFile:
    """Commit fragments; if another writer creates the table first, they follow its version."""
    try:
        return plan.publish(table, fragments, options, num_rows=num_rows)
    except AlreadyExistsError as err:
        if as_mode(mode) == "create":
            raise
        if plan.dictionaries:  # the table may have others
            raise _other_schema(table) from err
    plan = _plan_for(table, data_schema, mode, options, [plan.schema], fragments)
    return plan.publish(table, fragments, options, num_rows=num_rows)


def _plan_for(
    table: Location,
    data_schema: pa.Schema,
    mode: Mode,
    options: WriteOptions,
    schemas: Sequence[Schema],
    fragments: Sequence[Fragment],
) -> WritePlan:
    """Plan the write of fragments that were written with given schemas, for an older version or for none.

    Raises
    ------
    RetryableConflictError
        They do not fit the table any more.
    """
    try:
        plan = plan_write(table, data_schema, mode, options)
    except InvalidInputError as err:
        if not schemas:
            raise
        raise _other_schema(table) from err
    versions = {file.version for fragment in fragments for file in fragment.files}
    if any(schema.fields != plan.schema.fields for schema in schemas) or versions - {plan.version}:
        raise _other_schema(table)
    return plan


def _other_schema(table: Location) -> RetryableConflictError:
    return RetryableConflictError(
        f"{table.uri}: the schema or the file version changed while rows were written; write them again"
    )


def _written(
    table: Location,
    plan: WritePlan,
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
