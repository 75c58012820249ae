"""Windows cover the rows of a scan once, in order, within their bounds."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lance_df.encodings.plan import RowRange
from lance_df.table.reading.selection import RowRanges
from lance_df.table.scan.windows import windows


def rows_of(window: RowRange | np.ndarray) -> list[int]:
    return list(range(window.start, window.stop)) if isinstance(window, RowRange) else window.tolist()


@given(
    start=st.integers(0, 50),
    length=st.integers(0, 300),
    pages=st.sets(st.integers(0, 350)),
    max_rows=st.integers(1, 80),
    first_rows=st.none() | st.integers(1, 100),
    chosen=st.none() | st.sets(st.integers(0, 400)),
)
def test_every_row_once(
    start: int,
    length: int,
    pages: set[int],
    max_rows: int,
    first_rows: int | None,
    chosen: set[int] | None,
) -> None:
    stop = start + length
    selected = None if chosen is None else RowRanges.from_positions(sorted(chosen))
    found = [
        rows_of(window)
        for window in windows(
            start,
            stop,
            np.array(sorted({0, *pages})),
            max_rows=max_rows,
            first_rows=first_rows,
            selected=selected,
        )
    ]
    wanted = [row for row in range(start, stop) if chosen is None or row in chosen]
    assert [row for window in found for row in window] == wanted
    assert all(0 < len(window) <= max_rows for window in found)


def test_windows_end_where_pages_start() -> None:
    found = list(windows(0, 2500, np.array([0, 900, 2000]), max_rows=1000))
    assert found == [RowRange(0, 900), RowRange(900, 1900), RowRange(1900, 2500)]


def test_a_page_start_that_would_halve_a_window_is_passed_over() -> None:
    found = list(windows(0, 2000, np.array([0, 100]), max_rows=1000))
    assert found == [RowRange(0, 1000), RowRange(1000, 2000)]


def test_windows_grow_when_a_scan_may_end_early() -> None:
    found = list(windows(0, 100, np.array([0]), max_rows=40, first_rows=10))
    assert [len(window) for window in found] == [10, 20, 40, 30]


def test_sparse_rows_are_joined() -> None:
    selected = RowRanges.from_positions([1, 500, 999, 1500])
    (found,) = windows(0, 2000, np.array([0]), max_rows=400, selected=selected)
    assert rows_of(found) == [1, 500, 999, 1500]
