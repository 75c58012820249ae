"""Publish rows that other processes have deleted, updated and inserted in members, all in one commit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from lance_df.errors import RetryableConflictError, RowCountMismatchError
from lance_df.format.operations import Delete
from lance_df.namespace.changes.partition_files import note_files, remove_empty_folders
from lance_df.namespace.changes.publish import map_commits
from lance_df.namespace.changes.staged import StagedPartitions, merged_partitions
from lance_df.namespace.changes.update import RowsReplaced
from lance_df.records import dataclass
from lance_df.storage.unsynced import Unsynced
from lance_df.table.changes.removal import RemovedRows, note_deletion_files
from lance_df.table.commit.row_account import RowChange
from lance_df.table.writing.fragment_writer import remove_files_of_job

if TYPE_CHECKING:
    import uuid

    from lance_df.namespace.changes.delete import Candidates
    from lance_df.namespace.changes.draft import Draft, DraftMember
    from lance_df.namespace.manifest_table import NamespaceManifest
    from lance_df.storage import Location

_ATTEMPTS: Final = 10


@dataclass(frozen=True, slots=True)
class ComputedRows:
    """Computed changes of the rows of some members, whose files are already written.

    Attributes
    ----------
    left
        The rows to remove from each member, by position of the member.
    written
        Complete rows: inserted rows, and the new versions of updated rows.
    num_inserted, num_updated, num_deleted
        Numbers of rows, counted where they were selected.
    """

    left: dict[int, RemovedRows]
    written: tuple[StagedPartitions, ...]
    num_inserted: int
    num_updated: int
    num_deleted: int


Compute: TypeAlias = "Callable[[NamespaceManifest, Sequence[DraftMember]], ComputedRows]"
"""Finds rows of members at their versions, and writes files. If that fails, no file is left."""


class RowsComputed(RowsReplaced):
    """The change that publishes rows computed by other processes; each attempt computes them again.

    Parameters
    ----------
    candidates, text
        See `RowsReplaced`.

    Attributes
    ----------
    rows
        The result of the last attempt.
    """

    def __init__(self, candidates: Candidates, compute: Compute, *, text: str) -> None:
        super().__init__(candidates, text=text)
        self._compute = compute
        self._attempts = 0
        self.rows = ComputedRows({}, (), 0, 0, 0)

    def _attempt(self, draft: Draft, members: Sequence[DraftMember]) -> list[int]:
        self._attempts += 1
        if self._attempts > _ATTEMPTS:
            raise RetryableConflictError(
                f"{draft.root.uri}: other writers changed the same partitions {_ATTEMPTS} times while rows "
                "were computed; try again"
            )
        self._take(draft, members, self._compute(draft.manifest, members))
        parts = zip(members, range(len(members)), strict=True)
        return map_commits(lambda part: self._without_rows(*part), parts)

    def _take(self, draft: Draft, members: Sequence[DraftMember], rows: ComputedRows) -> None:
        """Record the written files, and check the numbers of rows."""
        for number, left in rows.left.items():
            note_deletion_files(self.files, members[number].folder, left.removal)
        written = merged_partitions(draft.root, rows.written)
        for partition in written:
            note_files(self.files, partition)
        spec, columns = draft.manifest.specs.current, draft.manifest.schema.columns
        self._add(spec, columns, written, Unsynced())
        self.rows = rows
        num_left = sum(left.removal.num_rows for left in rows.left.values())
        num_written = sum(each.num_rows for each in rows.written)
        if (num_left, num_written) != (
            rows.num_updated + rows.num_deleted,
            rows.num_updated + rows.num_inserted,
        ):
            raise RowCountMismatchError(
                f"{draft.root.uri}: {rows.num_updated} rows are updated, {rows.num_inserted} inserted and "
                f"{rows.num_deleted} deleted, but {num_left} were removed from their partitions and "
                f"{num_written} were written. Nothing was published; please report this defect"
            )
        for number in rows.left:
            members[number].check_writable()

    def _without_rows(self, member: DraftMember, number: int) -> int:
        left = self.rows.left.get(number)
        if left is None or not left.removal.num_rows:
            return member.version
        removal = left.removal
        operation = Delete(removal.updated_fragments, removal.removed_fragment_ids, self._text)
        return member.commit(operation, RowChange(deleted=left.counts))


def remove_computed_files(root: Location, job: uuid.UUID) -> None:
    """Remove the files of a failed job from all folders of a namespace, as far as the store allows."""

    def remove(name: str) -> None:
        folder = root / name
        remove_files_of_job(folder, job)
        remove_empty_folders(folder)

    map_commits(remove, root.names())
