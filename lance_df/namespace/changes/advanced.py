"""Publish the new versions that other processes committed to members, all in one commit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_df.namespace.changes.publish import map_commits
from lance_df.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from lance_df.namespace.changes.draft import Draft, DraftMember
    from lance_df.namespace.manifest_table import NamespaceManifest
    from lance_df.namespace.published import Member
    from lance_df.storage import Location


@dataclass(frozen=True, slots=True)
class MemberRef:
    """A version of a member table that any process can open; ``name`` is the object id."""

    name: str
    folder: Location
    version: int

    @property
    def uri(self) -> str:
        """The URI of the table's folder."""
        return self.folder.uri


def refs_of_main(members: Iterable[Member]) -> list[MemberRef]:
    """Return the versions of main that members are read at, without members that are read from branches."""
    versions = ((member, member.version_of_main()) for member in members)
    return [
        MemberRef(member.object_id, member.folder, version)
        for member, version in versions
        if version is not None
    ]


class MembersAdvanced:
    """The change that publishes versions of members that other processes committed.

    Parameters
    ----------
    made
        For each object id, the published version that was changed and the version that has the change.
    again
        Called if another version was published meanwhile. Makes the change on that version, and returns the
        version that has it, or the same version if there is nothing left to change.
    """

    def __init__(
        self, made: Mapping[str, tuple[int, int]], again: Callable[[MemberRef], int] | None = None
    ) -> None:
        self._made = {(name, before): after for name, (before, after) in made.items()}
        self._names = frozenset(made)
        self._again = again

    def apply(self, draft: Draft) -> None:
        """Set members to the versions that have the change; removed members stay removed."""
        map_commits(self._advance, draft.members_called(self._names))

    def tidy(self, published: NamespaceManifest) -> None:
        """Do nothing: the change leaves nothing behind."""

    def _advance(self, member: DraftMember) -> None:
        if member.published is None or member.branch is not None:
            return  # the committed versions are not on the branch
        state = member.published.object_id, member.version
        if state not in self._made:
            ref = MemberRef(state[0], member.folder, member.version)
            self._made[state] = member.version if self._again is None else self._again(ref)
        member.version = self._made[state]
