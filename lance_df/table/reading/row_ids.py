"""Convert row ids to row addresses, many at once.

A row address is ``(fragment id << 32) | offset``. Without stable row ids it is the row id. With them, each
fragment lists the ids of its rows, and only the copy of a row that is not deleted counts.
Spec: table format, row ids.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from lance_df.errors import CorruptDataError
from lance_df.records import dataclass
from lance_df.table.reading.deletions import deleted_offsets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyroaring import BitMap

    from lance_df.format.fragment_list import FragmentList
    from lance_df.format.fragments import Fragment
    from lance_df.format.row_ids import RunSequence

Ids = npt.NDArray[np.uint64]
Exists = npt.NDArray[np.bool_]

_OFFSET_BITS = np.uint64(32)
_OFFSET_MASK = np.uint64(0xFFFFFFFF)


def addresses_of(fragment_id: int, offsets: npt.NDArray[np.int64]) -> Ids:
    """Return the addresses of rows of one fragment."""
    return offsets.astype(np.uint64) | np.uint64(fragment_id << 32)


def split_addresses(addresses: Ids) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the fragment ids and the offsets of addresses."""
    return (
        (addresses >> _OFFSET_BITS).astype(np.int64),
        (addresses & _OFFSET_MASK).astype(np.int64),
    )


class RowIdIndex(Protocol):
    """Converts row ids to row addresses."""

    @property
    def num_bytes(self) -> int:
        """The memory that the index takes in addition to the table."""
        ...

    def lookup(self, row_ids: Ids) -> tuple[Ids, Exists]:
        """Return the address of each id, and whether the id belongs to a live row.

        The address of an id that is not found is 0.
        """
        ...


class AddressIndex:
    """The index of a table without stable row ids: an id is an address; its row may be gone.

    Parameters
    ----------
    fragments
        The fragments of the table version.
    num_rows, deleted
        Return the physical rows and the deletion vector of a fragment; called only for fragments that ids
        name.
    """

    def __init__(
        self,
        fragments: FragmentList,
        num_rows: Callable[[Fragment], int],
        deleted: Callable[[Fragment], BitMap | None],
    ) -> None:
        self._fragments = fragments
        self._num_rows = num_rows
        self._deleted = deleted

    num_bytes = 0

    def lookup(self, row_ids: Ids) -> tuple[Ids, Exists]:
        fragment_ids, offsets = split_addresses(row_ids)
        positions = self._fragments.positions(fragment_ids)
        exists = np.zeros(len(row_ids), dtype=np.bool_)
        order = np.argsort(positions, kind="stable")
        present, starts = np.unique(positions[order], return_index=True)
        stops = np.append(starts[1:], len(order))[: len(starts)]
        for position, start, stop in zip(present.tolist(), starts, stops, strict=True):
            if position >= 0:
                rows = order[start:stop]
                exists[rows] = self._live(self._fragments[position], offsets[rows])
        return np.where(exists, row_ids, np.uint64(0)), exists

    def _live(self, fragment: Fragment, offsets: npt.NDArray[np.int64]) -> Exists:
        live = offsets < self._num_rows(fragment)
        deleted = self._deleted(fragment)
        if deleted is not None and len(deleted):
            live &= ~np.isin(offsets, deleted_offsets(deleted))
        return live


@dataclass(frozen=True, slots=True)
class _LiveRuns:
    """Runs of live rows with consecutive ids and addresses."""

    ids: Ids
    addresses: Ids
    lengths: npt.NDArray[np.int64]


class StableIdIndex:
    """The index of a table with stable row ids: sorted runs of live rows, searched by bisection.

    Parameters
    ----------
    parts
        The id, the row ids and the deletion vector of each fragment.
    source
        The table, for messages.

    Raises
    ------
    CorruptDataError
        Two live rows have the same id.
    """

    def __init__(self, parts: Iterable[tuple[int, RunSequence, BitMap | None]], *, source: str) -> None:
        runs = [_live_runs(*part) for part in parts]
        none = np.empty(0, dtype=np.uint64)
        ids = np.concatenate([none, *(run.ids for run in runs)])
        order = np.argsort(ids, kind="stable")
        self._ids = ids[order]
        self._addresses = np.concatenate([none, *(run.addresses for run in runs)])[order]
        self._lengths = np.concatenate([np.empty(0, np.int64), *(run.lengths for run in runs)])[order]
        lasts = self._ids + (self._lengths - 1).astype(np.uint64)
        twice = np.flatnonzero(self._ids[1:] <= lasts[:-1])
        if len(twice):
            raise CorruptDataError(f"{source}: two rows have the row id {int(self._ids[twice[0] + 1])}")

    def __len__(self) -> int:
        return int(self._lengths.sum())

    @property
    def num_bytes(self) -> int:
        """The memory that the index takes."""
        return self._ids.nbytes + self._addresses.nbytes + self._lengths.nbytes

    def lookup(self, row_ids: Ids) -> tuple[Ids, Exists]:
        if not len(self._ids):
            return np.zeros(len(row_ids), np.uint64), np.zeros(len(row_ids), np.bool_)
        run = np.searchsorted(self._ids, row_ids, side="right") - 1
        before = run < 0
        run[before] = 0
        distance = row_ids - self._ids[run]
        exists = ~before & (distance < self._lengths[run].astype(np.uint64))
        return np.where(exists, self._addresses[run] + distance, np.uint64(0)), exists


def _live_runs(fragment_id: int, row_ids: RunSequence, deleted: BitMap | None) -> _LiveRuns:
    begins, ends, firsts = row_ids.begins, row_ids.ends, row_ids.firsts
    if deleted is not None and len(deleted):
        gone = deleted_offsets(deleted)
        # Split the runs at every deleted row; each part is then either deleted or live as a whole.
        cuts = np.unique(np.concatenate([begins, gone, gone + 1]))
        cuts = cuts[cuts < len(row_ids)]
        stops = np.append(cuts[1:], len(row_ids))[: len(cuts)]
        alive = ~np.isin(cuts, gone, assume_unique=True)
        cuts, stops = cuts[alive], stops[alive]
        run = np.searchsorted(ends, cuts, side="right")
        firsts = firsts[run] + (cuts - begins[run]).astype(np.uint64)
        begins, ends = cuts, stops
    return _LiveRuns(firsts, addresses_of(fragment_id, begins), ends - begins)
