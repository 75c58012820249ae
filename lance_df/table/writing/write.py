"""Write rows into new data files, and commit them: create, append, overwrite."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from lance_df.errors import (
    AlreadyExistsError,
    InvalidInputError,
    RetryableConflictError,
)
from lance_df.records import dataclass
from lance_df.table.commit.loop import TRANSACTIONS_DIR
from lance_df.table.metadata.base_paths import DATA_DIR
from lance_df.table.metadata.versions import VERSIONS_DIR
from lance_df.table.reading.batches import CountedBatches, source_closed
from lance_df.table.writing.fragment_writer import fragments_written
from lance_df.table.writing.write_plan import Mode as Mode
from lance_df.table.writing.write_plan import WriteOptions as WriteOptions
from lance_df.table.writing.write_plan import plan_write
from lance_df.table.writing.zone_map_writer import ZoneMapBuilder, ZoneMaps, with_zone_maps

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

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
    with source_closed(batches), _folders(table):
        plan = plan_write(table, data_schema, mode, options)
        zone_maps = ZoneMapBuilder(plan.schema) if options.statistics else None
        counted = CountedBatches(batches)
        with _written(table, plan, counted, options, zone_maps) as fragments:
            made = plan.publish(table, fragments, options, num_rows=counted.num_rows)
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
    with source_closed(batches), _folders(table):
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
    with _folders(table):
        try:
            return _published(table, data_schema, staged, mode, options)
        except AlreadyExistsError:
            if mode == "create":
                raise
            # another process created the table meanwhile
            return _published(table, data_schema, staged, mode, options)


def _published(
    table: Location, data_schema: pa.Schema, staged: Sequence[StagedRows], mode: Mode, options: WriteOptions
) -> ManifestFile:
    conflict = f"{table.uri}: the schema changed during the write; write the rows again"
    try:
        plan = plan_write(table, data_schema, mode, options)
    except InvalidInputError as err:
        if not staged:
            raise
        raise RetryableConflictError(conflict) from err
    if any(each.schema.fields != plan.schema.fields for each in staged):
        raise RetryableConflictError(conflict)
    fragments: list[Fragment] = []
    num_rows = 0
    for each in staged:
        fragments += each.fragments
        num_rows += each.num_rows
    return plan.publish(table, tuple(fragments), options, num_rows=num_rows)


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


@contextmanager
def _folders(table: Location) -> Iterator[None]:
    """Delete the folders of a new local table if it is not created."""
    existed = not table.is_local or os.path.isdir(table.path)
    try:
        yield
    except BaseException:
        for name in (DATA_DIR, TRANSACTIONS_DIR, VERSIONS_DIR):
            (table / name).remove_empty_folder()
        if not existed:
            table.remove_empty_folder()
        raise
