"""Group small pages of a column and decode them together, since calls cost more than the work per page."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from lance_df.encodings.loaded_page import Form
from lance_df.encodings.plan import RowRange, Rows
from lance_df.encodings.rows import as_positions, rows_of_spans
from lance_df.sliced_lists import unsliced

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

# The cost of larger pages is work, not calls.
SMALL_BYTES = 16 * 1024
# For fewer pages it is not worth searching for common properties.
MANY_PAGES = 4

Part: TypeAlias = tuple[int, Rows]
"""The number of a page, and rows counted from the first row of the page."""


def grouped(parts: Sequence[Part], kind_of: Callable[[int], object | None] | None) -> list[list[int]]:
    """Return groups of positions in ``parts``.

    Parameters
    ----------
    kind_of
        Returns a key that all pages of a group share, or None for a page that is a group by itself. If this
        is None, each page is a group by itself.
    """
    if kind_of is None or len(parts) < MANY_PAGES:
        return [[part] for part in range(len(parts))]
    groups: dict[object, list[int]] = {}
    for part, (number, _) in enumerate(parts):
        kind = kind_of(number)
        groups.setdefault(number if kind is None else (kind,), []).append(part)
    return list(groups.values())


def form_of_parts(form: Form, rows: Rows, num_parts: int, num_groups: int, *, mapped: bool) -> Form:
    """Return the form of all parts of a column; groups of pages and single rows exclude views.

    A view of fetched bytes would keep all of them in memory for the few rows that pass a filter.
    """
    if not mapped or num_groups < num_parts or not isinstance(rows, RowRange):
        form &= ~Form.VIEWS
    return form if num_parts == 1 else form & ~Form.DICTIONARY


def rows_of_run(parts: Sequence[Part], num_rows: Sequence[int] | npt.NDArray[np.int64]) -> Rows:
    """Return the rows of several pages, counted from the first row of the first page."""
    counts = np.array(num_rows, np.int64)
    starts = np.cumsum(counts) - counts
    ranges = [rows for _, rows in parts if isinstance(rows, RowRange)]
    if len(ranges) == len(parts):
        firsts = np.fromiter((rows.start for rows in ranges), np.int64, len(ranges))
        stops = np.fromiter((rows.stop for rows in ranges), np.int64, len(ranges))
        return rows_of_spans(starts + firsts, stops - firsts)
    shifted = zip(parts, starts.tolist(), strict=True)
    return np.concatenate([as_positions(rows) + start for (_, rows), start in shifted])


def in_order(values: pa.Array, parts: Sequence[Part], groups: Sequence[Sequence[int]]) -> pa.Array:
    """Reorder values, which are concatenated by group, into the order of the parts."""
    if len(groups) in (1, len(parts)):
        return values
    lengths = np.fromiter((len(rows) for _, rows in parts), np.int64, len(parts))
    ordered = np.concatenate(groups)
    starts = np.empty(len(parts), np.int64)
    starts[ordered] = np.cumsum(lengths[ordered]) - lengths[ordered]
    ends = np.cumsum(lengths)
    positions = np.repeat(starts - (ends - lengths), lengths) + np.arange(int(ends[-1]))
    return unsliced(values).take(pa.array(positions))
