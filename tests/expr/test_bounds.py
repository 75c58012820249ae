"""Bounds reasoning never contradicts evaluation, and proves what it should."""

from __future__ import annotations

import datetime as dt
import decimal
import struct
import time

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_df.expr.bounds import Match, ZoneBounds, bounds_of_legacy_pages, classify
from lance_df.expr.evaluate import evaluate
from lance_df.expr.nodes import (
    And,
    Column,
    Comparison,
    In,
    IsNull,
    Literal,
    Not,
    Operator,
    Or,
    Predicate,
    Truth,
    Unknown,
)
from lance_df.expr.simplify import simplify
from lance_df.expr.text import to_text

NEGATIVE_NAN = struct.unpack("<d", struct.pack("<Q", 0xFFF8000000000000))[0]
FLOATS = [0.0, -0.0, 1.0, -1.0, 2.5, np.inf, -np.inf, np.nan, NEGATIVE_NAN]
KINDS: dict[str, tuple[pa.DataType, list[object]]] = {
    "i": (pa.int16(), [-3, -1, 0, 1, 2, 7]),
    "f": (pa.float64(), FLOATS),
    "g": (pa.float32(), FLOATS),
    "h": (pa.float16(), FLOATS),
    "s": (pa.string(), ["", "a", "ab", "b", "é"]),
    "v": (pa.string_view(), ["", "a", "ab", "b", "é"]),
    "w": (pa.binary(), [b"", b"a", b"\xff"]),
    "n": (pa.decimal128(5, 2), [decimal.Decimal("-1.5"), decimal.Decimal(0), decimal.Decimal("2.25")]),
    "t": (pa.timestamp("ms", "UTC"), [dt.datetime(2024, 1, day, tzinfo=dt.UTC) for day in (1, 2, 3)]),
    "u": (pa.uint64(), [0, 1, 2**64 - 1]),
    "b": (pa.bool_(), [True, False]),
}


def array_of(name: str, values: list[object]) -> pa.Array:
    kind = KINDS[name][0]
    if pa.types.is_floating(kind):
        mask = np.array([value is None for value in values], dtype=bool)
        floats = np.array([0.0 if value is None else value for value in values], dtype=kind.to_pandas_dtype())
        return pa.array(floats, mask=mask)
    return pa.array(values, kind)


def leaves(name: str) -> st.SearchStrategy[Predicate]:
    column = Column((name,))
    value = st.sampled_from(KINDS[name][1]).map(lambda value: array_of(name, [value])[0])
    listed = st.lists(st.sampled_from(KINDS[name][1]), max_size=4).map(lambda values: array_of(name, values))
    options = [
        st.builds(Comparison, st.just(column), st.sampled_from(Operator), value),
        st.builds(In, st.just(column), listed, st.booleans()),
        st.just(IsNull(column)),
    ]
    return st.one_of(*options, st.just(Truth(column))) if name == "b" else st.one_of(options)


def predicates(names: str) -> st.SearchStrategy[Predicate]:
    base = st.one_of(*map(leaves, names), st.sampled_from([Literal(True), Literal(False), Literal(None)]))
    return st.recursive(
        base,
        lambda inner: st.one_of(
            st.builds(Not, inner),
            st.builds(IsNull, inner),
            st.builds(And, st.lists(inner, max_size=3).map(tuple)),
            st.builds(Or, st.lists(inner, max_size=3).map(tuple)),
        ),
        max_leaves=6,
    )


def bounds_of(zones: list[pa.Array], draw: st.DrawFn) -> ZoneBounds:
    """Bounds as writers make them: over values that are neither NULL nor NaN, some of them not recorded."""
    kind = zones[0].type
    plain = {pa.string_view(): pa.string(), pa.float16(): pa.float32()}.get(kind, kind)
    low, high, nulls, nans = [], [], [], []
    for zone in zones:
        values = zone.cast(plain)
        is_nan = (
            pc.is_nan(values) if pa.types.is_floating(plain) else pa.array([False] * len(values), pa.bool_())
        )
        numbers = values.filter(pc.and_(values.is_valid(), pc.invert(is_nan)))
        nulls.append(zone.null_count)
        nans.append(pc.sum(is_nan).as_py() or 0)
        extremes = [pa.scalar(None, plain)] * 2
        if len(numbers) and draw(st.integers(0, 5)):
            order = pc.array_sort_indices(numbers)
            extremes = [numbers[order[0].as_py()], numbers[order[-1].as_py()]]
        low.append(extremes[0])
        high.append(extremes[1])
        if nans[-1] and draw(st.booleans()):
            high[-1] = pa.scalar(np.nan, plain)
    rows = np.array([len(zone) for zone in zones])
    return ZoneBounds(
        min=pa.array([value.as_py() for value in low], plain).cast(kind),
        max=pa.array([value.as_py() for value in high], plain).cast(kind),
        null_count=np.array(nulls) if draw(st.booleans()) else None,
        nan_count=np.array(nans) if draw(st.booleans()) else None,
        num_rows=rows,
    )


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_classification_agrees_with_evaluation(data: st.DataObject) -> None:
    names = "".join(data.draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=2, unique=True)))
    predicate = data.draw(predicates(names))
    sizes = data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=4))
    columns, bounds = {}, {}
    for name in names:
        cells = st.one_of(st.none(), st.sampled_from(KINDS[name][1]))
        columns[name,] = [array_of(name, data.draw(st.lists(cells, min_size=n, max_size=n))) for n in sizes]
        bounds[name,] = bounds_of(columns[name,], data.draw)
    matches = classify(predicate, bounds, len(sizes))
    assert matches.dtype == np.int8
    for number, size in enumerate(sizes):
        zone = {path: arrays[number] for path, arrays in columns.items()}
        truth = evaluate(predicate, zone, size).to_pylist()
        assert truth == evaluate(simplify(predicate), zone, size).to_pylist()
        if matches[number] == Match.CANNOT:
            assert True not in truth
        elif matches[number] == Match.MUST:
            assert set(truth) <= {True}


COLUMN = Column(("x",))


def zones(
    low: list[object], high: list[object], kind: pa.DataType, **counts: list[int]
) -> dict[tuple[str], ZoneBounds]:
    rows = np.array(counts.pop("rows", [10] * len(low)))
    arrays = {name: np.array(values) for name, values in counts.items()}
    bounds = ZoneBounds(
        min=pa.array(low, kind, from_pandas=False),
        max=pa.array(high, kind, from_pandas=False),
        num_rows=rows,
        **arrays,
    )
    return {("x",): bounds}


def compare(operator: str, value: object, kind: pa.DataType) -> Comparison:
    return Comparison(COLUMN, Operator(operator), pa.scalar(value, kind))


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        (compare("=", 5, pa.int64()), "C?!C"),
        (compare("<>", 5, pa.int64()), "!?C!"),
        (compare("<", 5, pa.int64()), "!?CC"),
        (compare("<=", 5, pa.int64()), "!?!C"),
        (compare(">", 5, pa.int64()), "C?C!"),
        (compare(">=", 5, pa.int64()), "C?!!"),
        (In(COLUMN, pa.array([5, 100])), "C?!C"),
        (In(COLUMN, pa.array([1000])), "CCCC"),
        (Not(In(COLUMN, pa.array([5, 100]))), "!?C!"),
        (Not(In(COLUMN, pa.array([5, 100]), has_null=True)), "CCCC"),
        (IsNull(COLUMN), "CCCC"),
        (Not(IsNull(COLUMN)), "!!!!"),
        (And((compare(">=", 0, pa.int64()), compare("<", 3, pa.int64()))), "??CC"),
        (And((Unknown("f(x)"), compare("=", 5, pa.int64()))), "C??C"),
        (Or((Unknown("f(x)"), compare("=", 5, pa.int64()))), "??!?"),
        (And((Literal(None), compare("=", 5, pa.int64()))), "CCCC"),
        (Not(Unknown("f(x)")), "????"),
        (compare(">", 2.5, pa.float64()), "??!!"),
        (compare("=", "5", pa.string()), "????"),
    ],
    ids=lambda value: value if isinstance(value, str) else to_text(value),
)
def test_integers(predicate: Predicate, expected: str) -> None:
    bounds = zones([1, 1, 5, 6], [4, 9, 5, 9], pa.int64(), null_count=[0] * 4)
    assert "".join("C?!"[match] for match in classify(predicate, bounds, 4)) == expected


def test_t42_zones_of_nulls() -> None:
    bounds = zones([1, None, None], [9, None, None], pa.int64(), null_count=[3, 10, 3])
    assert classify(compare("<", 10, pa.int64()), bounds, 3).tolist() == [
        Match.MIGHT,
        Match.CANNOT,
        Match.MIGHT,
    ]
    assert classify(IsNull(COLUMN), bounds, 3).tolist() == [Match.MIGHT, Match.MUST, Match.MIGHT]
    unknown = zones([1], [9], pa.int64())
    assert classify(IsNull(COLUMN), unknown, 1).tolist() == [Match.MIGHT]
    assert classify(compare("=", 10, pa.int64()), unknown, 1).tolist() == [Match.CANNOT]
    both = And((IsNull(COLUMN), compare("=", 5, pa.int64())))
    assert classify(both, unknown, 1).tolist() == [Match.CANNOT]


def test_t43_inequality_with_the_one_value_and_nulls() -> None:
    bounds = zones([5], [5], pa.int64(), null_count=[3])
    other = compare("<>", 5, pa.int64())
    assert classify(other, bounds, 1).tolist() == [Match.CANNOT]
    assert classify(Or((other, IsNull(COLUMN))), bounds, 1).tolist() == [Match.MIGHT]
    assert classify(IsNull(other), bounds, 1).tolist() == [Match.MIGHT]


def test_t41_nan_rows_are_never_lost() -> None:
    above = compare(">", 20.0, pa.float64())
    between = And((above, compare("<", 30.0, pa.float64())))
    low, high = [1.0, 1.0, None], [9.0, np.nan, np.nan]
    counted = zones(low, high, pa.float64(), nan_count=[0, 1, 10], null_count=[0, 0, 0])
    assert classify(above, counted, 3).tolist() == [Match.CANNOT, Match.MIGHT, Match.MIGHT]
    assert classify(between, counted, 3).tolist() == [Match.CANNOT, Match.MIGHT, Match.CANNOT]
    uncounted = zones([1.0], [9.0], pa.float64())
    assert classify(above, uncounted, 1).tolist() == [Match.MIGHT]
    assert classify(between, uncounted, 1).tolist() == [Match.CANNOT]
    assert classify(compare("<", -20.0, pa.float64()), uncounted, 1).tolist() == [Match.MIGHT]
    nan = compare("=", np.nan, pa.float64())
    assert classify(nan, counted, 3).tolist() == [Match.CANNOT, Match.MIGHT, Match.MIGHT]


def test_t44_truncated_strings_keep_the_boundary() -> None:
    bounds = zones(["a" * 64], ["a" * 63 + "b"], pa.string(), null_count=[0])
    assert classify(compare("=", "a" * 70, pa.string()), bounds, 1).tolist() == [Match.MIGHT]
    assert classify(compare("=", "a" * 64, pa.string()), bounds, 1).tolist() == [Match.MIGHT]
    assert classify(compare("=", "a" * 63 + "b", pa.string()), bounds, 1).tolist() == [Match.MIGHT]
    assert classify(compare("=", "a" * 63, pa.string()), bounds, 1).tolist() == [Match.CANNOT]
    assert classify(compare("=", "b", pa.string_view()), bounds, 1).tolist() == [Match.CANNOT]


def test_t45_columns_without_bounds_and_no_zones() -> None:
    predicate = And((compare("=", 50, pa.int64()), Comparison(Column(("y",)), Operator.EQ, pa.scalar(1))))
    bounds = zones([1, 45], [9, 55], pa.int64())
    assert classify(predicate, bounds, 2).tolist() == [Match.CANNOT, Match.MIGHT]
    assert classify(predicate, {}, 2).tolist() == [Match.MIGHT, Match.MIGHT]
    assert classify(predicate, {}, 0).tolist() == []


def test_legacy_statistics_say_nothing_about_pages_that_had_nulls() -> None:
    numbers = bounds_of_legacy_pages(pa.array([5, 5]), pa.array([7, 7]), [0, 1], [3, 3])
    assert classify(compare("=", 0, pa.int64()), {("x",): numbers}, 2).tolist() == [Match.CANNOT, Match.MIGHT]
    assert classify(IsNull(COLUMN), {("x",): numbers}, 2).tolist() == [Match.CANNOT, Match.CANNOT]
    strings = bounds_of_legacy_pages(pa.array(["b", None]), pa.array(["c", "c"]), [0, 0], [3, 3])
    assert classify(compare("=", "a", pa.string()), {("x",): strings}, 2).tolist() == [
        Match.CANNOT,
        Match.MIGHT,
    ]
    assert classify(IsNull(COLUMN), {("x",): strings}, 2).tolist() == [Match.MIGHT, Match.MIGHT]


def test_a_hundred_thousand_zones_are_one_vectorised_step() -> None:
    count = 100_000
    bounds = {
        ("x",): ZoneBounds(
            min=pa.array(np.arange(count) * 10.0),
            max=pa.array(np.arange(count) * 10.0 + 9),
            null_count=np.zeros(count, np.int64),
            nan_count=np.zeros(count, np.int64),
            num_rows=np.full(count, 10),
        )
    }
    values = pa.array(np.arange(5000) * 100.0)
    started = time.perf_counter()
    matches = classify(And((In(COLUMN, values), compare(">=", 1000.0, pa.float64()))), bounds, count)
    assert time.perf_counter() - started < 2
    assert int((matches != Match.CANNOT).sum()) == 5000 - 10
