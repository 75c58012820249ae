"""Bounds of damaged files: what cannot be true proves nothing."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lance_df.expr.bounds import Match, ZoneBounds, classify
from lance_df.expr.nodes import Column, Comparison, IsNull, Not, Operator

_PATH = ("a",)


@pytest.mark.parametrize("data_type", [pa.int64(), pa.float64(), pa.string(), pa.timestamp("us")])
def test_a_minimum_above_the_maximum(data_type: pa.DataType):
    low, high = (pa.scalar(value).cast(data_type) for value in (1, 9))
    bounds = ZoneBounds(
        min=pa.array([low.as_py(), high.as_py()], data_type),
        max=pa.array([high.as_py(), low.as_py()], data_type),
        null_count=np.zeros(2, np.int64),
        num_rows=np.full(2, 10),
    )
    for operator in Operator:
        found = classify(Comparison(Column(_PATH), operator, low), {_PATH: bounds}, 2)
        assert found[1] == Match.MIGHT
    assert classify(IsNull(Column(_PATH)), {_PATH: bounds}, 2).tolist() == [Match.CANNOT, Match.MIGHT]


@pytest.mark.parametrize("count", [-1, 11])
@pytest.mark.parametrize("which", ["null_count", "nan_count"])
def test_counts_that_no_zone_can_have(which: str, count: int):
    counts = {"null_count": np.zeros(2, np.int64), "nan_count": np.zeros(2, np.int64)}
    counts[which][1] = count
    bounds = ZoneBounds(min=pa.array([1.0, 1.0]), max=pa.array([2.0, 2.0]), num_rows=np.full(2, 10), **counts)
    for predicate in (
        IsNull(Column(_PATH)),
        Not(IsNull(Column(_PATH))),
        Comparison(Column(_PATH), Operator.EQ, pa.scalar(7.0)),
    ):
        found = classify(predicate, {_PATH: bounds}, 2)
        assert found[0] != Match.MIGHT
        assert found[1] == Match.MIGHT
