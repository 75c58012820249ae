"""Split the rows of a scan into windows that are read at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from lance_df.encodings.arrays import fixed_width_bits
from lance_df.encodings.plan import RowRange
from lance_df.table.scan.limits import SCAN_LIMITS

if TYPE_CHECKING:
    from lance_df.encodings.plan import Rows
    from lance_df.format.schema import Field
    from lance_df.table.reading.selection import RowRanges

_LEAST_PART: Final = 4


def window_rows(row_bytes: float, *, wanted: int | None = None, is_local: bool = True) -> int:
    """Return how many rows of a size to read at once, so that they take a bounded amount of memory."""
    limits = SCAN_LIMITS.current
    most: float = limits.max_window_rows
    if not is_local:
        most = max(most, limits.remote_window_bytes // max(row_bytes, 1))
    return int(min(wanted or most, max(1, limits.max_window_bytes // max(row_bytes, 1))))


def bytes_in_memory(field: Field) -> float:
    """Return the memory of a value, whatever its content; a list counts as one item."""
    if field.children:
        return sum(bytes_in_memory(child) for child in field.children)
    return (fixed_width_bits(field.arrow_type()) or 64) / 8


def windows(
    start: int,
    stop: int,
    page_starts: npt.NDArray[np.int64],
    *,
    max_rows: int,
    first_rows: int | None = None,
    selected: RowRanges | None = None,
) -> Iterator[Rows]:
    """Yield ascending rows from ``start`` to ``stop`` (exclusive), at most ``max_rows`` at once.

    Parameters
    ----------
    page_starts
        Ascending. A window ends at the start of a page if it has at least a quarter of its maximum rows:
        values with a single dictionary, that of the page, are compared and grouped faster.
    first_rows
        Size of the first window, which doubles each time; for scans that may end early.
    selected
        Yield only these rows. Windows with few of them are joined.
    """
    cuts = _cuts(start, stop, page_starts, max_rows, first_rows)
    if selected is None:
        yield from (RowRange(low, high) for low, high in cuts)
        return
    begin, num_rows = start, 0
    for low, high in cuts:
        num_more = selected.clip(low, high).num_rows
        if num_rows and num_rows + num_more > max_rows:
            yield selected.clip(begin, low).rows()
            begin, num_rows = low, 0
        num_rows += num_more
    if num_rows:
        yield selected.clip(begin, stop).rows()


def _cuts(
    start: int, stop: int, page_starts: npt.NDArray[np.int64], max_rows: int, first_rows: int | None
) -> Iterator[tuple[int, int]]:
    size = max_rows if first_rows is None else min(max_rows, max(1, first_rows))
    while start < stop:
        end = min(start + size, stop)
        page = int(np.searchsorted(page_starts, start + -(-size // _LEAST_PART)))
        if page < len(page_starts):
            end = min(end, int(page_starts[page]))
        yield start, end
        start, size = end, min(max_rows, 2 * size)
