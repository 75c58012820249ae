"""Row sets against Python sets."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_df.table.reading.selection import RowRanges

ROWS = st.sets(st.integers(0, 60))


def as_set(ranges: RowRanges) -> set[int]:
    bounds = ranges.bounds
    assert bounds.dtype == np.int64
    assert bounds.ndim == 2
    assert not bounds.flags.writeable or bounds.size == 0
    assert (bounds[:, 1] > bounds[:, 0]).all()
    assert (bounds[1:, 0] > bounds[:-1, 1]).all()
    rows = {row for start, stop in bounds.tolist() for row in range(start, stop)}
    assert sorted(rows) == ranges.positions().tolist()
    assert ranges.num_rows == len(rows)
    return rows


@given(ROWS, ROWS, st.integers(0, 70), st.integers(0, 70))
def test_set_algebra(a: set[int], b: set[int], start: int, stop: int) -> None:
    left, right = RowRanges.from_positions(sorted(a)), RowRanges.from_positions(list(b) + list(b))
    assert as_set(left) == a
    assert as_set(left.union(right)) == a | b
    assert as_set(left.intersect(right)) == a & b
    assert as_set(left.invert(start)) == set(range(start)) - a
    assert as_set(left.clip(start, stop)) == {row for row in a if start <= row < stop}
    assert as_set(left.shift(5)) == {row + 5 for row in a}
    assert (left == right) == (a == b)


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=8))
def test_ranges_in_any_order(pairs: list[tuple[int, int]]) -> None:
    ranges = RowRanges.from_ranges([start for start, _ in pairs], [stop for _, stop in pairs])
    assert as_set(ranges) == {row for start, stop in pairs for row in range(start, stop)}


def test_all_and_none() -> None:
    assert as_set(RowRanges.all(3)) == {0, 1, 2}
    assert as_set(RowRanges.all(0)) == as_set(RowRanges.none()) == set()
    assert RowRanges.all(0) == RowRanges.none()


def test_is_immutable() -> None:
    with pytest.raises(ValueError, match="read-only"):
        RowRanges.all(3).bounds[0, 0] = 1
