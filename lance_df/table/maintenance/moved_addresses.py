"""Map the addresses of rows in rewritten fragments to their new addresses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from pyroaring import BitMap

from lance_df.records import dataclass
from lance_df.table.reading.deletions import deleted_offsets
from lance_df.table.reading.row_ids import split_addresses

if TYPE_CHECKING:
    import numpy.typing as npt

    from lance_df.format.operations import RewriteGroup
    from lance_df.table.table import Table


class MovedAddresses:
    """Converts addresses of live rows in the old fragments of a compaction to those in the new ones.

    Parameters
    ----------
    table
        The version that has the old fragments.
    groups
        The rewritten groups, each with its live rows in sequence; new fragments have their final ids.
    """

    def __init__(self, table: Table, groups: Sequence[RewriteGroup]) -> None:
        self._moves: dict[int, _Move] = {}
        for group in groups:
            new_ids = np.array([fragment.id for fragment in group.new_fragments], np.int64)
            rows = np.array([fragment.physical_rows for fragment in group.new_fragments], np.int64)
            stops, first = np.cumsum(rows), 0
            for fragment in group.old_fragments:
                deleted = deleted_offsets(table.deletion_vector(fragment))
                num_rows = table.fragment_rows(fragment)
                self._moves[fragment.id] = _Move(first, num_rows, deleted, new_ids, stops)
                first += num_rows - len(deleted)

    @property
    def old_fragments(self) -> BitMap:
        """The fragments whose rows moved."""
        return BitMap(self._moves)

    def lookup(
        self, addresses: npt.NDArray[np.uint64]
    ) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.bool_]]:
        """Return the new address of each row, and whether it is a live row of an old fragment."""
        fragment_ids, offsets = split_addresses(addresses)
        moved = np.zeros(len(addresses), np.uint64)
        exists = np.zeros(len(addresses), np.bool_)
        order = np.argsort(fragment_ids, kind="stable")
        ids, starts = np.unique(fragment_ids[order], return_index=True)
        for fragment_id, positions in zip(ids.tolist(), np.split(order, starts[1:]), strict=True):
            if (move := self._moves.get(fragment_id)) is not None:
                moved[positions], exists[positions] = move.lookup(offsets[positions])
        return moved, exists


@dataclass(frozen=True, slots=True)
class _Move:
    """The move of the rows of one old fragment.

    Attributes
    ----------
    first
        The position of its first live row among those of its group.
    new_ids, stops
        The new fragments of the group, and the end position of the rows of each.
    """

    first: int
    num_rows: int
    deleted: npt.NDArray[np.int64]
    new_ids: npt.NDArray[np.int64]
    stops: npt.NDArray[np.int64]

    def lookup(self, offsets: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.bool_]]:
        ranks = np.searchsorted(self.deleted, offsets)
        exists = offsets < self.num_rows
        if len(self.deleted):
            exists &= self.deleted[np.minimum(ranks, len(self.deleted) - 1)] != offsets
        rows = self.first + offsets[exists] - ranks[exists]
        fragment = np.searchsorted(self.stops, rows, side="right")
        starts = np.append(0, self.stops[:-1])
        moved = np.zeros(len(offsets), np.uint64)
        moved[exists] = (self.new_ids[fragment] << 32 | rows - starts[fragment]).astype(np.uint64)
        return moved, exists
