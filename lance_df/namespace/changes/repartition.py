"""Move rows from partitions of older spec versions to partitions of the newest one, in steps.

A step moves all rows of some members. If another writer changes one of these meanwhile, the step is not
published. Each step is a separate commit, after which its members have no rows. So a new run, also after a
crash, continues with the remaining rows.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from lance_df.errors import RetryableConflictError, RowCountMismatchError, UnsupportedFeatureError
from lance_df.format.operations import Delete
from lance_df.interrupts import interrupted_once, undisturbed
from lance_df.namespace.changes.advanced import MemberRef, refs_of_main
from lance_df.namespace.changes.append import NewRows
from lance_df.namespace.changes.publish import map_commits, publish, remove_new_folders
from lance_df.namespace.changes.staged import (
    StagedPartitions,
    merged_partitions,
    note_staged_partitions,
    stage_partitions,
)
from lance_df.namespace.manifest_table import NamespaceManifest
from lance_df.namespace.member import in_columns_of, open_member
from lance_df.namespace.member_tables import check_blobs_can_move
from lance_df.namespace.pruning.spec_members import spec_numbers
from lance_df.namespace.published import Member, members_at
from lance_df.records import dataclass
from lance_df.storage.unsynced import Unsynced
from lance_df.table.commit.row_account import RowChange
from lance_df.table.maintenance.compaction import rows_to_rewrite
from lance_df.table.metadata.base_paths import DATA_DIR
from lance_df.table.metadata.row_counts import live_rows
from lance_df.table.parallel import map_reads
from lance_df.table.writing.fragment_writer import remove_files_of_job
from lance_df.table.writing.job_names import files_named_for
from lance_df.table.writing.uncommitted import uncommitted_files

if TYPE_CHECKING:
    import pyarrow as pa

    from lance_df.format.operations import Operation
    from lance_df.namespace.changes.draft import Draft, DraftMember
    from lance_df.namespace.spec.partition_spec import PartitionSpec
    from lance_df.storage import Location
    from lance_df.table.table import Table

STEP_BYTES: Final = 1024 * 1024 * 1024
_ATTEMPTS: Final = 20
# In the place of a predicate, for whoever reads the history of a member.
_PREDICATE: Final = "repartition"


@dataclass(frozen=True, slots=True)
class OldRows:
    """Fragments of a member of an older spec version. ``num_bytes`` is the size of their data files."""

    member: MemberRef
    fragment_ids: tuple[int, ...]
    num_rows: int
    num_bytes: int


@dataclass(frozen=True, slots=True)
class RepartitionMetrics:
    """How many partitions and rows were moved to the newest spec version, and in how many commits."""

    partitions: int = 0
    rows: int = 0
    commits: int = 0


class Workers(Protocol):
    """Workers that read members and rewrite rows."""

    def old_rows(self, members: Sequence[MemberRef]) -> list[OldRows]:
        """Return the fragments of members that have rows, one item for each; see `old_rows_of`."""
        ...

    def stage(self, job: MoveJob, rows: Sequence[OldRows]) -> list[StagedPartitions]:
        """Write rows into data files of their new partitions; see `MoveJob.stage`."""
        ...


@dataclass(frozen=True, slots=True)
class MoveJob:
    """A step, which any process can run a part of. ``version`` is that of the namespace."""

    root: Location
    version: int
    id: uuid.UUID

    def stage(self, rows: Sequence[OldRows]) -> StagedPartitions:
        """Write rows into data files of their new partitions."""
        manifest = NamespaceManifest.open(self.root, self.version)
        schema = manifest.schema
        with files_named_for(self.id):
            return stage_partitions(
                self.root, manifest, schema.columns.to_arrow(), _batches(manifest, rows), str(self.id)
            )

    def remove_files(self) -> None:
        """Remove the written files, as far as the store allows."""

        def remove(name: str) -> None:
            folder = self.root / name
            remove_files_of_job(folder, self.id)
            (folder / DATA_DIR).remove_empty_folder()
            folder.remove_empty_folder()

        map_commits(remove, self.root.names())


class InProcess:
    """Does the work in this process."""

    def old_rows(self, members: Sequence[MemberRef]) -> list[OldRows]:
        """Return the fragments of members that have rows."""
        return old_rows_of(members)

    def stage(self, job: MoveJob, rows: Sequence[OldRows]) -> list[StagedPartitions]:
        """Rewrite rows."""
        return [job.stage(rows)]


def takes_rows_away(operation: Operation | None) -> bool:
    """Whether a version of a member may be one whose rows `repartition` has put elsewhere."""
    match operation:
        case Delete(updated_fragments=(), predicate=predicate):
            return predicate == _PREDICATE
    return False


def old_rows_of(members: Sequence[MemberRef]) -> list[OldRows]:
    """Return the fragments of members that have rows, one item for each."""
    old_rows = []
    for member in members:
        fragments = (table := open_member(member.folder, member.version)).fragments
        rows = live_rows(table, np.arange(len(fragments)))
        sizes = fragments.file_bytes.tolist()
        for fragment_id, num_rows, size in zip(fragments.ids.tolist(), rows.tolist(), sizes, strict=True):
            if num_rows:
                old_rows.append(OldRows(member, (fragment_id,), num_rows, size))
    return old_rows


def repartition(
    root: Location, manifest: NamespaceManifest, workers: Workers, *, step_bytes: int
) -> tuple[NamespaceManifest, RepartitionMetrics]:
    """Move all rows to partitions of the newest spec version, and return the namespace and metrics.

    Parameters
    ----------
    step_bytes
        Stored bytes to move in one commit; a larger partition is also moved in one commit.

    Raises
    ------
    RetryableConflictError
        Other writers changed the rows to move again and again. Rows moved until then stay moved.
    UnsupportedFeatureError
        Blobs may be in base paths of a single partition; or a partition with rows is read from a branch,
        which is detected after all others are moved.
    CommitStateUnknownError
        It is not known whether a step was published.
    """
    done, conflicts = RepartitionMetrics(), 0
    while True:
        manifest = manifest.latest_for_change()
        positions = np.flatnonzero(spec_numbers(manifest) != manifest.specs.current.id)
        members = members_at(root, manifest, positions)
        steps = list(_steps(workers.old_rows(refs_of_main(members)), step_bytes))
        if not steps:
            _check_branches(members)
            return manifest, done
        try:
            for step in steps:
                manifest = _moved(root, manifest, workers, step)
                done = RepartitionMetrics(
                    done.partitions + len({each.member.name for each in step}),
                    done.rows + sum(each.num_rows for each in step),
                    done.commits + 1,
                )
                conflicts = 0
        except RetryableConflictError:
            conflicts += 1
            if conflicts == _ATTEMPTS:
                raise


def _check_branches(members: Sequence[Member]) -> None:
    """Check that no member has rows left, after the rows on main are moved."""
    for member in members:
        branch = member.resolve().branch
        if branch is not None and (number := member.open().count_rows()):
            raise UnsupportedFeatureError(
                f"{member.folder.uri}: {number:,} rows of {member.object_id} were not moved because it is "
                f"read from branch {branch!r}, and writing to branches of a namespace is not supported; "
                "all other partitions were moved"
            )


@interrupted_once()
def _moved(
    root: Location, manifest: NamespaceManifest, workers: Workers, rows: Sequence[OldRows]
) -> NamespaceManifest:
    """Return the version of the namespace in which some rows are moved."""
    job = MoveJob(root, manifest.version, uuid.uuid4())
    try:
        staged = workers.stage(job, rows)
    except BaseException:
        undisturbed(job.remove_files)
        raise
    with uncommitted_files() as files:
        note_staged_partitions(files, root, staged)
        change = _RowsMoved(root, manifest, {each.member.name: each.member for each in rows}, staged)
        try:
            return publish(root, manifest, [change], files=[files])
        except BaseException:
            if files.are_certain:
                remove_new_folders(manifest, [change])
            raise


class _RowsMoved:
    """The change that removes all rows from members, and adds them to their new partitions."""

    def __init__(
        self,
        root: Location,
        manifest: NamespaceManifest,
        members: dict[str, MemberRef],
        staged: Sequence[StagedPartitions],
    ) -> None:
        self._spec: PartitionSpec = manifest.specs.current
        self._members = members
        written = merged_partitions(root, staged)
        self._num_written = sum(each.num_rows for each in written)
        self._rows = NewRows(self._spec, manifest.schema.columns, written, unsynced=Unsynced())
        self._emptied: dict[str, int] = {}

    def apply(self, draft: Draft) -> None:
        """Commit versions of members.

        Raises
        ------
        RetryableConflictError
            The members have changed since the rows were rewritten, or there is a newer spec version.
        RowCountMismatchError
            The number of rewritten rows differs from the number of removed rows.
        """
        members = draft.members_called(self._members.keys())
        states = {
            each.published.object_id: each.version
            for each in members
            if each.published is not None and each.branch is None
        }
        wanted = {name: each.version for name, each in self._members.items()}
        if states != wanted or draft.manifest.specs.current.id != self._spec.id:
            raise RetryableConflictError(
                f"{draft.root.uri}: partitions to be moved were changed in the meantime"
            )
        tables = map_reads(lambda each: each.open(), members, where=draft.root)
        emptied = [RowChange.emptying(table) for table in tables]
        num_taken = sum(sum(rows.deleted.values()) for rows in emptied)
        if num_taken != self._num_written:
            raise RowCountMismatchError(
                f"{draft.root.uri}: repartition removes {num_taken} rows from {len(members)} members, but "
                f"has written {self._num_written}. Nothing was published; please report this defect"
            )
        map_commits(lambda part: self._empty(*part), zip(members, tables, emptied, strict=True))
        self._rows.apply(draft)

    def folders(self) -> list[Location]:
        """Return the folders of the partitions to which rows are moved."""
        return self._rows.folders()

    def tidy(self, published: NamespaceManifest) -> None:
        """Remove the folders of tables that another writer created first."""
        self._rows.tidy(published)

    def _empty(self, member: DraftMember, table: Table, rows: RowChange) -> None:
        path = member.folder.path
        if path not in self._emptied:
            operation = Delete((), tuple(table.fragments.ids.tolist()), _PREDICATE)
            self._emptied[path] = member.commit(operation, rows)
        member.version = self._emptied[path]


def _steps(rows: Sequence[OldRows], step_bytes: int) -> Iterator[list[OldRows]]:
    """Yield groups of neighbouring members, each with all of its rows."""
    step: list[OldRows] = []
    num_bytes = 0
    sizes: dict[str, int] = {}
    for each in rows:
        sizes[each.member.name] = sizes.get(each.member.name, 0) + each.num_bytes
    for each in rows:
        is_next = bool(step) and step[-1].member.name != each.member.name
        if is_next and num_bytes + sizes[each.member.name] > step_bytes:
            yield step
            step, num_bytes = [], 0
        step.append(each)
        num_bytes += each.num_bytes
    if step:
        yield step


def _batches(manifest: NamespaceManifest, rows: Sequence[OldRows]) -> Iterator[pa.RecordBatch]:
    for each in rows:
        table = in_columns_of(manifest.schema, open_member(each.member.folder, each.member.version))
        check_blobs_can_move(table)
        yield from rows_to_rewrite(table, each.fragment_ids, num_threads=1)
