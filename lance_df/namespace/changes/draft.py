"""A namespace with unpublished changes: members at newer versions, and new members.

Changes are applied one after another, each on top of those before it. Publishing the draft makes all of them
visible with one commit to ``__manifest``. A draft that is not published leaves versions that nobody reads.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.errors import UnsupportedFeatureError
from lance_df.expr.bounds import Match
from lance_df.namespace.changes.partition_index import PartitionIndex
from lance_df.namespace.changes.pins import NeedsPinsError
from lance_df.namespace.distinct_members import check_distinct
from lance_df.namespace.manifest_table import READ_FIELDS, STRICT
from lance_df.namespace.member import commit_to_member, commits_to_member, open_member
from lance_df.namespace.pruning.selected_members import judged_members
from lance_df.namespace.pruning.spec_members import spec_numbers
from lance_df.namespace.published import Member, members_at
from lance_df.table.commit.marks import check_marks, with_marks
from lance_df.table.metadata.manifest_io import identity
from lance_df.table.metadata.refs import branch_location

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    import numpy.typing as npt

    from lance_df.expr.nodes import Predicate
    from lance_df.format.operations import Operation
    from lance_df.namespace.changes.partition_files import WrittenPartition
    from lance_df.namespace.manifest_table import NamespaceManifest
    from lance_df.namespace.spec.partition_spec import PartitionSpec
    from lance_df.storage import Location
    from lance_df.table.commit.marks import Mark
    from lance_df.table.commit.options import CommitOptions
    from lance_df.table.commit.row_account import RowChange
    from lance_df.table.table import Table


@dataclass(slots=True)
class DraftMember:
    """A member table in a draft.

    Attributes
    ----------
    version
        The version that has the changes so far; 0 for a table that does not exist yet.
    turn
        The turn whose changes create the member.
    published
        The row of ``__manifest``; None for a new partition.
    base
        The published version.
    branch
        The branch that is read, if any. The draft can read it but not commit to it.
    """

    folder: Location
    version: int
    turn: int = 0
    published: Member | None = None
    base: int = 0
    branch: str | None = None

    @property
    def state(self) -> tuple[str, int]:
        """The folder of the branch, and the version there; members with the same state have the same rows."""
        return branch_location(self.folder, self.branch).path, self.version

    def open(self) -> Table:
        """Open the table at the member's version.

        Raises
        ------
        NotFoundError
            There is no such table, or no such version.
        """
        return open_member(self.folder, self.version, self.branch)

    def commit(self, operation: Operation, rows: RowChange) -> int:
        """Commit an operation that was computed from the member's version, and return the new version.

        Parameters
        ----------
        rows
            How many rows the operation adds and deletes, counted where they were selected.

        Raises
        ------
        UnsupportedFeatureError
            The member is read from a branch.
        RetryableConflictError
            Other writers were faster again and again.
        """
        self.check_writable()
        return commit_to_member(self.folder, self.version, operation, rows)

    def make_commits(self, commit: Callable[[Table], Table]) -> int:
        """Make commits on top of the member's version; see `lance_df.namespace.member.commits_to_member`."""
        self.check_writable()
        return commits_to_member(self.folder, self.version, commit)

    def check_writable(self) -> None:
        """Raise `UnsupportedFeatureError` if the member is read from a branch."""
        if self.branch is not None and self.published is not None:
            raise UnsupportedFeatureError(
                f"{self.folder.uri}: {self.published.object_id} is read from branch {self.branch!r}, and "
                "writing to branches of a namespace is not supported"
            )


class NeedsSeparateDraftError(Exception):
    """Changes refer to a partition that another transaction in the same draft creates."""


class Draft:
    """Changes on top of one version of a namespace. Several threads may change different members at once.

    Several transactions may share a draft, each in its own turn. Methods that return members raise
    `NeedsPinsError` if a member is read at its newest version; see `lance_df.namespace.changes.pins`.
    """

    def __init__(self, root: Location, manifest: NamespaceManifest) -> None:
        self.root = root
        self.manifest = manifest
        self._indexes: dict[int, PartitionIndex] = {}
        self._known: dict[str, DraftMember] = {}
        self._new: dict[int, dict[bytes, tuple[WrittenPartition, DraftMember]]] = {}
        self._turn = 0
        self._versions: dict[str, int] = {}
        self._marks: dict[int, list[Mark]] = {}
        self._followed: set[tuple[object, ...]] = set()

    def check_follows(self, read: NamespaceManifest) -> None:
        """Check that changes of a version can be applied here; see `NamespaceManifest.check_follows`.

        This takes one request for each version that was read, not for each transaction.
        """
        known = identity(read.table.manifest_file)
        if known not in self._followed:
            self.manifest.check_follows(read)
            self._followed.add(known)

    def begin_turn(self) -> None:
        """Begin the turn of the next transaction."""
        self._turn += 1
        self._versions = {name: member.version for name, member in self._known.items()}

    def undo_turn(self) -> None:
        """Undo all changes since the turn began."""
        for name, member in self._known.items():
            member.version = self._versions.get(name, member.base)
        self._marks.pop(self._turn, None)
        for spec_id, new in self._new.items():
            self._new[spec_id] = {key: each for key, each in new.items() if each[1].turn != self._turn}

    def mark(self, mark: Mark) -> None:
        """Store a mark of the changes in the version that publishes them.

        Raises
        ------
        AlreadyCommittedError
            Changes with this mark were published before.
        """
        known = [each for marks in self._marks.values() for each in marks]
        check_marks([mark], with_marks(known, self.manifest.table.manifest.config))
        self._marks.setdefault(self._turn, []).append(mark)

    def members_for(self, spec: PartitionSpec, partitions: Sequence[WrittenPartition]) -> list[DraftMember]:
        """Return the member of each partition of a spec version, or a new one if it does not exist."""
        new = self._new.setdefault(spec.id, {})
        drafted: list[DraftMember] = []
        members = self._index(spec).find(partitions)
        self._check_pinned([member for member in members if member is not None])
        for partition, member in zip(partitions, members, strict=True):
            if member is not None:
                drafted.append(self._member(member))
                continue
            fresh = DraftMember(partition.location.folder, 0, self._turn)
            drafted.append(self._staged(new.setdefault(partition.key, (partition, fresh))[1]))
        return drafted

    def members_that_may_match(self, predicate: Predicate | None) -> list[DraftMember]:
        """Return the members that may have rows that satisfy a predicate; None selects all members."""
        selected = np.ones(len(self.manifest.members), dtype=np.bool_)
        if predicate is not None:
            selected = judged_members(self.manifest, predicate) != Match.CANNOT
        return self.members_at(selected)

    def members_at(self, selected: npt.NDArray[np.bool_]) -> list[DraftMember]:
        """Return the selected rows of ``manifest.members`` as members, and all new members of this draft."""
        new = [self._staged(member) for added in self._new.values() for _, member in added.values()]
        return [*self._published(selected), *new]

    def members_called(self, names: Collection[str]) -> list[DraftMember]:
        """Return the published members with these object ids."""
        ids = self.manifest.members["object_id"]
        return self._published(pc.is_in(ids, pa.array(sorted(names), pa.string())).to_numpy())

    def members_of_other_specs(self, spec: PartitionSpec) -> list[DraftMember]:
        """Return the members whose rows were partitioned by another spec version."""
        return self._published(spec_numbers(self.manifest) != spec.id)

    def publish(self, *, options: CommitOptions = STRICT) -> NamespaceManifest:
        """Publish the changes in one commit; return the same namespace if there are no changes.

        Raises
        ------
        RetryableConflictError
            Another version was published meanwhile.
        CommitStateUnknownError
            It is not known whether the changes were published.
        """
        added = [
            self._indexes[spec_id].rows_of(
                [(partition, member.version) for partition, member in new.values()]
            )
            for spec_id, new in self._new.items()
            if new
        ]
        moved = {
            member.published.object_id: member.version
            for member in self._known.values()
            if member.published is not None and member.version != member.base
        }
        marks = tuple(each for marks in self._marks.values() for each in marks)
        if not added and not moved and not marks:
            return self.manifest
        return self.manifest.changed(
            pa.concat_tables([self.manifest.table.arrow_schema.empty_table(), *added]),
            moved,
            options=replace(options, marks=marks),
        )

    def _index(self, spec: PartitionSpec) -> PartitionIndex:
        if spec.id not in self._indexes:
            self._indexes[spec.id] = PartitionIndex(self.root, self.manifest, spec)
        return self._indexes[spec.id]

    def _published(self, selected: npt.NDArray[np.bool_]) -> list[DraftMember]:
        positions = np.flatnonzero(selected)
        check_distinct(self.manifest, positions)
        members = members_at(self.root, self.manifest, positions)
        self._check_pinned(members)
        return [self._member(member) for member in members]

    def _check_pinned(self, members: Sequence[Member]) -> None:
        loose = [member for member in members if member.follows_newest]
        names = self.manifest.table.schema.names
        if loose or any(field.name not in names for field in READ_FIELDS):
            raise NeedsPinsError(loose)

    def _member(self, member: Member) -> DraftMember:
        known = self._known.get(member.object_id)
        if known is None:
            ref = member.resolve()
            version = member.open().version if ref.version is None else ref.version
            known = DraftMember(member.folder, version, published=member, base=version, branch=ref.branch)
            self._known[member.object_id] = known
        return known

    def _staged(self, member: DraftMember) -> DraftMember:
        """Return a new member, if this turn creates it.

        Raises
        ------
        NeedsSeparateDraftError
            Another turn creates it.
        """
        if member.turn != self._turn:
            raise NeedsSeparateDraftError
        return member
