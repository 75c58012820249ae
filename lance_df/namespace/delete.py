"""Delete rows of many partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from lance_df.namespace.member import commit_to_member, open_member
from lance_df.namespace.publish import for_each
from lance_df.table.changes.delete import deletion
from lance_df.table.changes.row_set import RowSet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lance_df.namespace.draft import Draft, DraftMember
    from lance_df.table.changes.row_set import Addresses
    from lance_df.table.table import Table

    Matching: TypeAlias = Callable[[Table], Iterable[Addresses]]
    Candidates: TypeAlias = Callable[[Draft], Sequence[DraftMember]]


class Deletion:
    """The change that deletes the rows of members for which something is true.

    Parameters
    ----------
    candidates
        Members that may have such rows.
    matching
        The addresses of such rows in a member.
    text
        What the transactions of members say of it. Nothing is read from it.
    """

    def __init__(self, candidates: Candidates, matching: Matching, *, text: str) -> None:
        self._candidates = candidates
        self._matching = matching
        self._text = text
        self._made: dict[tuple[str, int], tuple[int, int]] = {}
        self.num_rows = 0

    def apply(self, draft: Draft) -> None:
        """Make a version of each member without the rows; those that have none stay at theirs."""
        members = self._candidates(draft)
        before = [(member.folder.path, member.version) for member in members]
        for_each(self._commit, members)
        self.num_rows = sum(self._made[key][1] for key in before)

    def tidy(self) -> None:
        """Nothing is left behind."""

    def _commit(self, member: DraftMember) -> None:
        key = member.folder.path, member.version
        if key not in self._made:
            self._made[key] = self._version_without(member)
        member.version = self._made[key][0]

    def _version_without(self, member: DraftMember) -> tuple[int, int]:
        """Return the version without the rows, and how many these were."""
        table = open_member(member.folder, member.version)
        rows = RowSet.of(self._matching(table))
        if not len(rows):
            return member.version, 0
        with deletion(table, rows, predicate=self._text) as change:
            return commit_to_member(member.folder, member.version, change.operation), change.result
