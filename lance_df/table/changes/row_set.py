"""Sets of rows of one table version, by row address; used for rows to delete."""

from __future__ import annotations

import itertools
from array import array
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from pyroaring import BitMap

from lance_df.table.reading.row_ids import split_addresses

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy.typing as npt

    from lance_df.table.table import Table

    Addresses: TypeAlias = npt.NDArray[np.uint64]


class RowSet:
    """A compressed set of row addresses, one bitmap of offsets for each fragment."""

    def __init__(self) -> None:
        self._offsets: dict[int, BitMap] = {}

    @classmethod
    def of(cls, parts: Iterable[Addresses]) -> RowSet:
        """Return the set of all addresses in some arrays; this is fastest in table order."""
        rows = cls()
        for addresses in parts:
            rows.add(addresses)
        return rows

    @classmethod
    def all_of(cls, table: Table) -> RowSet:
        """Return all live rows of a table."""
        rows = cls()
        for fragment in table.fragments:
            live = BitMap(range(table.fragment_rows(fragment)))
            deleted = table.deletion_vector(fragment)
            rows._offsets[fragment.id] = live if deleted is None else live - deleted
        return rows

    def __len__(self) -> int:
        return sum(map(len, self._offsets.values()))

    def live_counts(self, table: Table) -> dict[int, int]:
        """Return the number of these rows that are live in a version, by fragment id."""
        counts = {}
        for fragment_id, offsets in self:
            deleted = table.deletion_vector(table.fragment(fragment_id))
            counts[fragment_id] = len(offsets if deleted is None else offsets - deleted)
        return counts

    def add(self, addresses: Addresses) -> None:
        """Add rows, in any order and with repetitions."""
        if not len(addresses):
            return
        first = int(addresses.min()) >> 32
        if first == int(addresses.max()) >> 32:
            self._add(first, bitmap_of(addresses))
            return
        fragment_ids, _ = split_addresses(addresses)
        order = np.argsort(fragment_ids, kind="stable")
        starts = np.flatnonzero(np.diff(fragment_ids[order], prepend=-1)).tolist()
        for start, stop in itertools.pairwise([*starts, len(order)]):
            part = order[start:stop]
            self._add(int(fragment_ids[part[0]]), bitmap_of(addresses[part]))

    def _add(self, fragment_id: int, offsets: BitMap) -> None:
        known = self._offsets.setdefault(fragment_id, offsets)
        if known is not offsets:
            known |= offsets

    def without(self, other: RowSet) -> RowSet:
        """Return the rows that are not in ``other``."""
        rest = RowSet()
        for fragment_id, offsets in self._offsets.items():
            rest._offsets[fragment_id] = offsets - other._offsets.get(fragment_id, BitMap())
        return rest

    def union(self, other: RowSet) -> RowSet:
        """Return the rows of either set."""
        both = RowSet()
        for fragment_id in self._offsets.keys() | other._offsets.keys():
            ours, theirs = self._offsets.get(fragment_id), other._offsets.get(fragment_id)
            both._offsets[fragment_id] = (ours or BitMap()) | (theirs or BitMap())
        return both

    def __iter__(self) -> Iterator[tuple[int, BitMap]]:
        """Yield ascending fragment ids, each with the non-empty set of its rows' offsets."""
        return ((each, offsets) for each, offsets in sorted(self._offsets.items()) if offsets)


def bitmap_of(addresses: Addresses) -> BitMap:
    """Return the offsets of row addresses of one fragment: their lower halves."""
    # pyroaring reads an `array.array` as a whole, but numpy arrays item by item
    return BitMap(array("I", addresses.astype(np.uint32).tobytes()))
