"""pyarrow expressions, as DataFusion sends them and as people write them."""

from __future__ import annotations

import datetime as dt
import decimal
import functools
import operator

import datafusion
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pytest

from lance_df.errors import ColumnNotFoundError
from lance_df.expr.evaluate import evaluate, gather_columns
from lance_df.expr.from_pyarrow import to_predicate
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
from lance_df.expr.walk import columns, has_unknown

SCHEMA = pa.schema(
    {
        "i": pa.int32(),
        "k": pa.int64(),
        "u": pa.uint8(),
        "f": pa.float32(),
        "s": pa.string(),
        "v": pa.string_view(),
        "c": pa.dictionary(pa.int8(), pa.string()),
        "b": pa.bool_(),
        "n": pa.decimal128(10, 2),
        "t": pa.timestamp("us", "UTC"),
        "r": pa.timestamp("s"),
        "d": pa.date32(),
        "w": pa.binary(),
        "o": pa.struct({"x": pa.int64(), "y.z": pa.int64()}),
        "a.b": pa.int64(),
        "m": pa.null(),
        "l": pa.list_(pa.int64()),
    }
)
INT, B = Column(("i",)), Truth(Column(("b",)))


def equal(name: str, value: pa.Scalar, how: Operator = Operator.EQ) -> Comparison:
    return Comparison(Column((name,)), how, value)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (True, Literal(True)),
        (pa.scalar(False), Literal(False)),
        (pa.scalar(None, pa.bool_()), Literal(None)),
        (pc.scalar(True), Literal(True)),
        (pc.field("i") == pa.scalar(4, pa.int32()), equal("i", pa.scalar(4, pa.int32()))),
        (pc.field("i") == 4, equal("i", pa.scalar(4, pa.int32()))),
        (pc.scalar(4) < pc.field("i"), equal("i", pa.scalar(4, pa.int32()), Operator.GT)),
        (pc.field("i") >= 4.5, equal("i", pa.scalar(4, pa.int32()), Operator.GT)),
        (pc.field("i") <= -4.5, equal("i", pa.scalar(-5, pa.int32()), Operator.LE)),
        (pc.field("i") == 4.5, And((IsNull(INT), Literal(None)))),
        (pc.field("i") != 4.5, Or((Not(IsNull(INT)), Literal(None)))),
        (pc.field("i") < 2**40, Or((Not(IsNull(INT)), Literal(None)))),
        (pc.field("u") < -1, And((IsNull(Column(("u",))), Literal(None)))),
        (pc.field("i") == pa.scalar(None, pa.int32()), Literal(None)),
        (pc.field("m") == 4, Literal(None)),
        (pc.field("f") == 0.5, equal("f", pa.scalar(0.5, pa.float32()))),
        (pc.field("f") == 3, equal("f", pa.scalar(3, pa.float32()))),
        (pc.field("v") == "a", equal("v", pa.scalar("a", pa.string_view()))),
        (pc.field("c") == "a", equal("c", pa.scalar("a"))),
        (pc.field("c") == pa.array(["a"]).dictionary_encode()[0], equal("c", pa.scalar("a"))),
        (
            pc.field("n") == decimal.Decimal("1.5"),
            equal("n", pa.scalar(decimal.Decimal("1.50"), SCHEMA.field("n").type)),
        ),
        (pc.field("n") == 2, equal("n", pa.scalar(decimal.Decimal("2.00"), SCHEMA.field("n").type))),
        (
            pc.field("t") == pa.scalar(0, pa.timestamp("ms", "Asia/Tokyo")),
            equal("t", pa.scalar(0, SCHEMA.field("t").type)),
        ),
        (
            pc.field("r") == dt.datetime(2024, 1, 1),
            equal("r", pa.scalar(dt.datetime(2024, 1, 1), pa.timestamp("s"))),
        ),
        (pc.field("d") == dt.datetime(2024, 1, 1), equal("d", pa.scalar(dt.date(2024, 1, 1)))),
        (pc.field("w") == b"\xff", equal("w", pa.scalar(b"\xff"))),
        (pc.field("o", "x") == 1, Comparison(Column(("o", "x")), Operator.EQ, pa.scalar(1))),
        (pc.field("o", "y.z") == 1, Comparison(Column(("o", "y.z")), Operator.EQ, pa.scalar(1))),
        (pc.field("a.b") == 1, equal("a.b", pa.scalar(1))),
        (pc.field("b"), B),
        (~pc.field("b"), Not(B)),
        (pc.field("b") & pc.field("b") & pc.field("b"), And((B, B, B))),
        (pc.field("b") | pc.scalar(False), Or((B, Literal(False)))),
        (pc.field("b") == True, equal("b", pa.scalar(True))),  # noqa: E712
        (pc.field("l").is_null(), IsNull(Column(("l",)))),
        (pc.field("i").is_valid(), Not(IsNull(INT))),
        (pc.field("b").is_null(nan_is_null=True), IsNull(Column(("b",)))),
        (
            (pc.field("i") > pa.scalar(1, pa.int32())).is_null(),
            IsNull(equal("i", pa.scalar(1, pa.int32()), Operator.GT)),
        ),
        (pc.scalar(1).is_null(), Literal(False)),
    ],
)
def test_translation(expression: pc.Expression, expected: Predicate) -> None:
    assert to_predicate(expression, SCHEMA) == expected


@pytest.mark.parametrize(
    "expression",
    [
        pc.starts_with(pc.field("s"), "x"),
        pc.field("i").cast("int64") == 1,
        pc.field("i") + 1 == 2,
        pc.field("i") == pc.field("k"),
        pc.field("s") == 1,
        pc.field("k") == 2.0**60,
        pc.field("f") == 2**24 + 1,
        pc.field("i") == float("nan"),
        pc.field("n") == 1.5,
        pc.field("n") < decimal.Decimal("1.505"),
        pc.field("t") == dt.datetime(2024, 1, 1),
        pc.field("r") == dt.datetime(2024, 1, 1, 0, 0, 0, 500_000),
        pc.field("d") == dt.datetime(2024, 1, 1, 1),
        pc.field("s") == b"a",
        pc.field("f").is_null(nan_is_null=True),
        pc.field("i"),
        pc.field(0) == 1,
        pc.field("k").isin([1.0, 2.0**60]),
        pc.field("r").isin([dt.datetime(2024, 1, 1, 0, 0, 0, 500_000)]),
        pc.scalar(1),
        pc.field("b") < pc.field("b"),
    ],
    ids=str,
)
def test_what_the_language_cannot_say(expression: pc.Expression) -> None:
    predicate = to_predicate(expression & pc.field("b"), SCHEMA)
    assert has_unknown(predicate)


def test_unknown_parts_leave_the_rest_alone() -> None:
    predicate = to_predicate(pc.starts_with(pc.field("s"), "x") & pc.field("b"), SCHEMA)
    assert isinstance(predicate, And)
    assert isinstance(predicate.operands[0], Unknown)
    assert predicate.operands[1] == B
    assert columns(predicate) == {("b",)}


@pytest.mark.parametrize(
    ("name", "values", "expected", "has_null"),
    [
        ("i", pa.array([1, 2]), [1, 2], False),
        ("i", pa.array([1, 2**40]), [1], False),
        ("i", pa.array([1.0, 1.5]), [1], False),
        ("u", pa.array([-1, 255, 256]), [255], False),
        ("f", pa.array([0.5, 1, 2, 3, 0.1]), [0.5, 1, 2, 3], False),
        ("i", pa.array([1, None]), [1], True),
        ("c", pa.array(["a", "a", None]).dictionary_encode(), ["a", "a"], True),
        ("v", pa.array(["a"]), ["a"], False),
        ("d", pa.array([0], pa.date64()), [dt.date(1970, 1, 1)], False),
        ("n", pa.array([decimal.Decimal("1.5")]), [decimal.Decimal("1.50")], False),
    ],
)
def test_lists(name: str, values: pa.Array, expected: list[object], has_null: bool) -> None:
    predicate = to_predicate(pc.field(name).isin(values), SCHEMA)
    assert isinstance(predicate, In)
    assert predicate.values.to_pylist() == expected
    assert predicate.has_null == has_null
    kind = SCHEMA.field(name).type
    assert predicate.values.type == (kind.value_type if pa.types.is_dictionary(kind) else kind)


@pytest.mark.parametrize(("behavior", "has_null"), [("match", True), ("skip", False), ("inconclusive", True)])
def test_null_matching(behavior: str, has_null: bool) -> None:
    options = pc.SetLookupOptions(pa.array([1, None], pa.int32()), skip_nulls=behavior == "skip")
    expression = pc.Expression._call("is_in", [pc.field("i")], options)
    predicate = to_predicate(expression, SCHEMA)
    assert isinstance(predicate, In)
    assert predicate.has_null == has_null


def test_short_lists_of_floats_are_equalities() -> None:
    zero = equal("f", pa.scalar(0.0, pa.float32()))
    assert to_predicate(pc.field("f").isin([0.0]), SCHEMA) == Or((zero,))
    assert to_predicate(pc.field("f").isin([0.0, None]), SCHEMA) == Or((zero, Literal(None)))


def test_list_of_nulls_only() -> None:
    assert to_predicate(pc.field("i").isin(pa.nulls(2)), SCHEMA) == Literal(None)


@pytest.mark.parametrize(
    "expression", [pc.field("zz") == 1, pc.field("o", "zz") == 1, pc.field("i", "x") == 1], ids=str
)
def test_missing_columns(expression: pc.Expression) -> None:
    with pytest.raises(ColumnNotFoundError):
        to_predicate(expression, SCHEMA)


def test_long_chains() -> None:
    chain = functools.reduce(operator.or_, [pc.field("k") == number for number in range(2000)])
    predicate = to_predicate(chain, SCHEMA)
    assert isinstance(predicate, Or)
    assert len(predicate.operands) == 2000


class _Provider(pads.Dataset):
    """Hands DataFusion all rows, filtered by our own evaluation of what it pushes down."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table
        self.seen: list[Predicate] = []

    @property
    def schema(self) -> pa.Schema:
        return self.table.schema

    def scanner(self, *_: object, columns: list[str] | None = None, filter: object = None, **__: object):
        table = self.table
        if filter is not None:
            predicate = to_predicate(filter, self.schema)
            self.seen.append(predicate)
            truth = evaluate(predicate, gather_columns(table, sorted_paths(predicate)), len(table))
            table = table.take(pa.array(np.flatnonzero(truth.fill_null(False))))
        table = table if columns is None else table.select(columns)
        return _Scan(table)

    def get_fragments(self, filter: object = None):
        return [self]


class _Scan:
    def __init__(self, table: pa.Table) -> None:
        self.projected_schema = table.schema
        self.to_batches = table.to_batches


def sorted_paths(predicate: Predicate) -> list[tuple[str, ...]]:
    return sorted(columns(predicate))


@pytest.mark.parametrize(
    "condition",
    [
        "f > 1",
        "NOT (f <= 1)",
        "f NOT BETWEEN -1 AND 1",
        "f = arrow_cast('NaN', 'Float64')",
        "f IN (0.0, 1.5, 2.5, 3.5)",
        "i NOT IN (1, 2, 3, 4)",
        "(i IN (1, 2, 3, 4)) = false",
        "(i IN (1, 2, 3, 4)) IS NULL",
        "(i NOT IN (1, 2, 3, 4)) OR b",
        "NOT (i IN (1, 2, 3, 4) AND b)",
        "b = (i > 3)",
        "b <> (f > 1)",
        "b = (f > 1 AND i IS NULL)",
        "i = 1 AND i = 2",
        "s > 'a' AND s < 'c' OR b IS NULL",
        "date_part('year', t) = 2024",
        "t >= '2024-01-03' AND b",
        "n >= 0.01",
        "c = 'x'",
        "i IN (1, 2) OR f IN (1.5, 0.0)",
        "i IN (1, 2, 3, 4, 5) AND s IN ('a', 'b', 'c', 'd')",
    ],
)
def test_rows_equal_those_of_datafusion_in_memory(condition: str) -> None:
    table = pa.table(
        {
            "i": pa.array([1, 2, 3, 4, 5, None, 7, None], pa.int32()),
            "f": pa.array([0.0, -0.0, 1.5, float("nan"), -float("nan"), None, 9.0, -9.0], from_pandas=False),
            "b": [True, False, None, True, False, None, True, False],
            "s": ["a", "b", None, "c", "", "bb", "a", "z"],
            "n": pa.array([decimal.Decimal(x) / 100 for x in range(8)], pa.decimal128(10, 2)),
            "t": pa.array([dt.datetime(2023 + x % 3, 1, 1 + x) for x in range(8)], pa.timestamp("us", "UTC")),
            "c": pa.array(["x", "y", None, "x", "x", "y", None, "x"]).dictionary_encode(),
        }
    )
    provider = _Provider(table)
    memory, pushed = datafusion.SessionContext(), datafusion.SessionContext()
    memory.register_record_batches("t", [table.to_batches()])
    pushed.register_dataset("t", provider)
    query = f"SELECT i, s, b FROM t WHERE {condition}"
    expected = memory.sql(query).to_arrow_table().to_pylist()
    assert pushed.sql(query).to_arrow_table().to_pylist() == expected
    assert any(not isinstance(predicate, Unknown) for predicate in provider.seen)
