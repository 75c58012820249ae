"""Members that other processes have changed, each in a version of its own: all of them shown at once."""

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
    """A version of the table of a partition, wherever it is opened; ``name`` is its object id."""

    name: str
    folder: Location
    version: int

    @property
    def uri(self) -> str:
        """Of its folder."""
        return self.folder.uri


def refs_of_main(members: Iterable[Member]) -> list[MemberRef]:
    """Return the versions of main that members are read at; those read from branches are left out."""
    versions = ((member, member.version_of_main()) for member in members)
    return [
        MemberRef(member.object_id, member.folder, version)
        for member, version in versions
        if version is not None
    ]


class MembersAdvanced:
    """The change that shows versions of members that others have made.

    Parameters
    ----------
    made
        For each member by object id the published version that was changed, and the version that has the
        change.
    again
        Makes the change on another version, where somebody has published one meanwhile, and returns the
        version that has it; the same one if there is nothing to change any more.
    """

    def __init__(
        self, made: Mapping[str, tuple[int, int]], again: Callable[[MemberRef], int] | None = None
    ) -> None:
        self._made = {(name, before): after for name, (before, after) in made.items()}
        self._names = frozenset(made)
        self._again = again

    def apply(self, draft: Draft) -> None:
        """Let members be at the versions that have the change; those that are gone stay gone."""
        map_commits(self._advance, draft.members_called(self._names))

    def tidy(self, published: NamespaceManifest) -> None:
        """Nothing is left behind."""

    def _advance(self, member: DraftMember) -> None:
        if member.published is None or member.branch is not None:
            return  # a branch has not the versions that were made
        state = member.published.object_id, member.version
        if state not in self._made:
            ref = MemberRef(state[0], member.folder, member.version)
            self._made[state] = member.version if self._again is None else self._again(ref)
        member.version = self._made[state]
