"""Compaction: rewrite rows into fewer fragments without deleted rows.

Rows keep their order within each group of fragments that is rewritten together. As in pylance, new fragments
have the highest ids, and so follow the fragments that stay unchanged.

A task reads neighbouring fragments and writes new data files; then a commit replaces the old fragments.
Fragment ids are reserved by a separate commit before it, as in pylance, so that the transaction, which others
may read, names the new fragments by their final ids. Spec: table format, 7.3 and 12.4.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from lance_df.errors import (
    CorruptDataError,
    InvalidInputError,
    LanceError,
    UnsupportedFeatureError,
)
from lance_df.format.operations import ReserveFragments, Rewrite, RewriteGroup
from lance_df.scan.request import Promise, ScanRequest
from lance_df.scan.run import run_tasks
from lance_df.table.blobs.moved import moved_blobs
from lance_df.table.changes.moved_rows import fragment_runs
from lance_df.table.commit.loop import commit_change
from lance_df.table.commit.row_account import NO_ROWS, RowChange
from lance_df.table.maintenance.compaction_options import FORCE_BINARY_COPY, REENCODE
from lance_df.table.maintenance.compaction_plan import plan_compaction
from lance_df.table.maintenance.index_remap import remapped_indices
from lance_df.table.maintenance.moved_rows import with_lineage
from lance_df.table.maintenance.page_copies import can_be_copied, fragments_copied, is_worthwhile
from lance_df.table.maintenance.scalar_index import can_build, optimize_indices
from lance_df.table.metadata.missing_files import computes_change
from lance_df.table.metadata.row_counts import live_counts, live_rows
from lance_df.table.reading.system_columns import ROW_ADDRESS
from lance_df.table.scan.plan import plan_scan
from lance_df.table.writing.fragment_writer import FileLimits, fragments_written, remove_data_file
from lance_df.table.writing.free_location import new_folders_removed
from lance_df.table.writing.schema_rules import check_types, resolve_version
from lance_df.table.writing.uncommitted import uncommitted_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from contextlib import AbstractContextManager

    from lance_df.format.fragments import Fragment
    from lance_df.table.commit.options import CommitOptions
    from lance_df.table.maintenance.compaction_options import CompactionOptions
    from lance_df.table.table import Table
    from lance_df.table.writing.uncommitted import UncommittedFiles


@computes_change
def compact(table: Table, options: CompactionOptions) -> tuple[Table, list[RewriteGroup]]:
    """Compact a table.

    Returns
    -------
    The table at the new version, and the rewritten groups; the same table if there is nothing to compact.

    Raises
    ------
    RetryableConflictError
        Others changed rows of the fragments meanwhile. As on other failures, no data files are left behind;
        the version that reserves the ids of the new fragments can remain.
    CommitStateUnknownError
        It is unknown whether the compaction was committed; nothing was removed.
    UnsupportedFeatureError
        The table has a feature that this release cannot write.
    """
    with uncommitted_files(table.location) as files:
        groups = [rewrite(table, ids, options, files) for ids in plan_compaction(table, options)]
        compacted = commit_rewrites(table, groups)
    return with_extended_indices(table, compacted, groups), groups


@computes_change
def rewrite(
    table: Table,
    fragment_ids: Sequence[int],
    options: CompactionOptions,
    files: UncommittedFiles | None = None,
) -> RewriteGroup:
    """Rewrite the live rows of fragments into new data files, without a commit.

    Memory is bounded by the windows of a scan and the pages of a file.

    Parameters
    ----------
    files
        Registers the new data files, so that they are deleted if a later step fails.

    Raises
    ------
    NotFoundError
        The table has no such fragment.
    UnsupportedFeatureError
        The table has a feature that this release cannot write.
    """
    version = _file_version(table, options)
    old = tuple(table.fragment(fragment_id) for fragment_id in fragment_ids)
    with _written(table, old, options, version) as written:
        _check_rows(table, old, written)
        new = with_lineage(table, old, written) if table.uses_stable_row_ids else written
        group = RewriteGroup(old, tuple(new))
        if files is not None:
            note_files(files, table, [group])
        return group


def _written(
    table: Table, old: Sequence[Fragment], options: CompactionOptions, version: str
) -> AbstractContextManager[tuple[Fragment, ...]]:
    """Write new fragments: copy pages if this is possible and worthwhile, else re-encode the rows."""
    num_rows = _live_rows(table, old)
    num_files = max(1, num_rows // options.target_rows_per_fragment)
    # equal sizes, as in pylance, so that no small fragment is left over
    limits = FileLimits(
        max_rows=max(1, -(-num_rows // num_files)), max_rows_per_group=options.max_rows_per_group
    )
    if options.max_bytes_per_file is not None:
        limits = dataclasses.replace(limits, max_bytes=options.max_bytes_per_file)
    can_copy = options.compaction_mode != REENCODE and can_be_copied(table, old, version=version)
    if can_copy and (options.compaction_mode is not None or is_worthwhile(table, old)):
        return fragments_copied(table, old, version=version, limits=limits)
    if options.compaction_mode == FORCE_BINARY_COPY:
        raise UnsupportedFeatureError(
            f"{table.uri}: the pages of fragments {old[0].id} to {old[-1].id} cannot be copied. Copying "
            "requires that no rows are deleted, that each file has all columns and the table's file "
            "version, and that there are no blobs and no dictionaries with 8-bit or 16-bit indices"
        )
    return _reencoded(table, old, options, version=version, limits=limits)


@contextmanager
def _reencoded(
    table: Table, old: Sequence[Fragment], options: CompactionOptions, *, version: str, limits: FileLimits
) -> Iterator[tuple[Fragment, ...]]:
    check_types(table.schema, version)
    batches = rows_to_rewrite(
        table,
        [fragment.id for fragment in old],
        batch_rows=options.batch_size,
        num_threads=options.num_threads,
    )
    with (
        closing(batches),
        new_folders_removed(table.location),
        fragments_written(table.location, table.schema, batches, version=version, limits=limits) as written,
    ):
        yield written


def rows_to_rewrite(
    table: Table,
    fragment_ids: Sequence[int],
    *,
    batch_rows: int | None = None,
    num_threads: int | None = None,
) -> Generator[pa.RecordBatch]:
    """Yield the live rows of fragments with their blobs, in a form that a writer takes."""
    has_blobs = any(field.is_blob for field in table.schema.walk())
    request = ScanRequest(
        fragment_ids=tuple(fragment_ids),
        batch_rows=batch_rows,
        with_row_address=has_blobs,
        requires=Promise.COMPLETE | Promise.ORDERED,
    )
    with closing(run_tasks(plan_scan(table, request).tasks, num_threads=num_threads)) as batches:
        yield from _with_blobs(table, batches) if has_blobs else batches


def _with_blobs(table: Table, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Replace the blob descriptions of rows, which come with their addresses, by movable blobs."""
    for batch in batches:
        addresses = batch.column(ROW_ADDRESS).to_numpy()
        for run in fragment_runs(addresses, max_rows=len(addresses)):
            part = batch.slice(run.start, run.stop - run.start)
            fragment = table.fragment(int(addresses[run.start] >> np.uint64(32)))
            yield pa.RecordBatch.from_arrays(
                [
                    moved_blobs(table, fragment, field, part.column(field.name))
                    for field in table.schema.fields
                ],
                table.schema.names,
            )


def commit_rewrites(
    table: Table, groups: Sequence[RewriteGroup], *, commit_options: CommitOptions | None = None
) -> Table:
    """Commit the replacement of old fragments by the new fragments of rewritten groups.

    Parameters
    ----------
    table
        The version that the groups were read from.

    Raises
    ------
    InvalidInputError
        Two groups replace the same fragment.
    ConflictError, CommitStateUnknownError
        See :func:`lance_df.table.commit.loop.commit_change`. The new files stay where they are.
    """
    if not groups:
        return table
    old_ids = [fragment.id for group in groups for fragment in group.old_fragments]
    if len(set(old_ids)) != len(old_ids):
        raise InvalidInputError("two rewrites replace the same fragment")
    latest, numbered = _numbered(table, groups, commit_options)
    # commits of others between the two versions are checked, unless there cannot be any
    base = table if commit_options is None or not commit_options.strict else latest
    counts = live_counts(table, np.array(old_ids, np.int64))
    moved = RowChange(sum(counts.values()), counts)
    with uncommitted_files(table.location) as files:
        operation = Rewrite(tuple(numbered), remapped_indices(table, numbered, files))
        return commit_change(base, operation, rows=moved, options=commit_options)


def note_files(files: UncommittedFiles, table: Table, groups: Iterable[RewriteGroup]) -> None:
    """Register the data files of new fragments, so that they are deleted if a later step fails."""
    for group in groups:
        for fragment in group.new_fragments:
            for file in fragment.files:
                files.add(file.path, partial(remove_data_file, table.data_file_location(file)))


def with_extended_indices(
    before: Table,
    compacted: Table,
    groups: Sequence[RewriteGroup],
    *,
    commit_options: CommitOptions | None = None,
) -> Table:
    """Extend the indices that covered old fragments to the new ones; a failure is only a warning.

    Indices that were remapped in the commit of the fragments already cover them.
    """
    old = BitMap(fragment.id for group in groups for fragment in group.old_fragments)
    names = {
        index.name
        for index in before.indices
        if can_build(index) and (covered := index.covered_fragments()) and covered & old
    }
    new = BitMap(compacted.fragments.ids.tolist()) - BitMap(before.fragments.ids.tolist())
    try:
        return optimize_indices(compacted, names=names, extended_by=new, commit_options=commit_options)
    except LanceError as err:
        message = (
            f"{before.uri}: version {compacted.version} was compacted, but updating its indices failed: {err}"
        )
        warnings.warn(message, RuntimeWarning, stacklevel=5)
        return compacted


def _numbered(
    table: Table, groups: Sequence[RewriteGroup], options: CommitOptions | None
) -> tuple[Table, list[RewriteGroup]]:
    """Reserve the highest fragment ids for the new fragments. Also return the version that reserves them."""
    num_fragments = sum(len(group.new_fragments) for group in groups)
    if not num_fragments:
        return table, list(groups)
    reserving = commit_change(table, ReserveFragments(num_fragments), rows=NO_ROWS, options=options)
    reserved = reserving.manifest.max_fragment_id or 0
    ids = iter(range(reserved - num_fragments + 1, reserved + 1))

    def with_id(fragment: Fragment) -> Fragment:
        return dataclasses.replace(fragment, id=next(ids))

    return reserving, [
        RewriteGroup(group.old_fragments, tuple(map(with_id, group.new_fragments))) for group in groups
    ]


def _check_rows(table: Table, old: Sequence[Fragment], new: Sequence[Fragment]) -> None:
    expected = _live_rows(table, old)
    written = sum(fragment.physical_rows for fragment in new)
    if written != expected:
        raise CorruptDataError(
            f"{table.uri}: fragments {old[0].id} to {old[-1].id} have {written} rows, but version "
            f"{table.version} lists {expected}"
        )


def _live_rows(table: Table, fragments: Sequence[Fragment]) -> int:
    indices = table.fragments.positions(np.array([fragment.id for fragment in fragments], np.int64))
    return int(live_rows(table, indices).sum())


def _file_version(table: Table, options: CompactionOptions) -> str:
    table_version = table.manifest.file_version
    wanted = options.data_storage_version
    if wanted is not None and resolve_version(wanted) != table_version:
        raise UnsupportedFeatureError(
            f"{table.uri}: the table has file version {table_version}; compacting to version {wanted!r} is "
            "not supported by this release"
        )
    return table_version
