"""The rows that a predicate is TRUE for are those that `evaluate` says."""

from __future__ import annotations

import datetime as dt
import decimal

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

from lance_df.encodings.gather import FEW
from lance_df.expr.evaluate import evaluate
from lance_df.expr.matching import matcher
from lance_df.expr.nodes import And, Column, Comparison, In, IsNull, Not, Operator, Or

_LARGEST = decimal.Decimal("9" * 38)
_DAY = dt.date(2020, 1, 1)
_VALUES = {
    pa.int8(): [-128, -1, 0, 1, 127],
    pa.uint64(): [0, 1, 2**63, 2**64 - 1],
    pa.int64(): [-(2**63), -1, 0, 2**63 - 1],
    pa.float64(): [-1.5, 0.0, -0.0, float("nan"), float("inf")],
    pa.date32(): [_DAY, dt.date(1950, 5, 5), dt.date(2300, 1, 1)],
    pa.timestamp("ns", "UTC"): [dt.datetime(1970, 1, 1, tzinfo=dt.UTC)],
    pa.decimal128(38, 0): [_LARGEST.copy_negate(), -(2**64), -1, 0, 1, 2**64 - 1, 2**64, _LARGEST],
    pa.decimal128(15, 2): [decimal.Decimal(text) for text in ("-1.25", "0.05", "0.07", "9999999999999.99")],
    pa.string(): ["", "a", "ä", "long enough not to be stored in place"],
    pa.binary(): [b"", b"\0", b"\xff"],
}


@st.composite
def _cases(draw):
    data_type = draw(st.sampled_from(list(_VALUES)))
    known = _VALUES[data_type]
    if draw(st.booleans()):
        values = pa.array(draw(st.lists(st.sampled_from([None, *known]), max_size=30)), data_type)
    else:
        values = pa.array(draw(st.lists(st.sampled_from(known), max_size=30)), data_type)
    if draw(st.booleans()):
        values = values.dictionary_encode()
    repeats = draw(st.sampled_from([1, 1, FEW]))
    values = pa.concat_arrays([values] * repeats)
    values = values.slice(draw(st.integers(0, 3)))
    literals = st.sampled_from(known).map(lambda value: pa.scalar(value, data_type))
    column = Column(("x",))
    leaf = st.builds(Comparison, st.just(column), st.sampled_from(list(Operator)), literals) | st.builds(
        In,
        st.just(column),
        st.lists(st.sampled_from(known), min_size=1).map(lambda each: pa.array(each, data_type)),
        st.booleans(),
    )
    predicate = draw(
        st.recursive(
            leaf | st.just(IsNull(column)),
            lambda inner: (
                st.builds(Not, inner)
                | st.builds(
                    lambda kind, parts: kind(tuple(parts)),
                    st.sampled_from([And, Or]),
                    st.lists(inner, max_size=3),
                )
            ),
            max_leaves=4,
        )
    )
    return values, predicate


@given(_cases())
def test_rows_are_those_that_evaluate_says(case):
    values, predicate = case
    truth = evaluate(predicate, {("x",): values}, len(values)).fill_null(False)
    rows = matcher(predicate).rows({("x",): values}, len(values))
    assert rows.mask.dtype == np.bool_
    assert rows.mask.tolist() == truth.to_pylist()
    assert rows.count == truth.true_count


@pytest.mark.parametrize("operator", Operator)
@pytest.mark.parametrize("limit", [-(2**63), -(2**64), -1, 0, 2**64 - 1, 2**64, 10**38 - 1, -(10**38) + 1])
def test_decimals_of_two_words_compare_as_numbers(operator, limit):
    numbers = [limit - 1, limit, limit + 1, 0, -1, 1]
    numbers = [number for number in numbers if abs(number) < 10**38] * FEW
    values = pa.array(map(decimal.Decimal, numbers), pa.decimal128(38, 0))
    predicate = Comparison(Column(("x",)), operator, pa.scalar(decimal.Decimal(limit), pa.decimal128(38, 0)))
    compare = {"=": "__eq__", "<>": "__ne__", "<": "__lt__", "<=": "__le__", ">": "__gt__", ">=": "__ge__"}
    expected = [getattr(number, compare[operator])(limit) for number in numbers]
    assert matcher(predicate).rows({("x",): values}, len(values)).mask.tolist() == expected
