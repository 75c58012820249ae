"""Commit the results of tasks once, to a table or to all partitions of a namespace."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from lance_df.format.operations import Delete, Update
from lance_df.namespace.changes.computed_rows import ComputedRows, RowsComputed, remove_computed_files
from lance_df.namespace.changes.pending import PendingChanges
from lance_df.namespace.kind import Source
from lance_df.records import dataclass
from lance_df.spark.changes.targets import MemberAt, Targets
from lance_df.spark.opened import SourceRef, open_source
from lance_df.spark.options import SourceOptions
from lance_df.spark.paths import path_for_driver
from lance_df.table.changes.removal import RemovedRows, note_deletion_files
from lance_df.table.changes.retry import Change, RetryOptions, commit_with_retries
from lance_df.table.commit.inserted_keys import united_keys
from lance_df.table.commit.marks import AlreadyCommittedError, Mark
from lance_df.table.commit.options import CommitOptions
from lance_df.table.commit.row_account import RowChange
from lance_df.table.maintenance.auto_cleanup import auto_cleanup
from lance_df.table.metadata.base_paths import DATA_DIR
from lance_df.table.writing.fragment_writer import remove_data_file, remove_files_of_job
from lance_df.table.writing.uncommitted import UncommittedFiles, uncommitted_files

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from lance_df.format.operations import Operation
    from lance_df.format.schema import Schema
    from lance_df.namespace.changes.draft import Draft, DraftMember
    from lance_df.namespace.manifest_table import NamespaceManifest
    from lance_df.namespace.snapshot import NamespaceSnapshot
    from lance_df.spark.changes.task_rows import TaskResult
    from lance_df.table.table import Table

Run: TypeAlias = "Callable[[Targets, Sequence[Table], uuid.UUID], list[TaskResult]]"
"""Runs the tasks of a job over some tables."""

_SETTLED_SECONDS: Final = 5.0
_POLL_SECONDS: Final = 0.05


@dataclass(frozen=True, slots=True)
class ChangeSummary:
    """The result of a change.

    Attributes
    ----------
    version
        The version of the table or the namespace that has the change.
    num_inserted_rows, num_updated_rows, num_deleted_rows
        Numbers of rows of the target.
    is_repeated
        Whether an earlier call with the same ``run_id`` made the change, so that this one did nothing.
    """

    version: int
    num_inserted_rows: int = 0
    num_updated_rows: int = 0
    num_deleted_rows: int = 0
    is_repeated: bool = False


@dataclass(frozen=True, slots=True)
class RowsChange:
    """A change of rows.

    Attributes
    ----------
    run
        The function that computes the change.
    candidates
        A function that returns the members of a namespace that may have rows to change.
    text
        The description of the change in transactions.
    assigned
        The columns that an update sets; None for all columns.
    is_deletion
        Whether the change only deletes rows.
    """

    run: Run
    candidates: Callable[[Draft], Sequence[DraftMember]]
    text: str
    assigned: tuple[str, ...] | None = None
    is_deletion: bool = False


class Target:
    """A table or a namespace whose rows are changed.

    Parameters
    ----------
    spark
        The session that runs the tasks.
    mark
        The mark of a change that is made only once.

    Attributes
    ----------
    opened
        The newest version of the target when the call began.
    """

    def __init__(
        self,
        spark: SparkSession,
        path: str | os.PathLike[str],
        storage_options: Mapping[str, Any] | None,
        mark: Mark | None,
    ) -> None:
        self.spark = spark
        self._options = SourceOptions(path=path_for_driver(path), storage=dict(storage_options or {}))
        self._mark = mark
        self.opened: Source = open_source(self._options)

    @property
    def namespace(self) -> NamespaceSnapshot | None:
        """The target if it is a namespace; None for a table."""
        return self.opened.namespace

    @property
    def schema(self) -> Schema:
        """The columns of the target."""
        namespace = self.namespace
        return self.opened.committed_table.schema if namespace is None else namespace.manifest.schema.columns

    @property
    def stored(self) -> pa.Schema:
        """The columns of the target in Arrow's types."""
        return self.opened.arrow_schema

    @property
    def is_done(self) -> bool:
        """Whether the change was committed before."""
        return self._mark is not None and self._mark.is_in(self.opened.committed_table.manifest.config)

    def repeated(self) -> ChangeSummary:
        """Return the summary of a change that was committed before."""
        return ChangeSummary(open_source(self._options).version, is_repeated=True)

    def commit(self, change: RowsChange) -> ChangeSummary:
        """Compute a change and commit it; after a conflict, compute and commit it again."""
        try:
            if (namespace := self.namespace) is not None:
                return self._commit_namespace(namespace.latest_for_change(), change)
            return self._commit_table(self.opened.committed_table, change)
        except AlreadyCommittedError:
            return self.repeated()

    def _commit_table(self, opened: Table, change: RowsChange) -> ChangeSummary:
        @contextmanager
        def compute(table: Table) -> Iterator[Change[Totals]]:
            ref = SourceRef.of(table, self._options)
            job = uuid.uuid4()
            try:
                results = change.run(Targets(ref), [table], job)
            except BaseException:
                wait_for_tasks(self.spark)
                remove_files_of_job(table.location, job)
                raise
            with uncommitted_files() as files:
                totals = Totals.of(results)
                _note_files(files, table, results, totals)
                added = totals.num_inserted + totals.num_updated
                left = totals.left.get(0, RemovedRows.united(()))
                operation = _operation(table, change, results, left)
                yield Change(operation, RowChange(added, left.counts), totals)

        marks = () if self._mark is None else (self._mark,)
        made, totals = commit_with_retries(opened, compute, RetryOptions(), CommitOptions(marks=marks))
        auto_cleanup(made)
        return totals.summary(made.version)

    def _commit_namespace(self, snapshot: NamespaceSnapshot, change: RowsChange) -> ChangeSummary:
        def compute(manifest: NamespaceManifest, members: Sequence[DraftMember]) -> ComputedRows:
            ref = SourceRef.of_manifest(manifest, self._options)
            targets = Targets(ref, tuple(map(MemberAt.of, members)), manifest.schema)
            tables = [targets.open(number) for number in targets.numbers]
            job = uuid.uuid4()
            try:
                results = change.run(targets, tables, job)
            except BaseException:
                wait_for_tasks(self.spark)
                remove_computed_files(snapshot.root, job)
                raise
            totals = Totals.of(results)
            staged = tuple(each.staged for each in results if each.staged is not None)
            return ComputedRows(
                totals.left, staged, totals.num_inserted, totals.num_updated, totals.num_deleted
            )

        made = RowsComputed(change.candidates, compute, text=change.text)
        with PendingChanges(snapshot.root, snapshot.manifest) as pending:
            if self._mark is not None:
                pending.mark(self._mark)
            pending.add_change(made)
            manifest = pending.publish(rebase=True, takes_long=True)
        rows = made.rows
        return ChangeSummary(manifest.version, rows.num_inserted, rows.num_updated, rows.num_deleted)


@dataclass(frozen=True, slots=True)
class Totals:
    """The results of all tasks together."""

    left: dict[int, RemovedRows]
    num_inserted: int
    num_updated: int
    num_deleted: int

    @classmethod
    def of(cls, results: Sequence[TaskResult]) -> Totals:
        """Return the united results of tasks."""
        parts: dict[int, list[RemovedRows]] = {}
        for result in results:
            for number, rows in result.left.items():
                parts.setdefault(number, []).append(rows)
        return cls(
            {number: RemovedRows.united(of_table) for number, of_table in parts.items()},
            sum(each.num_inserted for each in results),
            sum(each.num_updated for each in results),
            sum(each.num_deleted for each in results),
        )

    def summary(self, version: int) -> ChangeSummary:
        """Return the summary of the change in a version."""
        return ChangeSummary(version, self.num_inserted, self.num_updated, self.num_deleted)


def _operation(
    table: Table, change: RowsChange, results: Sequence[TaskResult], left: RemovedRows
) -> Operation:
    removal = left.removal
    if change.is_deletion:
        return Delete(removal.updated_fragments, removal.removed_fragment_ids, change.text)
    names = table.schema.names if change.assigned is None else change.assigned
    fields = {node.id for name in names for node in table.schema.field(name).walk()}
    keys = [each.keys for each in results if each.keys is not None]
    return Update(
        removal.removed_fragment_ids,
        removal.updated_fragments,
        tuple(fragment for each in results for fragment in each.fragments),
        fields_for_preserving_frag_bitmap=tuple(sorted(fields)),
        inserted_keys=united_keys(keys) if keys else None,
    )


def _note_files(files: UncommittedFiles, table: Table, results: Sequence[TaskResult], totals: Totals) -> None:
    for result in results:
        for fragment in result.fragments:
            for file in fragment.files:
                location = table.location / DATA_DIR / file.path
                files.add(file.path, lambda location=location: remove_data_file(location))  # type: ignore[misc]
    for rows in totals.left.values():
        note_deletion_files(files, table.location, rows.removal)


def wait_for_tasks(spark: SparkSession) -> None:
    """Wait until the tasks of a failed job have ended, if the session reports that."""
    context = getattr(spark, "_sc", None)
    deadline = time.monotonic() + _SETTLED_SECONDS
    while context is not None and time.monotonic() < deadline:
        infos = context._jsc.sc().statusTracker().getExecutorInfos()
        if not any(info.numRunningTasks() for info in infos):
            return
        time.sleep(_POLL_SECONDS)
