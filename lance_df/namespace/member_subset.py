"""A subset of the members of a namespace, scanned as one table."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from lance_df.namespace.published import members_at
from lance_df.namespace.snapshot import NamespaceSnapshot
from lance_df.table.metadata.row_counts import live_rows
from lance_df.table.parallel import map_reads

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from lance_df.namespace.pruning.selected_members import SelectedMembers
    from lance_df.scan.request import ScanRequest
    from lance_df.table.metadata.refs import ResolvedRef
    from lance_df.table.table import Table


class MemberSubset(NamespaceSnapshot):
    """A namespace of which only some members exist.

    Parameters
    ----------
    members
        For each row of ``manifest.members``, whether that member is in the subset.
    """

    def __init__(self, snapshot: NamespaceSnapshot, members: npt.NDArray[np.bool_]) -> None:
        super().__init__(
            snapshot.root,
            snapshot.manifest,
            snapshot.shared,
            snapshot._joined,
            snapshot.arrow_schema,
        )
        self._cache_part = snapshot._cache_part
        self._resolved = snapshot._resolved
        self._live_rows = snapshot._live_rows
        self.subset = members

    def selected_members(self, request: ScanRequest) -> SelectedMembers:
        """Return the members that may have matching rows, with their residual predicates."""
        selected = super().selected_members(request)
        exists = self.subset[selected.positions]
        return replace(selected, positions=selected.positions[exists], choices=selected.choices[exists])

    def member_rows(self) -> npt.NDArray[np.int64]:
        """Return the number of rows of each member, 0 for those outside the subset."""
        positions = np.flatnonzero(self.subset)
        rows = np.zeros(len(self.subset), np.int64)
        known = self._live_rows
        unknown = [position for position in positions.tolist() if position not in known]
        counts = map_reads(
            lambda table: int(live_rows(table, np.arange(len(table.fragments))).sum()),
            self.open_members(np.array(unknown, np.intp)),
            where=self.root,
        )
        known.update(zip(unknown, counts, strict=True))
        rows[positions] = [known[position] for position in positions.tolist()]
        return rows

    def release_pages(self) -> None:
        """Release the memory of the pages read from local files; see `mapped_pages`."""
        if not self.root.is_local:
            return
        for member in members_at(self.root, self.manifest, np.flatnonzero(self.subset)):
            table = self._members.find(self._key(member))
            if table is not None:
                table.release_pages(table.fragments)


class ChosenMembers(MemberSubset):
    """A namespace of which only the members at some positions exist.

    Parameters
    ----------
    refs
        What to open for members that are not pinned, by position, if the caller has resolved it already.
    """

    def __init__(
        self, snapshot: NamespaceSnapshot, positions: npt.NDArray[np.intp], refs: Mapping[int, ResolvedRef]
    ) -> None:
        exists = np.zeros(len(snapshot.manifest.members), np.bool_)
        exists[positions] = True
        super().__init__(snapshot, exists)
        self._live_rows = {}
        self._refs = refs

    def open_members(self, positions: npt.NDArray[np.intp]) -> list[Table]:
        """Return the tables of the members at some positions of ``manifest.members``."""
        members = members_at(self.root, self.manifest, positions)
        for number, position in enumerate(positions.tolist() if self._refs else ()):
            ref = self._refs.get(position)
            if ref is not None:
                members[number] = replace(members[number], version=ref.version, branch=ref.branch, tag=None)
        return map_reads(self._opened, members, where=self.root)
