"""The tables that tasks work on: a table by its path, or members of a namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from lance_df.errors import RetryableConflictError
from lance_df.namespace.changes.advanced import MemberRef, refs_of_main
from lance_df.namespace.changes.pins import with_pins
from lance_df.namespace.member import open_member
from lance_df.namespace.published import members_at
from lance_df.spark.opened import SourceRef
from lance_df.table.table import Table

if TYPE_CHECKING:
    import numpy.typing as npt

    from lance_df.namespace.snapshot import NamespaceSnapshot

_ATTEMPTS: Final = 20

Ref: TypeAlias = MemberRef | SourceRef
"""A reference that a task opens: to a member, or to a table by its path."""


def member_refs(snapshot: NamespaceSnapshot, positions: npt.NDArray[np.intp]) -> list[MemberRef]:
    """Return the members at positions in ``manifest.members``, without members that read a branch."""
    return refs_of_main(members_at(snapshot.root, snapshot.manifest, positions))


def pinned(snapshot: NamespaceSnapshot) -> NamespaceSnapshot:
    """Return a version of a namespace that names a version of each member, publishing one if necessary.

    If readers read the newest version of a member, a change of it is visible at once, and would undo what
    others have committed to it meanwhile.

    Raises
    ------
    RetryableConflictError
        Every attempt conflicted with another commit.
    """
    for attempt in range(_ATTEMPTS):
        positions = np.arange(len(snapshot.manifest.members))
        members = members_at(snapshot.root, snapshot.manifest, positions)
        loose = [member for member in members if member.follows_newest]
        if not loose:
            break
        try:
            snapshot = snapshot.of(with_pins(snapshot.root, snapshot.manifest, loose))
        except RetryableConflictError:
            if attempt == _ATTEMPTS - 1:
                raise
            snapshot = snapshot.latest_for_change()
    return snapshot


def open_ref(ref: Ref) -> Table:
    """Open the table of a reference in this process."""
    if isinstance(ref, MemberRef):
        return open_member(ref.folder, ref.version)
    return ref.open_table()
