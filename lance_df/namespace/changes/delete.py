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
    """The change that deletes the rows of members for which something is true.

    Parameters
    ----------
    candidates
        Members that may have such rows.
    matching
        Where such rows are: positions in a sequence of tables, and addresses there. May come in any order.
    text
        What the transactions of members say of it. Nothing is read from it.

    Attributes
    ----------
    states
        The folders and versions that were looked into when the change was made last.
    num_rows
        How many rows were deleted then.
    """

    def __init__(self, candidates: Candidates, matching: Matching, *, text: str) -> None:
        self._candidates = candidates
        self._matching = matching
        self._text = text
        self._made: dict[tuple[str, int], tuple[int, int]] = {}
        self.states: list[tuple[str, int]] = []
        self.num_rows = 0

    def apply(self, draft: Draft) -> None:
        """Make a version of each member without the rows; those that have none stay at theirs."""
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
        """Nothing is left behind."""


def opened(draft: Draft, members: Sequence[DraftMember]) -> list[Table]:
    """Return the tables of members at their versions, in the columns of the namespace."""
    schema = draft.manifest.schema
    return map_reads(
        lambda member: in_columns_of(schema, member.open()),
        members,
        where=draft.root,
    )


def check_writable(members: Sequence[DraftMember], rows: Sequence[RowSet]) -> None:
    """Check that members take commits, those of which rows are to be changed, before any commit is made."""
    for member, of_member in zip(members, rows, strict=True):
        if len(of_member):
            member.check_writable()


def without_rows(member: DraftMember, table: Table, rows: RowSet, *, text: str) -> tuple[int, int]:
    """Return the version of a member without some rows, and how many these were."""
    if not len(rows):
        return member.version, 0
    with deletion(table, rows, predicate=text) as change:
        return member.commit(change.operation, change.rows), change.result
