"""Delete rows of many partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from lance_df.namespace.changes.publish import map_commits
from lance_df.namespace.member import in_columns_of
from lance_df.table.changes.delete import deletion
from lance_df.table.changes.row_set import RowSet
from lance_df.table.parallel import map_reads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lance_df.namespace.changes.draft import Draft, DraftMember
    from lance_df.namespace.manifest_table import NamespaceManifest
    from lance_df.table.changes.row_set import Addresses
    from lance_df.table.table import Table

    Matching: TypeAlias = Callable[[Sequence[Table]], Iterable[tuple[int, Addresses]]]
    Candidates: TypeAlias = Callable[[Draft], Sequence[DraftMember]]


class Deletion:
    """The change that deletes matching rows of members.

    Parameters
    ----------
    candidates
        Returns the members that may have such rows.
    matching
        Finds the rows in a sequence of tables: yields positions of tables and row addresses, in any order.
    text
        A description for the transactions of members, which is never parsed.

    Attributes
    ----------
    states
        The folders and versions that the last attempt searched.
    num_rows
        The number of rows that the last attempt deleted.
    """

    def __init__(self, candidates: Candidates, matching: Matching, *, text: str) -> None:
        self._candidates = candidates
        self._matching = matching
        self._text = text
        self._made: dict[tuple[str, int], tuple[int, int]] = {}
        self.states: list[tuple[str, int]] = []
        self.num_rows = 0

    def apply(self, draft: Draft) -> None:
        """Commit a version without the rows to each member that has such rows."""
        members = self._candidates(draft)
        self.states = states = [member.state for member in members]
        new = [member for member, state in zip(members, states, strict=True) if state not in self._made]
        tables = opened(draft, new)
        rows = [RowSet() for _ in new]
        for number, addresses in self._matching(tables) if tables else ():
            rows[number].add(addresses)
        check_writable(new, rows)
        made = map_commits(
            lambda part: without_rows(*part, text=self._text), zip(new, tables, rows, strict=True)
        )
        for member, version in zip(new, made, strict=True):
            self._made[member.state] = version
        for member, state in zip(members, states, strict=True):
            member.version = self._made[state][0]
        self.num_rows = sum(self._made[state][1] for state in states)

    def tidy(self, published: NamespaceManifest) -> None:
        """Do nothing: the change leaves nothing behind."""


def opened(draft: Draft, members: Sequence[DraftMember]) -> list[Table]:
    """Return the tables of members at their versions, with the columns of the namespace."""
    schema = draft.manifest.schema
    return map_reads(
        lambda member: in_columns_of(schema, member.open()),
        members,
        where=draft.root,
    )


def check_writable(members: Sequence[DraftMember], rows: Sequence[RowSet]) -> None:
    """Check before the first commit that all members with rows to change accept commits."""
    for member, of_member in zip(members, rows, strict=True):
        if len(of_member):
            member.check_writable()


def without_rows(member: DraftMember, table: Table, rows: RowSet, *, text: str) -> tuple[int, int]:
    """Return the version of a member without some rows, and the number of these rows."""
    if not len(rows):
        return member.version, 0
    with deletion(table, rows, predicate=text) as change:
        return member.commit(change.operation, change.rows), change.result
