"""Filters that are applied step by step keep the rows for which they are true."""

from __future__ import annotations

from decimal import Decimal

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

import lance_df
from lance_df.expr.evaluate import evaluate
from lance_df.expr.nodes import And, Column, Comparison, In, IsNull, Not, Operator, Or
from lance_df.scan.request import ScanRequest
from lance_df.table.open import open_table
from lance_df.table.scan.columns import resolve_columns
from lance_df.table.scan.filter_steps import filter_steps
from lance_df.table.scan.plan import plan_scan

_ROWS = 12_000
_TYPES = {
    "i": pa.int32(),
    "d": pa.decimal128(15, 2),
    "s": pa.string(),
    "t": pa.string(),
    "n": pa.int64(),
}


def _rows() -> pa.Table:
    rng = np.random.default_rng(3)
    numbers = np.arange(_ROWS)
    columns = {
        "i": pa.array(numbers // 7, pa.int32()),
        "d": pa.array([Decimal(int(each)) / 100 for each in rng.integers(0, 11, _ROWS)], _TYPES["d"]),
        "s": pa.array(rng.choice(["", "air", "rail", "by a truck of some length"], _ROWS)),
        "t": pa.array([f"{number * 7919 % _ROWS:05}" for number in numbers]),
        "n": pa.array(rng.integers(0, 50, _ROWS), pa.int64(), mask=rng.random(_ROWS) < 0.3),
        "id": pa.array(numbers),
    }
    return pa.table(columns)


@pytest.fixture(scope="module", params=["2.0", "2.2"])
def stored(request, tmp_path_factory):
    root = str(tmp_path_factory.mktemp("steps") / "t.lance")
    rows = _rows()
    lance_df.write_dataset(rows, root, max_rows_per_file=7000, data_storage_version=request.param)
    lance_df.dataset(root).delete("id % 50 = 7")
    return open_table(root), rows.filter(pa.array(np.arange(_ROWS) % 50 != 7)).combine_chunks()


_values = {
    "i": st.sampled_from([-1, 0, 300, 301, 900, 1713, 5000]),
    "d": st.sampled_from(
        [Decimal("-1.00"), Decimal("0.00"), Decimal("0.05"), Decimal("0.07"), Decimal("9.00")]
    ),
    "s": st.sampled_from(["", "air", "rail", "ship"]),
    "t": st.sampled_from(["00000", "00700", "06000", "11999", "x"]),
    "n": st.integers(-1, 50),
}


@st.composite
def _leaves(draw):
    name = draw(st.sampled_from(sorted(_TYPES)))
    kind = draw(st.sampled_from(["compare", "compare", "compare", "in", "null"]))
    if kind == "null":
        return IsNull(Column((name,)))
    if kind == "in":
        items = draw(st.lists(_values[name], min_size=1, max_size=4, unique=True))
        return In(Column((name,)), pa.array(items, _TYPES[name]), draw(st.booleans()))
    value = pa.scalar(draw(_values[name]), _TYPES[name])
    return Comparison(Column((name,)), draw(st.sampled_from(list(Operator))), value)


_junctions = st.recursive(
    _leaves(),
    lambda inner: (
        st.builds(Not, inner)
        | st.builds(lambda each: Or(tuple(each)), st.lists(inner, min_size=2, max_size=3))
    ),
    max_leaves=3,
)
_predicates = st.lists(_junctions, min_size=1, max_size=4).map(lambda each: And(tuple(each)))
_projections = st.lists(st.sampled_from(["i", "d", "s", "t", "n"]), unique=True, max_size=3)


@settings(max_examples=60)
@given(predicate=_predicates, names=_projections, window=st.sampled_from([None, 500, 5000]))
def test_rows_are_those_for_which_the_filter_is_true(stored, predicate, names, window):
    table, rows = stored
    columns = ("id", *names)
    plan = plan_scan(table, ScanRequest(columns=columns, predicate=predicate, window_rows=window))
    found = pa.Table.from_batches([batch for task in plan.tasks for batch in task.read()], plan.schema)
    by_path = {(name,): rows[name].combine_chunks() for name in _TYPES}
    truth = evaluate(predicate, by_path, len(rows))
    expected = rows.select(columns).filter(truth)
    assert found.equals(expected.cast(found.schema))


def test_narrow_columns_come_first_and_each_is_read_once(stored):
    table, _ = stored
    wanted = resolve_columns(table.schema, ["d", "i", "s"])
    d, i, s = wanted

    def above(name, value):
        return Comparison(Column((name,)), Operator.GT, pa.scalar(value, _TYPES[name]))

    predicate = And(
        (above("s", "a"), Or((above("d", Decimal(1)), above("i", 5))), above("i", 3), above("i", 4))
    )
    steps = filter_steps(predicate, wanted, at_once=False, by_dictionary=True)
    assert [set(step.columns) for step in steps] == [{i}, {d}, {s}]
    assert steps[0].paths == {("i",)}
    (whole,) = filter_steps(predicate, wanted, at_once=True, by_dictionary=True)
    assert whole.columns == wanted
    assert whole.paths == {("i",), ("d",), ("s",)}
