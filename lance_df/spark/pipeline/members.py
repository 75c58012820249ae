"""Tables that tasks work on: one by its path, or members of a namespace."""

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
"""What is opened in a task: a member, or a table by its path."""


def member_refs(snapshot: NamespaceSnapshot, positions: npt.NDArray[np.intp]) -> list[MemberRef]:
    """Return members by their positions in ``manifest.members``; those read from branches are left out."""
    return refs_of_main(members_at(snapshot.root, snapshot.manifest, positions))


def pinned(snapshot: NamespaceSnapshot) -> NamespaceSnapshot:
    """Return a version of a namespace that names those of all members; one is published if need be.

    A change of a member of which the newest version is read would show at once, and undo what others have
    committed to it meanwhile.

    Raises
    ------
    RetryableConflictError
        Others were faster again and again.
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
            snapshot = snapshot.latest()
    return snapshot


def open_ref(ref: Ref) -> Table:
    """Open a table, wherever this is."""
    if isinstance(ref, MemberRef):
        return open_member(ref.folder, ref.version)
    return ref.open_table()
