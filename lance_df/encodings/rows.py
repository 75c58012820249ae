"""Arithmetic on row selections: shift them, multiply them, split them at page boundaries."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from lance_df.encodings.plan import RowRange
from lance_df.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lance_df.encodings.plan import RowPositions, Rows


def shift_rows(rows: Rows, by: int) -> Rows:
    """Return every row number plus ``by``."""
    if isinstance(rows, RowRange):
        return RowRange(rows.start + by, rows.stop + by)
    return rows + by


def item_rows(rows: Rows, items_per_row: int) -> Rows:
    """Return the rows of the items, given a fixed number of items for each row."""
    if isinstance(rows, RowRange):
        return RowRange(rows.start * items_per_row, rows.stop * items_per_row)
    return (rows[:, None] * items_per_row + np.arange(items_per_row)).reshape(-1)


def rows_of_spans(starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]) -> Rows:
    """Return the rows of ascending, disjoint spans, as a range if they leave no gaps."""
    filled = lengths > 0
    if not filled.all():
        starts, lengths = starts[filled], lengths[filled]
    if not len(starts):
        return RowRange(0, 0)
    total = int(lengths.sum())
    first, stop = int(starts[0]), int(starts[-1] + lengths[-1])
    if stop - first == total:
        return RowRange(first, stop)
    ends = np.cumsum(lengths)
    return np.repeat(starts - (ends - lengths), lengths) + np.arange(total, dtype=np.int64)


def as_rows(positions: RowPositions) -> Rows:
    """Return positions, as a range if they leave no gaps."""
    if len(positions) and int(positions[-1]) - int(positions[0]) + 1 == len(positions):
        return RowRange(int(positions[0]), int(positions[-1]) + 1)
    return positions


def as_positions(rows: Rows) -> RowPositions:
    """Return all row numbers of a selection."""
    return np.arange(rows.start, rows.stop, dtype=np.int64) if isinstance(rows, RowRange) else rows


def with_next(positions: RowPositions) -> RowPositions:
    """Return ascending, unique positions and the position after each, without duplicates."""
    pairs = np.stack([positions, positions + 1], axis=1).reshape(-1)
    # sorted already: a general unique would hash or sort again
    return pairs[np.diff(pairs, prepend=pairs[:1] - 1) > 0]


def joined_starts(starts: Iterable[npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
    """Return the union of several arrays of row numbers, ascending and unique."""
    joined = np.sort(np.concatenate([np.zeros(0, np.int64), *starts]))
    # np.unique would import the masked arrays of numpy, which takes longer than a small query
    return joined[np.diff(joined, prepend=joined[:1] - 1) > 0]


def split_rows(rows: Rows, starts: npt.NDArray[np.int64]) -> Iterator[tuple[int, Rows]]:
    """Yield the number of each page with wanted rows, and the rows relative to the page.

    Parameters
    ----------
    rows
        The rows, all within the pages.
    starts
        The first row of each page, followed by the end of the last page; not descending.
    """
    if isinstance(rows, RowRange):
        if not len(rows):
            return
        first = int(np.searchsorted(starts, rows.start, side="right")) - 1
        for page in range(first, len(starts) - 1):
            start, stop = int(starts[page]), int(starts[page + 1])
            if start >= rows.stop:
                return
            low, high = max(start, rows.start), min(stop, rows.stop)
            if low < high:
                yield page, RowRange(low - start, high - start)
        return
    cuts = np.searchsorted(rows, starts)
    for page in np.flatnonzero(np.diff(cuts)).tolist():
        within = rows[cuts[page] : cuts[page + 1]]
        yield page, within - starts[page] if starts[page] else within


def checked_rows(rows: Rows, num_rows: int) -> Rows:
    """Return ``rows``, as a range if they leave no gaps.

    Raises
    ------
    InvalidInputError
        The rows do not ascend, or do not exist.
    """
    if isinstance(rows, RowRange):
        if 0 <= rows.start <= rows.stop <= num_rows:
            return rows
        raise InvalidInputError(
            f"rows {rows.start} to {rows.stop} are out of range, there are {num_rows} rows"
        )
    positions = np.asarray(rows, np.int64)
    if (positions[1:] <= positions[:-1]).any():
        raise InvalidInputError("rows must be in ascending order, without duplicates")
    if len(positions) and not 0 <= positions[0] <= positions[-1] < num_rows:
        raise InvalidInputError(
            f"rows {positions[0]} to {positions[-1]} are out of range, there are {num_rows} rows"
        )
    return as_rows(positions)
