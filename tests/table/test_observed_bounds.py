"""What scans remember of windows without matches never hides a row that matches."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

import lance_df
from lance_df.cache import CacheKind, TableCache
from lance_df.encodings.plan import RowRange
from lance_df.expr.evaluate import evaluate
from lance_df.expr.nodes import And, Column, Comparison, IsNull, Operator, Or
from lance_df.scan.request import ScanRequest
from lance_df.table.open import open_table
from lance_df.table.reading.fragment_reader import FragmentReader
from lance_df.table.reading.observed_bounds import ObservedBounds
from lance_df.table.scan.columns import resolve_columns
from lance_df.table.scan.limits import SCAN_LIMITS
from lance_df.table.scan.plan import plan_scan

_ROWS = 60


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    root = tmp_path_factory.mktemp("observed") / "t.lance"
    rng = np.random.default_rng(5)
    rows = pa.table(
        {
            "a": pa.array(np.sort(rng.integers(0, 20, _ROWS)), pa.int64(), mask=rng.random(_ROWS) < 0.2),
            "b": pa.array(rng.integers(0, 9, _ROWS), pa.int32()),
            "s": pa.array([f"{value}" for value in rng.integers(0, 9, _ROWS)]),
        }
    )
    lance_df.write_dataset(rows, str(root))
    return open_table(str(root)), rows


_comparisons = st.builds(
    lambda name, operator, value: Comparison(
        Column((name,)), operator, pa.scalar(value, pa.int64() if name == "a" else pa.int32())
    ),
    st.sampled_from("ab"),
    st.sampled_from(list(Operator)),
    st.integers(-1, 21),
)
_leaves = _comparisons | st.builds(lambda name: IsNull(Column((name,))), st.sampled_from("ab"))
_predicates = st.recursive(
    _leaves,
    lambda inner: st.builds(
        lambda kind, parts: kind(tuple(parts)),
        st.sampled_from([And, Or]),
        st.lists(inner, min_size=2, max_size=3),
    ),
    max_leaves=5,
)
_windows = st.tuples(st.integers(0, _ROWS - 1), st.integers(1, 25)).map(
    lambda pair: RowRange(pair[0], min(_ROWS, sum(pair)))
)


@given(data=st.data())
def test_only_rows_without_match_are_ruled_out(data, opened):
    table, rows = opened
    reader = FragmentReader(table, table.fragments[0])
    columns = resolve_columns(table.schema, ["a", "b", "s"])
    observed = ObservedBounds(TableCache().entries(CacheKind.OBSERVED))
    for window in data.draw(st.lists(_windows, max_size=8)):
        values = {
            column: rows[column.output.name].combine_chunks()[window.start : window.stop]
            for column in columns
        }
        with SCAN_LIMITS.replaced(observed_zone_rows=data.draw(st.integers(1, 30))):
            observed.learn(reader, window, values)
    predicate = data.draw(_predicates)
    ruled_out = observed.rule_out(predicate, columns)
    truth = evaluate(predicate, {(name,): rows[name].combine_chunks() for name in "ab"}, _ROWS)
    matches = truth.fill_null(False).to_numpy(zero_copy_only=False)
    for window in data.draw(st.lists(_windows, max_size=6)):
        if ruled_out is None:
            continue
        parts = [range(part.start, part.stop) for part in ruled_out.remaining(reader, window)]
        assert all(parts)
        remaining = [row for part in parts for row in part]
        assert remaining == sorted(set(remaining))
        assert set(remaining) <= set(range(window.start, window.stop))
        assert set(np.flatnonzero(matches[window.start : window.stop]) + window.start) <= set(remaining)
        fewer = ruled_out.remaining(reader, window, data.draw(st.integers(1, 40)))
        assert set(remaining) <= {row for part in fewer for row in range(part.start, part.stop)}
        if ruled_out.covers(reader, window):
            assert not remaining


def test_neighbouring_windows_are_ruled_out_as_one(opened):
    table, rows = opened
    reader = FragmentReader(table, table.fragments[0])
    (column,) = resolve_columns(table.schema, ["b"])
    observed = ObservedBounds(TableCache().entries(CacheKind.OBSERVED))
    for start in (20, 0, 10, 40):
        values = rows["b"].combine_chunks()[start : start + 10]
        observed.learn(reader, RowRange(start, start + 10), {column: values})
    predicate = Comparison(Column(("b",)), Operator.GT, pa.scalar(100, pa.int32()))
    ruled_out = observed.rule_out(predicate, [column])
    assert ruled_out.covers(reader, RowRange(3, 28))
    assert ruled_out.covers(reader, RowRange(40, 50))
    assert not ruled_out.covers(reader, RowRange(25, 45))
    possible = Comparison(Column(("b",)), Operator.GE, pa.scalar(0, pa.int32()))
    assert observed.rule_out(possible, [column]) is None


def test_zones_without_matches_in_a_window_with_matches_are_not_read_again(opened):
    table, _ = opened
    reader = FragmentReader(table, table.fragments[0])
    (column,) = resolve_columns(table.schema, ["a"])
    observed = ObservedBounds(TableCache().entries(CacheKind.OBSERVED))
    values = pa.array(range(_ROWS), pa.int64())
    with SCAN_LIMITS.replaced(observed_zone_rows=16):
        observed.learn(reader, RowRange(10, _ROWS), {column: values[10:]})
    predicate = Comparison(Column(("a",)), Operator.EQ, pa.scalar(20, pa.int64()))
    ruled_out = observed.rule_out(predicate, [column])
    assert ruled_out.remaining(reader, RowRange(0, _ROWS)) == [RowRange(0, 10), RowRange(16, 32)]
    assert ruled_out.remaining(reader, RowRange(0, _ROWS), 28) == [RowRange(0, 32)]
    assert ruled_out.remaining(reader, RowRange(0, _ROWS), 29) == [RowRange(0, _ROWS)]
    assert ruled_out.remaining(reader, RowRange(40, 50)) == []


def test_tasks_in_which_nothing_matches_are_not_planned(tmp_path):
    rows = pa.table({"k": np.arange(200_000)})
    dataset = lance_df.write_dataset(rows, tmp_path / "t.lance", max_rows_per_file=100_000)
    table = dataset._table
    request = ScanRequest(
        columns=("k",), predicate=Comparison(Column(("k",)), Operator.EQ, pa.scalar(150_000))
    )
    whole = plan_scan(table, request)
    assert sum(batch.num_rows for task in whole.tasks for batch in task.read()) == 1
    later = plan_scan(table, request)
    assert 0 < len(later.tasks) < len(whole.tasks)
    assert [batch.to_pydict() for task in later.tasks for batch in task.read()] == [{"k": [150_000]}]
    dataset.create_scalar_index("k", "ZONEMAP")
    indexed = plan_scan(lance_df.dataset(tmp_path / "t.lance")._table, request)
    assert len(indexed.tasks) == 1
