"""The rows that a predicate is TRUE for are those that `evaluate` says."""

from __future__ import annotations

import datetime as dt
import decimal

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

from lance_df.encodings import kernels
from lance_df.encodings.gather import FEW
from lance_df.expr import matching
from lance_df.expr.column_tests import ListedNumbers, column_test
from lance_df.expr.evaluate import evaluate
from lance_df.expr.matching import matcher
from lance_df.expr.nodes import And, Column, Comparison, In, IsNull, Not, Operator, Or

_LARGEST = decimal.Decimal("9" * 38)
_NEGATIVE_NAN = float(np.uint64(0xFFF8 << 48).view(np.float64))
_DAY = dt.date(2020, 1, 1)
_VALUES = {
    pa.int8(): [-128, -1, 0, 1, 127],
    pa.uint64(): [0, 1, 2**63, 2**64 - 1],
    pa.int64(): [-(2**63), -1, 0, 2**63 - 1],
    pa.uint16(): [0, 7, 2**16 - 1],
    pa.float64(): [-1.5, 0.0, -0.0, float("nan"), _NEGATIVE_NAN, float("inf"), 5e-324, -5e-324],
    pa.float32(): [-1.5, 0.0, -0.0, float("nan"), _NEGATIVE_NAN, -float("inf")],
    pa.float16(): [np.float16(value) for value in (-1.5, 0.0, -0.0, float("nan"))],
    pa.bool_(): [True, False],
    pa.time32("s"): [dt.time(0), dt.time(23, 59, 59)],
    pa.duration("us"): [dt.timedelta(seconds=-5), dt.timedelta(0), dt.timedelta(days=9)],
    pa.date64(): [_DAY, dt.date(1950, 5, 5)],
    pa.date32(): [_DAY, dt.date(1950, 5, 5), dt.date(2300, 1, 1)],
    pa.timestamp("ns", "UTC"): [dt.datetime(1970, 1, 1, tzinfo=dt.UTC)],
    pa.decimal128(38, 0): [_LARGEST.copy_negate(), -(2**64), -1, 0, 1, 2**64 - 1, 2**64, _LARGEST],
    pa.decimal128(15, 2): [decimal.Decimal(text) for text in ("-1.25", "0.05", "0.07", "9999999999999.99")],
    pa.string(): ["", "a", "ä", "long enough not to be stored in place"],
    pa.large_string(): ["", "8 bytes.", "nine byte", "8 bytes:"],
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
    if draw(st.sampled_from([False, False, True])) and len(values):
        values = pa.concat_arrays([values] * (FEW // len(values) + 2))
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


def _indices(numbers, valid):
    """Return indices with any number below their nulls."""
    bits = pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(pa.uint8(), len(numbers), [bits, pa.py_buffer(numbers)])


@pytest.mark.parametrize("count", [200, FEW + 100])
@pytest.mark.parametrize("compiled", [True, False])
def test_windows_of_changing_dictionaries_are_told_apart(count, compiled, monkeypatch):
    monkeypatch.setattr(kernels, "COMPILED", compiled)
    rng = np.random.default_rng(count)
    price, mode = Column(("price",)), Column(("mode",))
    cents = pa.decimal128(15, 2)
    prepared = [
        (predicate, matcher(predicate))
        for predicate in (
            Comparison(price, Operator.LT, pa.scalar(decimal.Decimal("0.05"), cents)),
            Or((IsNull(price), Comparison(mode, Operator.EQ, pa.scalar("rail")))),
            And(
                (
                    Comparison(price, Operator.GE, pa.scalar(decimal.Decimal("0.02"), cents)),
                    In(mode, pa.array(["air", "ship"]), has_null=True),
                    Comparison(price, Operator.NE, pa.scalar(decimal.Decimal("0.04"), cents)),
                )
            ),
            Not(Comparison(mode, Operator.GT, pa.scalar("rail"))),
        )
    ]
    for number in range(12):
        dictionary = pa.array([decimal.Decimal(each) / 100 for each in rng.integers(0, 9, 8).tolist()], cents)
        dictionary = dictionary.slice(number % 3)
        valid = rng.random(count) < (1.0, 0.8)[number % 2]
        indices = np.where(valid, rng.integers(0, len(dictionary), count), 200).astype(np.uint8)
        prices = pa.DictionaryArray.from_arrays(_indices(indices, valid), dictionary, safe=False)
        modes = pa.array(rng.choice(["air", "rail", "ship"], count))
        plain = dictionary.take(pa.array(indices, mask=~valid))
        for predicate, prepared_matcher in prepared:
            rows = prepared_matcher.rows({("price",): prices, ("mode",): modes}, count)
            expected = evaluate(predicate, {("price",): plain, ("mode",): modes}, count).fill_null(False)
            assert rows.mask.tolist() == expected.to_pylist()
            assert rows.count == expected.true_count


def test_a_dictionary_is_judged_once():
    dictionary = pa.array(["a", "b", "c"])
    prepared = matcher(Comparison(Column(("x",)), Operator.EQ, pa.scalar("b")))
    windows = [
        pa.DictionaryArray.from_arrays(pa.array([each] * 4, pa.uint8()), dictionary) for each in range(3)
    ]
    found = [prepared.rows({("x",): window}, 4).count for window in windows]
    assert found == [0, 4, 0]
    assert len(prepared._judged) == 1


@pytest.mark.parametrize("data_type", [pa.string(), pa.large_binary()])
@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 15, 16, 17, 23, 24, 25, 40])
def test_words_are_told_apart_by_every_byte(size, data_type):
    word = b"".join(b"%c" % (97 + place % 26) for place in range(size))
    others = [word[:place] + b"~" + word[place + 1 :] for place in range(size)]
    words = [word, *others, word, word + b"~", word[:-1], b"", None, word]
    for repeats in (1, FEW // len(words) + 2):
        values = pa.array(words * repeats, pa.binary()).cast(data_type).slice(1)
        for operator in (Operator.EQ, Operator.NE):
            predicate = Comparison(Column(("x",)), operator, pa.scalar(word).cast(data_type))
            expected = evaluate(predicate, {("x",): values}, len(values))
            assert column_test(predicate, data_type).num_parts == 1
            rows = matcher(predicate).rows({("x",): values}, len(values))
            assert rows.mask.tolist() == expected.fill_null(False).to_pylist()
            assert rows.count == expected.true_count


def test_what_is_kept_of_dictionaries_is_bounded(monkeypatch):
    monkeypatch.setattr(matching, "_MAX_JUDGED_BYTES", 5000)
    prepared = matcher(Comparison(Column(("x",)), Operator.EQ, pa.scalar("b")))
    for number in range(30):
        words = ["a", "b", "c" * (6000 if number % 3 == 2 else number)]
        window = pa.array(words).dictionary_encode()
        assert prepared.rows({("x",): window}, 3).mask.tolist() == [False, True, False]
        assert len(prepared._judged) <= 4


@pytest.mark.parametrize(
    ("name", "data_type"), [("whole", pa.int16()), ("floats", pa.float32()), ("pairs", pa.decimal128(25, 0))]
)
def test_conditions_on_one_column_are_one_range(name, data_type):
    column = Column((name,))
    below = Comparison(column, Operator.LT, pa.scalar(7).cast(data_type))
    above = Comparison(column, Operator.GE, pa.scalar(3).cast(data_type))
    for predicate, num_rows in (
        (And((below, above)), 4),
        (Not(And((below, above))), 6),
        (Or((below, above)), 10),
        (And((below, Not(below))), 0),
    ):
        test = column_test(predicate, data_type)
        assert test.num_parts == (num_rows not in (0, 10))
        assert test.rows(pa.array(range(10)).cast(data_type)).count == num_rows


LISTED = [
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    *(pa.date32(), pa.timestamp("us"), pa.time32("s"), pa.duration("ns")),
]


@pytest.mark.parametrize("data_type", LISTED, ids=str)
@pytest.mark.parametrize("place", ["lowest", "zero", "highest"])
@pytest.mark.parametrize("step", [1, 3, 5000])
def test_numbers_of_a_long_list(data_type, place, step):
    width = data_type.bit_width
    signed = not pa.types.is_unsigned_integer(data_type)
    number = pa.from_numpy_dtype(f"{'int' if signed else 'uint'}{width}")
    lowest = -(2 ** (width - 1)) if signed else 0
    highest = lowest + 2**width - 1
    most = min(40, (highest - lowest) // step)
    start = {"lowest": lowest, "zero": max(lowest, -7), "highest": highest - most * step}[place]
    listed = list(range(start, min(highest, start + most * step) + 1, step))
    if len(listed) < 9:
        return
    near = {each + shift for each in (*listed, lowest, highest) for shift in (-1, 0, 1)}
    some = sorted(each for each in near if lowest <= each <= highest)
    values = pa.array([None, *some, None] * (FEW // len(some) + 1), number).view(data_type).slice(1)
    for has_null in (False, True):
        predicate = In(Column(("x",)), pa.array(listed, number).view(data_type), has_null)
        found = matcher(predicate).rows({("x",): values}, len(values))
        expected = evaluate(predicate, {("x",): values}, len(values))
        assert found.mask.tolist() == expected.fill_null(False).to_pylist()
        assert found.count == expected.true_count
    if step < 5000:
        assert isinstance(column_test(predicate, data_type), ListedNumbers)
    elif width == 64:
        assert column_test(predicate, data_type) is None
