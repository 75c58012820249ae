"""`compact`: join small fragments of a table, or of all partitions of a namespace."""

from __future__ import annotations

import uuid
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lance_df.errors import LanceError
from lance_df.namespace.changes.advanced import MemberRef, MembersAdvanced
from lance_df.namespace.changes.compaction import committed_rewrites
from lance_df.namespace.changes.publish import publish
from lance_df.namespace.member import check_columns
from lance_df.namespace.snapshot import NamespaceSnapshot
from lance_df.optimize import CompactionMetrics
from lance_df.records import dataclass
from lance_df.spark.opened import SourceRef, open_source
from lance_df.spark.options import SourceOptions
from lance_df.spark.paths import path_for_driver
from lance_df.spark.pipeline.members import Ref, member_refs, open_ref, pinned
from lance_df.spark.pipeline.tasks import (
    OPENING_BYTES,
    TASK_BYTES,
    check_task_bytes,
    evenly,
    num_workers,
    run_in_tasks,
    shared_out,
)
from lance_df.table.maintenance.compaction import commit_rewrites, note_files, rewrite, with_extended_indices
from lance_df.table.maintenance.compaction_options import compaction_options
from lance_df.table.maintenance.compaction_plan import plan_compaction
from lance_df.table.writing.fragment_writer import remove_files_of_job
from lance_df.table.writing.job_names import files_named_for
from lance_df.table.writing.uncommitted import uncommitted_files

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping, Sequence
    from typing import TypeAlias

    from pyspark.sql import SparkSession

    from lance_df.api.optimizer import CompactionMode
    from lance_df.format.operations import RewriteGroup
    from lance_df.namespace.spec.namespace_schema import NamespaceSchema
    from lance_df.table.table import Table

    Given: TypeAlias = Mapping[str, Any]

# The least number of members that one task plans.
_PLANNED_AT_ONCE: Final = 256


def compact(
    spark: SparkSession,
    root: str | os.PathLike[str],
    *,
    target_rows_per_fragment: int | None = None,
    max_rows_per_group: int | None = None,
    max_bytes_per_file: int | None = None,
    materialize_deletions: bool | None = None,
    materialize_deletions_threshold: float | None = None,
    batch_size: int | None = None,
    compaction_mode: CompactionMode | None = None,
    task_bytes: int = TASK_BYTES,
    storage_options: Mapping[str, Any] | None = None,
) -> CompactionMetrics:
    """Join small fragments of a table or of all partitions, and leave out deleted rows and dropped columns.

    Tasks write the data files: many small partitions in one task, a large one in several. Then one commit
    makes all of them visible. If nothing needs compaction, there is no new version. Others may write to a
    namespace meanwhile: fragments that they change are not compacted.

    Parameters
    ----------
    root
        Path of a table or a namespace.
    target_rows_per_fragment, max_rows_per_group, max_bytes_per_file, materialize_deletions
        As for `lance_df.optimize.CompactionOptions`, for each partition.
    materialize_deletions_threshold, batch_size, compaction_mode
        As for `lance_df.optimize.CompactionOptions`, too.
    task_bytes
        Stored bytes for one task to rewrite, unless a single new file needs more. The memory of a task is
        that of a scan and a writer, for any number of bytes.
    storage_options
        Options for the fsspec filesystem.

    Returns
    -------
    The metrics of all partitions together.

    Raises
    ------
    InvalidInputError
        An argument is out of range.
    ConflictError
        Columns changed meanwhile; or, in a table, others changed rows of the fragments.
    CommitStateUnknownError
        It is not known whether the compaction was published.
    LanceError
        A task failed, and no change is visible. Spark's error is the cause.
    """
    given = {
        "target_rows_per_fragment": target_rows_per_fragment,
        "max_rows_per_group": max_rows_per_group,
        "max_bytes_per_file": max_bytes_per_file,
        "materialize_deletions": materialize_deletions,
        "materialize_deletions_threshold": materialize_deletions_threshold,
        "batch_size": batch_size,
        "compaction_mode": compaction_mode,
        "num_threads": 1,  # Spark gives a task one core
    }
    check_task_bytes(task_bytes)
    options = SourceOptions(path=path_for_driver(root), storage=dict(storage_options or {}))
    source = open_source(options)
    namespace = source.namespace
    if namespace is not None:
        return _compact_namespace(spark, pinned(namespace), given, task_bytes)
    return _compact_table(spark, source.committed_table, SourceRef.of(source, options), given, task_bytes)


@dataclass(frozen=True, slots=True)
class _Rewrite:
    """Adjacent fragments to rewrite together."""

    ref: Ref
    fragment_ids: tuple[int, ...]
    num_bytes: int


@dataclass(frozen=True, slots=True)
class _Rewritten:
    """The rewritten fragments of one table."""

    ref: Ref
    groups: tuple[RewriteGroup, ...]

    @property
    def num_bytes(self) -> int:
        """The approximate bytes that the commit reads again for zone maps."""
        new = [fragment for group in self.groups for fragment in group.new_fragments]
        return OPENING_BYTES + sum(file.size_bytes for fragment in new for file in fragment.files)


def _compact_table(
    spark: SparkSession, table: Table, ref: SourceRef, given: Given, task_bytes: int
) -> CompactionMetrics:
    rewritten = _rewritten(spark, list(_plan(ref, table, given)), given, task_bytes)
    groups = [group for each in rewritten for group in each.groups]
    with uncommitted_files() as files:
        note_files(files, table, groups)
        compacted = commit_rewrites(table, groups)
    with_extended_indices(table, compacted, groups)
    return CompactionMetrics._of(groups)


def _compact_namespace(
    spark: SparkSession, snapshot: NamespaceSnapshot, given: Given, task_bytes: int
) -> CompactionMetrics:
    workers, manifest = num_workers(spark), snapshot.manifest
    refs = member_refs(snapshot, np.arange(len(manifest.members)))
    planned = run_in_tasks(
        spark, partial(_plan_members, manifest.schema, given), evenly(refs, workers, _PLANNED_AT_ONCE)
    )
    rewritten = _rewritten(spark, [each for part in planned for each in part], given, task_bytes)
    groups = {each.ref.name: each.groups for each in rewritten if isinstance(each.ref, MemberRef)}
    made: dict[str, tuple[int, int]] = {}
    for part in run_in_tasks(spark, _commit_members, shared_out(rewritten, workers, task_bytes)):
        made |= part

    def again(ref: MemberRef) -> int:
        return committed_rewrites(ref.folder, ref.version, groups[ref.name])

    if made:
        publish(snapshot.root, manifest, [MembersAdvanced(made, again)])
    return CompactionMetrics._of([group for part in groups.values() for group in part])


def _rewritten(
    spark: SparkSession, work: Sequence[_Rewrite], given: Given, task_bytes: int
) -> list[_Rewritten]:
    """Write the new data files of all rewrites, or remove all of them after a failure."""
    job = uuid.uuid4()
    tasks = shared_out(work, num_workers(spark), task_bytes)
    try:
        rewritten = run_in_tasks(spark, partial(_rewrite, job, given), tasks)
    except BaseException:
        for ref in {each.ref.uri: each.ref for each in work}.values():
            with suppress(LanceError):
                remove_files_of_job(open_ref(ref).location, job)
        raise
    groups: dict[str, tuple[Ref, list[RewriteGroup]]] = {}
    for task, of_task in zip(tasks, rewritten, strict=True):
        for each, group in zip(task, of_task, strict=True):
            groups.setdefault(each.ref.uri, (each.ref, []))[1].append(group)
    return [_Rewritten(ref, tuple(of_table)) for ref, of_table in groups.values()]


def _plan(ref: Ref, table: Table, given: Given) -> Iterator[_Rewrite]:
    sizes = dict(zip(table.fragments.ids.tolist(), table.fragments.file_bytes.tolist(), strict=True))
    for ids in plan_compaction(table, compaction_options(table, given)):
        yield _Rewrite(ref, ids, sum(OPENING_BYTES + sizes[fragment_id] for fragment_id in ids))


def _plan_members(schema: NamespaceSchema, given: Given, refs: Sequence[MemberRef]) -> list[_Rewrite]:
    rewrites: list[_Rewrite] = []
    for ref in refs:
        table = open_ref(ref)
        of_member = list(_plan(ref, table, given))
        if of_member:
            # a rewrite would lose the values of columns that the member's schema lacks
            check_columns(schema, table)
        rewrites += of_member
    return rewrites


def _rewrite(job: uuid.UUID, given: Given, work: Sequence[_Rewrite]) -> list[RewriteGroup]:
    groups = []
    with files_named_for(job):
        for each in work:
            table = open_ref(each.ref)
            groups.append(rewrite(table, each.fragment_ids, compaction_options(table, given)))
    return groups


def _commit_members(work: Sequence[_Rewritten]) -> dict[str, tuple[int, int]]:
    """Commit the rewrites; return the published and the compacted version of each member."""
    return {
        each.ref.name: (
            each.ref.version,
            committed_rewrites(each.ref.folder, each.ref.version, each.groups),
        )
        for each in work
        if isinstance(each.ref, MemberRef)
    }
