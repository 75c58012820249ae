"""End positions with nulls folded in: how 2.0 stores the bounds of strings and of lists.

::

    u64 end 0 | u64 end 1 | ...         of row i; the row starts where row i - 1 ends, row 0 at 0

An end of at least the adjustment marks a null; the real end is less by the adjustment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from lance_df.encodings.plan import RowRange
from lance_df.encodings.rows import with_next
from lance_df.errors import CorruptDataError
from lance_df.records import dataclass

if TYPE_CHECKING:
    import pyarrow as pa

    from lance_df.encodings.decoder import Decoder
    from lance_df.encodings.plan import IoPlan, RowPositions, Rows


@dataclass(frozen=True, slots=True)
class Spans:
    """Where rows start and end, and which are valid (None: all).

    ``bounds`` is set when each row starts where the one before ends: the first start, then all ends.
    """

    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]
    valid: npt.NDArray[np.bool_] | None
    bounds: npt.NDArray[np.int64] | None = None

    def shifted(self, by: int) -> Spans:
        """Return the spans counted from ``by`` before."""
        if by == 0:
            return self
        if self.bounds is None:
            return Spans(self.starts + by, self.ends + by, self.valid)
        bounds = self.bounds + by
        return Spans(bounds[:-1], bounds[1:], self.valid, bounds)


@dataclass(frozen=True, slots=True)
class EndPositions:
    """Reads spans.

    Attributes
    ----------
    ends
        Decodes unsigned integers.
    adjustment
        Added to the ends of null rows. With 0 every row is null, which is how other readers take it.
    """

    ends: Decoder
    adjustment: int

    def read(self, rows: Rows, *, limit: int) -> IoPlan[Spans]:
        """Plan to read the spans of ``rows``, none of which may end after ``limit``."""
        if not len(rows):
            none = np.zeros(0, np.int64)
            return Spans(none, none, None, np.zeros(1, np.int64))
        if isinstance(rows, RowRange):
            return (yield from self._read_range(rows, limit))
        return (yield from self._read_positions(rows, limit))

    def _read_range(self, rows: RowRange, limit: int) -> IoPlan[Spans]:
        first = max(rows.start - 1, 0)
        stored = yield from self.ends.read(RowRange(first, rows.stop))
        ends, is_null = self._resolve(stored, limit)
        if rows.start == 0:
            bounds = np.empty(len(ends) + 1, np.int64)
            bounds[0] = 0
            bounds[1:] = ends
        else:
            bounds = ends
            is_null = None if is_null is None else is_null[1:]
        _check_ascending(bounds[:-1], bounds[1:])
        return Spans(bounds[:-1], bounds[1:], _valid(is_null), bounds)

    def _read_positions(self, rows: RowPositions, limit: int) -> IoPlan[Spans]:
        wanted = with_next(rows - 1)
        wanted = wanted[wanted >= 0]
        stored = yield from self.ends.read(wanted)
        ends, is_null = self._resolve(stored, limit)
        index = np.searchsorted(wanted, rows)
        row_ends = ends[index]
        starts = np.where(rows == 0, 0, ends[np.maximum(index - 1, 0)])
        _check_ascending(starts, row_ends)
        _check_ascending(row_ends[:-1], starts[1:])
        return Spans(starts, row_ends, _valid(None if is_null is None else is_null[index]))

    def _resolve(
        self, stored: pa.Array, limit: int
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_] | None]:
        """Take the adjustment off. Returns the ends, all of them at most ``limit``, and what is null."""
        raw = stored.to_numpy(zero_copy_only=False)
        largest = int(raw.max())
        is_null = None
        if largest >= self.adjustment:
            if self.adjustment == 0:
                return np.zeros(len(raw), np.int64), np.ones(len(raw), np.bool_)
            adjustment = raw.dtype.type(self.adjustment)
            is_null = raw >= adjustment
            raw = np.where(is_null, raw - adjustment, raw)
            largest = int(raw.max())
        if largest > limit:
            raise CorruptDataError(f"a value ends at {largest}, there are {limit} bytes or items")
        return raw.astype(np.int64, copy=False) if raw.dtype.itemsize < 8 else raw.view(np.int64), is_null


def _valid(is_null: npt.NDArray[np.bool_] | None) -> npt.NDArray[np.bool_] | None:
    return ~is_null if is_null is not None and is_null.any() else None


def _check_ascending(low: npt.NDArray[np.int64], high: npt.NDArray[np.int64]) -> None:
    if (low > high).any():
        row = int((low > high).argmax())
        raise CorruptDataError(f"a value ends at {high[row]}, before its start at {low[row]}")
