"""Compact the member tables of a namespace, and publish all of them in one commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from lance_df.interrupts import workers
from lance_df.namespace.member import MEMBER_COMMIT, check_columns, commits_to_member
from lance_df.table.maintenance.compaction import commit_rewrites, rewrite, with_extended_indices
from lance_df.table.maintenance.compaction_options import compaction_options
from lance_df.table.maintenance.compaction_plan import plan_compaction
from lance_df.table.writing.uncommitted import uncommitted_files

if TYPE_CHECKING:
    from lance_df.format.operations import RewriteGroup
    from lance_df.namespace.changes.draft import Draft, DraftMember
    from lance_df.namespace.manifest_table import NamespaceManifest
    from lance_df.namespace.spec.namespace_schema import NamespaceSchema
    from lance_df.storage import Location
    from lance_df.table.table import Table

# Each compaction needs the memory of a scan, and already uses several cores.
_MEMBERS_AT_ONCE: Final = 4


class MembersCompacted:
    """The change that compacts members, except those that need no compaction or are read from branches.

    Parameters
    ----------
    options
        The options of `CompactionOptions` by name; None means the configuration of the member.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = options
        self._made: dict[tuple[str, int], tuple[int, list[RewriteGroup]]] = {}
        self._states: list[tuple[str, int]] = []

    @property
    def groups(self) -> list[RewriteGroup]:
        """The groups of fragments that the last attempt rewrote."""
        return [group for state in self._states for group in self._made[state][1]]

    def apply(self, draft: Draft) -> None:
        """Commit a compacted version of each member that needs compaction."""
        members = [member for member in draft.members_that_may_match(None) if member.branch is None]
        self._states = [member.state for member in members]
        with workers(_MEMBERS_AT_ONCE) as pool:
            list(pool.map(lambda member: self._compact(member, draft.manifest.schema), members))
        for member, state in zip(members, self._states, strict=True):
            member.version = self._made[state][0]

    def tidy(self, published: NamespaceManifest) -> None:
        """Do nothing: the change leaves nothing behind."""

    def _compact(self, member: DraftMember, schema: NamespaceSchema) -> None:
        state = member.state
        if state not in self._made:
            table = member.open()
            # columns that the table has but the namespace does not know would be lost
            check_columns(schema, table)
            options = compaction_options(table, self._options)
            with uncommitted_files() as files:
                groups = [rewrite(table, ids, options, files) for ids in plan_compaction(table, options)]
                self._made[state] = committed_rewrites(table.location, table.version, groups), groups


def committed_rewrites(folder: Location, version: int, groups: Sequence[RewriteGroup]) -> int:
    """Commit the rewritten fragments whose sources are unchanged, and return the new version.

    Parameters
    ----------
    folder, version
        The folder and version of a member. Groups may have been read from an older version.
    """

    def commit(base: Table) -> Table:
        present = {fragment.id: fragment for fragment in base.fragments}
        valid = [group for group in groups if all(present.get(old.id) == old for old in group.old_fragments)]
        if not valid:
            return base
        compacted = commit_rewrites(base, valid, commit_options=MEMBER_COMMIT)
        return with_extended_indices(base, compacted, valid, commit_options=MEMBER_COMMIT)

    return commits_to_member(folder, version, commit) if groups else version
