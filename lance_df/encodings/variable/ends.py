"""Read end positions that also mark nulls, by which 2.0 stores the bounds of strings and lists.

::

    u64 end 0 | u64 end 1 | ...         of row i; the row starts where row i - 1 ends, row 0 at 0

An end that is at least the adjustment marks a null; the real end is the end minus the adjustment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from lance_df.encodings.plan import RowRange
from lance_df.encodings.rows import with_next
from lance_df.errors import CorruptDataError
from lance_df.records import dataclass

if TYPE_CHECKING:
    from lance_df.encodings.decoder import Decoder
    from lance_df.encodings.plan import IoPlan, RowPositions, Rows

    Unsigned: TypeAlias = npt.NDArray[np.unsignedinteger[Any]]


@dataclass(frozen=True, slots=True)
class Spans:
    """The starts and the ends of rows, and which rows are valid (None: all).

    ``bounds`` is set if each row starts where the previous one ends: the first start, then all ends.
    """

    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]
    valid: npt.NDArray[np.bool_] | None
    bounds: npt.NDArray[np.int64] | None = None

    def shifted(self, by: int) -> Spans:
        """Return the spans with ``by`` added to their positions."""
        if by == 0:
            return self
        if self.bounds is None:
            return Spans(self.starts + by, self.ends + by, self.valid)
        bounds = self.bounds + by
        return Spans(bounds[:-1], bounds[1:], self.valid, bounds)


@dataclass(frozen=True, slots=True)
class EndPositions:
    """Reads the spans of rows.

    Attributes
    ----------
    ends
        The decoder of the ends, as unsigned integers.
    adjustment
        The number added to the ends of null rows. If it is 0, every row is null, as other readers treat it.
    """

    ends: Decoder
    adjustment: int

    def read(self, rows: Rows, *, limit: int) -> IoPlan[Spans]:
        """Plan to read the spans of ``rows``, none of which may end after ``limit``."""
        if not len(rows):
            none = np.zeros(0, np.int64)
            return Spans(none, none, None, np.zeros(1, np.int64))
        stored = yield from self.ends.read(needed_ends(rows))
        return find_spans(stored.to_numpy(zero_copy_only=False), rows, Adjustment(self.adjustment), limit)


class Adjustment(NamedTuple):
    """The number added to the ends of nulls, and the base from which the resulting ends count."""

    added: int
    base: int = 0

    @property
    def lowest(self) -> int:
        """The lowest possible end of a null."""
        return max(self.added - self.base, 0)


def needed_ends(rows: Rows) -> Rows:
    """Return the values whose ends are needed for the bounds of ``rows`` (at least one)."""
    if isinstance(rows, RowRange):
        return RowRange(max(rows.start - 1, 0), rows.stop)
    return _with_previous(rows)


def _with_previous(rows: RowPositions) -> RowPositions:
    both = with_next(rows - 1)
    return both[both >= 0]


def find_spans(stored: Unsigned, rows: Rows, adjustment: Adjustment, limit: int) -> Spans:
    """Return the spans of rows.

    Parameters
    ----------
    stored
        The ends of the values that :func:`needed_ends` returned.
    rows
        The rows; row 0 starts at 0.

    Raises
    ------
    CorruptDataError
        Ends do not ascend, or one is beyond ``limit``.
    """
    ends, is_null = resolve_ends(stored, adjustment, limit)
    if isinstance(rows, RowRange):
        bounds = ends
        if rows.start == 0:
            bounds = np.empty(len(ends) + 1, np.int64)
            bounds[0] = 0
            bounds[1:] = ends
        else:
            is_null = None if is_null is None else is_null[1:]
        _check_ascending(bounds[:-1], bounds[1:])
        return Spans(bounds[:-1], bounds[1:], _valid(is_null), bounds)
    index = np.searchsorted(_with_previous(rows), rows)
    row_ends = ends[index]
    starts = np.where(rows == 0, 0, ends[np.maximum(index - 1, 0)])
    _check_ascending(starts, row_ends)
    _check_ascending(row_ends[:-1], starts[1:])
    return Spans(starts, row_ends, _valid(None if is_null is None else is_null[index]))


def resolve_ends(
    raw: Unsigned, adjustment: Adjustment, limit: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_] | None]:
    """Subtract the adjustment; return the ends, all at most ``limit``, and which of them are null."""
    largest = int(raw.max())
    is_null = None
    if largest >= adjustment.lowest:
        if adjustment.added == 0:
            return np.zeros(len(raw), np.int64), np.ones(len(raw), np.bool_)
        is_null = raw >= raw.dtype.type(adjustment.lowest)
        raw = np.where(is_null, raw - raw.dtype.type(adjustment.added), raw)
        largest = int(raw.max())
    if largest > limit:
        raise CorruptDataError(
            f"the end of a value is out of range: found {largest}, expected at most {limit}"
        )
    return raw.astype(np.int64, copy=False) if raw.dtype.itemsize < 8 else raw.view(np.int64), is_null


def _valid(is_null: npt.NDArray[np.bool_] | None) -> npt.NDArray[np.bool_] | None:
    return ~is_null if is_null is not None and is_null.any() else None


def _check_ascending(low: npt.NDArray[np.int64], high: npt.NDArray[np.int64]) -> None:
    if (low > high).any():
        row = int((low > high).argmax())
        raise CorruptDataError(f"a value ends at {high[row]}, before its start at {low[row]}")
