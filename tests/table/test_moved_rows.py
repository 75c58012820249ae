"""Row ids and versions of rows that move: sequences cut, joined and without some of their items."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_df.format.row_ids import RunSequence, constant_versions, row_id_range, row_ids_of, versions_of
from lance_df.table.maintenance.moved_rows import joined, slice_of, without

numbers = st.lists(st.integers(0, 12) | st.sampled_from([2**64 - 1, 2**40]), max_size=20)
builders = st.sampled_from([row_ids_of, versions_of])


def is_minimal(sequence: RunSequence) -> bool:
    lengths = sequence.ends - sequence.begins
    follows = sequence.firsts[:-1] + (lengths[:-1] * sequence.step).astype(np.uint64)
    return bool((lengths > 0).all()) and not bool((follows == sequence.firsts[1:]).any())


@settings(max_examples=50)
@given(values=numbers, data=st.data(), build=builders)
def test_without(values, data, build) -> None:
    gone = sorted(data.draw(st.sets(st.integers(0, max(len(values) - 1, 0)))) if values else [])
    kept = [value for position, value in enumerate(values) if position not in gone]
    assert without(build(values), np.array(gone, np.int64)).to_numpy().tolist() == kept


@settings(max_examples=50)
@given(values=numbers, data=st.data(), build=builders)
def test_slice_of(values, data, build) -> None:
    start = data.draw(st.integers(0, len(values)))
    stop = data.draw(st.integers(start, len(values)))
    found = slice_of(build(values), slice(start, stop))
    assert found.to_numpy().tolist() == values[start:stop]
    assert len(found) == stop - start


@settings(max_examples=50)
@given(parts=st.lists(numbers, min_size=1, max_size=4), build=builders)
def test_joined(parts, build) -> None:
    found = joined([build(part) for part in parts])
    assert found.to_numpy().tolist() == [value for part in parts for value in part]


@pytest.mark.parametrize(
    ("parts", "num_runs"),
    [
        ([row_id_range(0, 5), row_id_range(5, 9)], 1),
        ([row_id_range(0, 5), row_id_range(6, 9)], 2),
        ([row_id_range(0, 5), row_id_range(0, 0), row_id_range(5, 6)], 1),
        ([row_id_range(3, 3)], 0),
        ([constant_versions(7, 3), constant_versions(7, 2)], 1),
        ([constant_versions(7, 3), constant_versions(8, 2)], 2),
    ],
)
def test_runs_that_meet_join(parts, num_runs) -> None:
    found = joined(parts)
    assert len(found.firsts) == num_runs
    assert is_minimal(found)


def test_a_billion_rows_take_no_room() -> None:
    sequence = without(row_id_range(0, 10**9), np.array([5, 10**8], np.int64))
    assert len(sequence) == 10**9 - 2
    assert slice_of(sequence, slice(4, 7)).to_numpy().tolist() == [4, 6, 7]
    assert len(joined([sequence, row_id_range(10**9, 2 * 10**9)]).firsts) == 3
