"""A namespace with changes that nobody sees yet: members at newer versions, and new members.

Changes are made one after the other, each on what those before it made. All show at once when the draft is
published, by one commit to ``__manifest``; one that is not published leaves versions that nobody reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.errors import CorruptDataError
from lance_df.expr.bounds import Match
from lance_df.namespace.partition_index import Member, PartitionIndex
from lance_df.namespace.pruning import judged_members
from lance_df.namespace.spec_members import spec_numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from lance_df.expr.nodes import Predicate
    from lance_df.namespace.manifest_table import NamespaceManifest
    from lance_df.namespace.partition_spec import PartitionSpec
    from lance_df.namespace.routing import WrittenPartition
    from lance_df.storage import Location


@dataclass(slots=True)
class DraftMember:
    """A member table in a draft.

    Attributes
    ----------
    version
        That has the changes so far; 0 for a table that is to be made.
    published
        The row of ``__manifest``; None for a new partition.
    """

    folder: Location
    version: int
    published: Member | None = None


class Draft:
    """Changes on top of one version of a namespace. Several threads may change different members at once."""

    def __init__(self, root: Location, manifest: NamespaceManifest) -> None:
        self.root = root
        self.manifest = manifest
        self._indexes: dict[int, PartitionIndex] = {}
        self._known: dict[str, DraftMember] = {}
        self._new: dict[int, dict[bytes, tuple[WrittenPartition, DraftMember]]] = {}

    def members_for(self, spec: PartitionSpec, partitions: Sequence[WrittenPartition]) -> list[DraftMember]:
        """Return the member of each partition of a spec version; new ones where there are none yet."""
        new = self._new.setdefault(spec.id, {})
        found = self._index(spec).find(partitions)
        return [
            new.setdefault(partition.key, (partition, DraftMember(partition.place.folder, 0)))[1]
            if member is None
            else self._member(member)
            for partition, member in zip(partitions, found, strict=True)
        ]

    def members_that_may_match(self, predicate: Predicate | None) -> list[DraftMember]:
        """Return the members that may have rows for which a predicate is true; None stands for all rows."""
        kept = np.ones(len(self.manifest.members), dtype=np.bool_)
        if predicate is not None:
            kept = judged_members(self.manifest, predicate) != Match.CANNOT
        return self.members_at(kept)

    def members_at(self, kept: npt.NDArray[np.bool_]) -> list[DraftMember]:
        """Return those of ``manifest.members`` that are marked, and all that are new in this draft."""
        new = [member for added in self._new.values() for _, member in added.values()]
        return [*self._published(kept), *new]

    def members_of_other_specs(self, spec: PartitionSpec) -> list[DraftMember]:
        """Return the members whose rows were partitioned by another spec version."""
        return self._published(spec_numbers(self.manifest) != spec.id)

    def publish(self) -> NamespaceManifest:
        """Make the changes visible in one commit; return the namespace as it is, if there are none.

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
            if member.published is not None and member.version != member.published.version
        }
        if not added and not moved:
            return self.manifest
        return self.manifest.changed(
            pa.concat_tables([self.manifest.table.arrow_schema.empty_table(), *added]), moved
        )

    def _index(self, spec: PartitionSpec) -> PartitionIndex:
        if spec.id not in self._indexes:
            self._indexes[spec.id] = PartitionIndex(self.root, self.manifest, spec)
        return self._indexes[spec.id]

    def _published(self, kept: np.ndarray) -> list[DraftMember]:
        rows = self.manifest.members.select(["object_id", "location", "read_version"]).filter(pa.array(kept))
        if pc.any(pc.or_(pc.is_null(rows["location"]), pc.is_null(rows["read_version"]))).as_py():
            raise CorruptDataError(f"{self.manifest.table.uri}: a table has no location or no version")
        return [
            self._member(Member(row["object_id"], self.root.child(row["location"]), row["read_version"]))
            for row in rows.to_pylist()
        ]

    def _member(self, member: Member) -> DraftMember:
        return self._known.setdefault(
            member.object_id, DraftMember(member.folder, member.version, published=member)
        )
