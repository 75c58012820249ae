"""Sets of rows as sorted disjoint ranges, which indices and statistics pass to the scan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
import numpy.typing as npt

from lance_df.encodings.plan import RowRange

if TYPE_CHECKING:
    from lance_df.encodings.plan import Rows

_EMPTY = np.empty((0, 2), dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class RowRanges:
    """A set of row numbers.

    Attributes
    ----------
    bounds
        Shape (n, 2), int64, read-only: half-open ranges, ascending, not empty, neither touching nor
        overlapping.
    """

    bounds: npt.NDArray[np.int64]

    @classmethod
    def none(cls) -> Self:
        """Return the empty set."""
        return cls(_EMPTY)

    @classmethod
    def all(cls, num_rows: int) -> Self:
        """Return rows 0 to ``num_rows`` (exclusive)."""
        return cls.from_ranges([0], [num_rows])

    @classmethod
    def from_positions(cls, positions: npt.ArrayLike) -> Self:
        """Return the set of single rows, given in any order and with repetitions."""
        rows = np.asarray(positions, dtype=np.int64)
        if rows.size > 1 and not (rows[1:] > rows[:-1]).all():
            rows = np.unique(rows)
        if rows.size == 0:
            return cls.none()
        breaks = np.flatnonzero(np.diff(rows) != 1)
        first = np.concatenate([[0], breaks + 1])
        last = np.concatenate([breaks, [rows.size - 1]])
        return cls._sealed(np.column_stack([rows[first], rows[last] + 1]))

    @classmethod
    def from_ranges(cls, starts: npt.ArrayLike, stops: npt.ArrayLike) -> Self:
        """Return the union of half-open ranges, which may be empty, overlap and be in any order."""
        low, high = np.asarray(starts, dtype=np.int64), np.asarray(stops, dtype=np.int64)
        overlaps = high > low
        low, high = low[overlaps], high[overlaps]
        if low.size == 0:
            return cls.none()
        order = np.argsort(low, kind="stable")
        low, reach = low[order], np.maximum.accumulate(high[order])
        first = np.concatenate([[True], low[1:] > reach[:-1]])
        last = np.concatenate([first[1:], [True]])
        return cls._sealed(np.column_stack([low[first], reach[last]]))

    @classmethod
    def _sealed(cls, bounds: npt.NDArray[np.int64]) -> Self:
        bounds.flags.writeable = False
        return cls(bounds)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RowRanges) and np.array_equal(self.bounds, other.bounds)

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        """Return the number of ranges, not of rows."""
        return len(self.bounds)

    @property
    def num_rows(self) -> int:
        """The number of rows in the set."""
        return int((self.bounds[:, 1] - self.bounds[:, 0]).sum())

    def union(self, other: RowRanges) -> RowRanges:
        """Return the rows in either set."""
        both = np.concatenate([self.bounds, other.bounds])
        return RowRanges.from_ranges(both[:, 0], both[:, 1])

    def intersect(self, other: RowRanges) -> RowRanges:
        """Return the rows in both sets."""
        ours, theirs = self.bounds, other.bounds
        first = np.searchsorted(theirs[:, 1], ours[:, 0], side="right")
        last = np.searchsorted(theirs[:, 0], ours[:, 1], side="left")
        counts = np.maximum(last - first, 0)
        # one pair for each overlap: each of our ranges with the run of their ranges that overlap it
        mine = np.repeat(np.arange(len(ours)), counts)
        begin = np.repeat(np.cumsum(counts) - counts, counts)
        yours = np.arange(mine.size) - begin + np.repeat(first, counts)
        low = np.maximum(ours[mine, 0], theirs[yours, 0])
        high = np.minimum(ours[mine, 1], theirs[yours, 1])
        return RowRanges._sealed(np.column_stack([low, high]))

    def invert(self, num_rows: int) -> RowRanges:
        """Return the rows of 0 to ``num_rows`` (exclusive) that are not in the set."""
        clipped = self.clip(0, num_rows).bounds
        starts = np.concatenate([[0], clipped[:, 1]])
        stops = np.concatenate([clipped[:, 0], [num_rows]])
        return RowRanges.from_ranges(starts, stops)

    def clip(self, start: int, stop: int) -> RowRanges:
        """Return the rows of the set from ``start`` to ``stop`` (exclusive), with unchanged numbers."""
        low = self.bounds[:, 1].searchsorted(start, side="right")
        high = self.bounds[:, 0].searchsorted(stop, side="left")
        if high <= low or stop <= start:
            return RowRanges.none()
        clipped = self.bounds[low:high].copy()
        clipped[0, 0] = max(clipped[0, 0], start)
        clipped[-1, 1] = min(clipped[-1, 1], stop)
        return RowRanges._sealed(clipped)

    def shift(self, offset: int) -> RowRanges:
        """Return the set with ``offset`` added to every row number."""
        return RowRanges._sealed(self.bounds + offset)

    def rows(self) -> Rows:
        """Return the single rows in ascending order, as a range if they leave no gaps."""
        if len(self.bounds) == 1:
            start, stop = self.bounds[0].tolist()
            return RowRange(start, stop)
        return self.positions()

    def positions(self) -> npt.NDArray[np.int64]:
        """Return the single rows in ascending order."""
        lengths = self.bounds[:, 1] - self.bounds[:, 0]
        ends = np.cumsum(lengths)
        return np.arange(int(lengths.sum()), dtype=np.int64) + np.repeat(
            self.bounds[:, 0] - (ends - lengths), lengths
        )
