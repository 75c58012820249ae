"""Scans that need only extremes return rows that have them: rows that they read, or what is known."""

import math

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lance_df
from lance_df.expr.nodes import Column, Comparison, Operator
from lance_df.scan.request import AggregateCall, AggregateFunction, PartialAggregate, ScanRequest
from lance_df.table.open import open_table
from lance_df.table.scan.plan import plan_scan

ROWS = 5 * 1024
AT_FIVE = Comparison(Column(("n",)), Operator.EQ, pa.scalar(5, pa.int64()))


def read(table, **request):
    plan = plan_scan(table, ScanRequest(**{"window_rows": 1024, **request}))
    batches = [batch for task in plan.tasks for batch in task.read()]
    return pa.Table.from_batches(batches, plan.schema)


def extremes(table, columns=None, **request):
    """Return what a scan returns for the extremes of some columns."""
    schema = plan_scan(table, ScanRequest(columns=columns)).schema
    calls = [AggregateCall(AggregateFunction.EXTREMES, each.name, each.name, each.type) for each in schema]
    return read(table, output=PartialAggregate((), tuple(calls)), **request)


def bounds(rows):
    return [tuple(pc.min_max(column).values()) for column in rows.columns]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("extremes") / "t.lance"
    choose = np.random.default_rng(5)
    numbers = np.arange(ROWS, dtype=np.float64)
    numbers[1500] = math.nan
    words = pa.array([f"word {number}" for number in range(7)]).take(pa.array(choose.integers(0, 7, ROWS)))
    rows = {"n": np.arange(ROWS), "f": numbers + 1.0, "word": words, "list": [[1]] * ROWS}
    lance_df.write_dataset(pa.table(rows), path)
    lance_df.dataset(path).delete("n = 4900 OR n = 5119")
    return open_table(path)


def test_two_rows_of_each_stretch(table):
    everything = read(table, columns=("n", "word"))
    for _ in range(2):
        found = extremes(table, ("word", "n"))
        assert bounds(found) == bounds(everything.select(["word", "n"]))
        # rows are deleted in the last stretch, so that it is read each time
        assert found.num_rows == 2 * (len(plan_scan(table, ScanRequest(window_rows=1024)).tasks) - 1) + 1022


def test_a_stretch_with_nan_is_read(table):
    for _ in range(2):
        found = extremes(table, ("f",))["f"]
        assert pc.sum(pc.is_nan(found)).as_py() == 1
        assert 1022 + 2 < len(found) < 1022 + 2 * 1024


@pytest.mark.parametrize(
    "request_",
    [
        {"columns": ("n", "list")},
        {"columns": ("n", "_rowid")},
        {"predicate": AT_FIVE},
        {"pruning_predicate": AT_FIVE},
    ],
)
def test_what_is_not_for_all_rows_of_all_columns(table, request_):
    request_ = {"columns": ("n",), **request_}
    assert extremes(table, **request_).equals(read(table, **request_))


VALUES = st.sampled_from(["", "a", "b\x00", "ä", "zz" * 9, None])


@given(
    st.lists(st.tuples(VALUES, st.integers(-3, 3) | st.none()), min_size=1, max_size=60), st.integers(1, 60)
)
@settings(deadline=None, max_examples=25)
def test_random_rows(tmp_path_factory, rows, repeats):
    path = tmp_path_factory.mktemp("random") / "t.lance"
    texts, numbers = zip(*rows, strict=True)
    columns = {"t": pa.array(texts * repeats, pa.string()), "n": pa.array(numbers * repeats, pa.int8())}
    lance_df.write_dataset(pa.table(columns), path)
    table = open_table(path)
    expected = bounds(read(table))
    for _ in range(2):
        assert bounds(extremes(table)) == expected
