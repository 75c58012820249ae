"""Entries of indices, sorted in runs that are merged."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_df.table.maintenance import sorted_entries as module
from lance_df.table.maintenance.sorted_entries import Entries, sort_entries, sorted_entries

VALUES = st.one_of(
    st.lists(st.none() | st.integers(-3, 3)).map(lambda items: pa.array(items, pa.int64())),
    st.lists(st.none() | st.sampled_from(["", "a", "é"])).map(lambda items: pa.array(items, pa.string())),
    st.lists(st.none() | st.floats(width=32)).map(lambda items: pa.array(items, pa.float64())),
    st.lists(st.none() | st.booleans()).map(lambda items: pa.array(items, pa.bool_())),
)


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BLOCK_ROWS", 3)


@given(values=VALUES, run_rows=st.integers(1, 20), num_older=st.integers(0, 5))
def test_runs_are_merged(values: pa.Array, run_rows: int, num_older: int) -> None:
    entries = Entries(values, np.arange(len(values), dtype=np.uint64))
    expected = sort_entries(entries)
    stop = min(num_older, len(values))
    parts = [entries.slice(start, min(start + 4, len(values))) for start in range(stop, len(values), 4)]
    older = [iter([entries.slice(row, row + 1)]) for row in range(stop)]
    merged = list(sorted_entries(parts, sorted_runs=older, run_rows=run_rows))
    assert all(map(len, merged))
    result = pa.chunked_array([each.values for each in merged], values.type).to_pylist()
    assert repr(result) == repr(expected.values.to_pylist())
    ids = np.concatenate([np.empty(0, np.uint64), *(each.ids for each in merged)])
    assert sorted(ids.tolist()) == list(range(len(values)))
    assert repr(values.take(pa.array(ids)).to_pylist()) == repr(result)


def test_floats_are_in_total_order() -> None:
    order = [None, -np.nan, -np.inf, -1.0, -0.0, 0.0, 5e-324, np.inf, np.nan]
    for data_type in (pa.float16(), pa.float32(), pa.float64()):
        values = pa.array(order, data_type) if data_type != pa.float16() else _halves(order)
        shuffled = np.random.default_rng(0).permutation(len(order))
        entries = Entries(values.take(pa.array(shuffled)), shuffled.astype(np.uint64))
        positions = sort_entries(entries).ids.tolist()
        if data_type != pa.float64():  # the smallest number is zero in narrower types
            assert {positions[5], positions[6]} == {5, 6}
            positions[5:7] = [5, 6]
        assert positions == list(range(len(order)))


def _halves(values: list[float | None]) -> pa.Array:
    plain = np.array([0.0 if value is None else value for value in values], np.float16)
    return pa.array(plain, mask=np.array([value is None for value in values]))
