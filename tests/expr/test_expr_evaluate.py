"""Evaluation against DataFusion in memory: the same rows are TRUE, FALSE and NULL."""

from __future__ import annotations

import datetime as dt
import decimal
import struct
from functools import cache

import datafusion
import numpy as np
import pyarrow as pa
import pytest

from lance_df.errors import ColumnNotFoundError, InvalidInputError
from lance_df.expr.evaluate import evaluate, gather_columns
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

NEGATIVE_NAN = struct.unpack("<d", struct.pack("<Q", 0xFFF8000000000000))[0]
FLOATS = [0.0, -0.0, 1.5, -1.5, np.inf, -np.inf, np.nan, NEGATIVE_NAN, None]


@cache
def table() -> pa.Table:
    zone = pa.timestamp("us", "America/New_York")
    stamps = [dt.datetime(2024, 1, day, tzinfo=dt.UTC) for day in range(1, 9)]
    return pa.table(
        {
            "id": range(9),
            "i": pa.array([-(2**31), -1, 0, 1, 2, 3, 2**31 - 1, None, None], pa.int32()),
            "u": pa.array([0, 1, 2**63, 2**64 - 1, 5, 6, 7, 8, None], pa.uint64()),
            "f": pa.array(FLOATS, pa.float64(), from_pandas=False),
            "g": pa.array(np.array([0, 1, np.nan, -0.0, 65504, -1, 2, 3, 4], np.float16)),
            "s": ["", "a", "ab", "b", "é", "z" * 40, "A", None, "a"],
            "v": pa.array(["", "a", "ab", "b", "é", "z" * 40, "A", None, "a"], pa.string_view()),
            "d": pa.array(["x", "y", None, "x", "z", "y", "x", None, "y"]).dictionary_encode(),
            "w": pa.array([b"", b"\0", b"\xff", b"a", b"ab", None, b"b", b"c", b"d"]),
            "n": pa.array([decimal.Decimal(x) / 100 for x in range(-4, 4)] + [None], pa.decimal128(10, 2)),
            "t": pa.array([*stamps, None], zone),
            "e": pa.array([dt.date(1969, 12, day) for day in range(24, 32)] + [None]),
            "b": [True, False, None] * 3,
            "m": pa.nulls(9),
        }
    )


@cache
def context() -> datafusion.SessionContext:
    context = datafusion.SessionContext()
    context.register_record_batches("t", [table().to_batches()])
    return context


def sql(scalar: pa.Scalar) -> str:
    value = scalar.as_py()
    kind = scalar.type
    if pa.types.is_floating(kind):
        return f"arrow_cast('{value!r}', '{'Float16' if kind == pa.float16() else 'Float64'}')"
    if pa.types.is_decimal(kind):
        return f"arrow_cast('{value}', 'Decimal128({kind.precision}, {kind.scale})')"
    if pa.types.is_timestamp(kind):
        return f"arrow_cast('{value.isoformat()}', 'Timestamp(µs, \"{kind.tz}\")')"
    if pa.types.is_date(kind):
        return f"date '{value}'"
    if pa.types.is_uint64(kind):
        return f"arrow_cast('{value}', 'UInt64')"
    if isinstance(value, bytes):
        return f"arrow_cast(x'{value.hex()}', 'Binary')"
    return f"'{value}'" if isinstance(value, str) else str(value)


def datafusion_value(condition: str) -> list[bool | None]:
    result = context().sql(f"SELECT id, {condition} AS p FROM t ORDER BY id").to_arrow_table()
    return result["p"].to_pylist()


def ours(predicate: Predicate) -> list[bool | None]:
    result = evaluate(predicate, {(name,): table()[name] for name in table().column_names}, 9)
    assert result.type == pa.bool_()
    return result.to_pylist()


def literals(name: str) -> list[pa.Scalar]:
    values = table()[name].combine_chunks()
    values = values.dictionary_decode() if isinstance(values, pa.DictionaryArray) else values
    # DataFusion cannot spell a NaN with the sign bit set
    return [
        value
        for value in values
        if value.is_valid and not (name == "f" and struct.pack("<d", value.as_py())[-2:] == b"\xf8\xff")
    ]


@pytest.mark.parametrize("name", [*"iufgsvdwnte"])
def test_comparisons(name: str) -> None:
    for operator in Operator:
        for value in literals(name):
            expected = datafusion_value(f"{name} {operator} {sql(value)}")
            assert ours(Comparison(Column((name,)), operator, value)) == expected, (operator, value)


@pytest.mark.parametrize("name", [*"iufsvdwnte"])
def test_long_lists(name: str) -> None:
    values = literals(name)[:5]
    kind = values[0].type
    listed = pa.array([value.as_py() for value in values], kind)
    column = Column((name,))
    text = ", ".join(map(sql, values))
    assert ours(In(column, listed)) == datafusion_value(f"{name} IN ({text})")
    assert ours(Not(In(column, listed))) == datafusion_value(f"{name} NOT IN ({text})")
    assert ours(In(column, listed, has_null=True)) == datafusion_value(f"{name} IN ({text}, NULL)")
    assert ours(Not(In(column, listed, has_null=True))) == datafusion_value(f"{name} NOT IN ({text}, NULL)")
    assert ours(IsNull(In(column, listed, has_null=True))) == datafusion_value(
        f"({name} IN ({text}, NULL)) IS NULL"
    )


def test_float16_lists_and_empty_lists() -> None:
    column = Column(("g",))
    assert ours(In(column, pa.array(np.array([0, np.nan], np.float16)))) == [True, False, True] + [False] * 6
    assert ours(In(Column(("i",)), pa.array([], pa.int32()))) == [False] * 7 + [None] * 2
    assert ours(In(Column(("m",)), pa.array([], pa.int32()))) == [False] * 9


@pytest.mark.parametrize(
    ("predicate", "condition"),
    [
        (Truth(Column(("b",))), "b"),
        (Not(Truth(Column(("b",)))), "NOT b"),
        (IsNull(Column(("d",))), "d IS NULL"),
        (IsNull(Column(("f",))), "f IS NULL"),
        (IsNull(Truth(Column(("b",)))), "b IS NULL"),
        (Comparison(Column(("b",)), Operator.LT, pa.scalar(True)), "b < true"),
        (Comparison(Column(("m",)), Operator.EQ, pa.scalar(1)), "m = 1"),
        (And((Truth(Column(("b",))), Literal(None))), "b AND NULL"),
        (Or((Truth(Column(("b",))), Literal(None))), "b OR NULL"),
        (And(()), "true"),
        (Or(()), "false"),
        (And((Literal(False), Truth(Column(("b",))))), "false AND b"),
    ],
)
def test_logic(predicate: Predicate, condition: str) -> None:
    assert ours(predicate) == datafusion_value(condition)


def test_dictionary_with_null_values_and_large_dictionary() -> None:
    values = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 2], pa.int8()), pa.array(["a", None, "b"]))
    large = pa.DictionaryArray.from_arrays(pa.array([1, None], pa.int8()), pa.array(["a", None, "b"]))
    column = Column(("d",))
    same = Comparison(column, Operator.EQ, pa.scalar("a"))
    assert evaluate(same, {("d",): values}, 4).to_pylist() == [True, None, None, False]
    assert evaluate(IsNull(column), {("d",): values}, 4).to_pylist() == [False, True, True, False]
    assert evaluate(IsNull(column), {("d",): large}, 2).to_pylist() == [True, True]


def test_chunks_slices_and_extensions() -> None:
    column, two = Column(("x",)), pa.scalar(2.0)
    above = Comparison(column, Operator.GT, two)
    chunks = pa.chunked_array([pa.array([1.0, np.nan]), pa.array([], pa.float64()), pa.array([None, 3.0])])
    assert evaluate(above, {("x",): chunks}, 4).to_pylist() == [False, True, None, True]
    part = pa.array([9.0, 1.0, np.nan, None, 9.0])[1:4]
    assert evaluate(above, {("x",): part}, 3).to_pylist() == [False, True, None]
    uuids = pa.array([b"a" * 16, None], pa.binary(16)).cast(pa.uuid())
    same = Comparison(column, Operator.EQ, pa.scalar(b"a" * 16, pa.binary(16)))
    assert evaluate(same, {("x",): uuids}, 2).to_pylist() == [True, None]


def test_literals_of_other_types() -> None:
    column = Column(("i",))
    assert ours(Comparison(column, Operator.GT, pa.scalar(2**40))) == [False] * 7 + [None] * 2
    assert ours(Comparison(column, Operator.GT, pa.scalar(1.5)))[3:6] == [False, True, True]
    assert ours(In(column, pa.array([1.0, 1.5, 2.0])))[3:6] == [True, True, False]
    assert ours(Comparison(Column(("s",)), Operator.EQ, pa.scalar("a", pa.large_string()))).count(True) == 2


def test_gather_columns_applies_the_nulls_of_structs() -> None:
    inner = pa.StructArray.from_arrays([pa.array([1, 2, 3])], ["x"], mask=pa.array([False, True, False]))
    outer = pa.StructArray.from_arrays([inner], ["a"], mask=pa.array([False, False, True]))
    batch = pa.record_batch({"o": outer, "p.q": [1, 2, 3]})
    gathered = gather_columns(batch, [("o", "a", "x"), ("p.q",)])
    assert gathered["o", "a", "x"].to_pylist() == [1, None, None]
    assert gathered["p.q",].to_pylist() == [1, 2, 3]
    for path in [("z",), ("o", "z"), ("p.q", "z")]:
        with pytest.raises(ColumnNotFoundError):
            gather_columns(batch, [path])


@pytest.mark.parametrize(
    "predicate",
    [
        Unknown("like"),
        And((Literal(True), Unknown("like"))),
        Truth(Column(("i",))),
        Comparison(Column(("i",)), Operator.EQ, pa.scalar("1")),
        Comparison(Column(("t",)), Operator.EQ, pa.scalar(dt.datetime(2024, 1, 1))),
        In(Column(("i",)), pa.array(["1"])),
    ],
)
def test_what_cannot_be_evaluated(predicate: Predicate) -> None:
    with pytest.raises(InvalidInputError):
        ours(predicate)


def test_columns_must_fit() -> None:
    predicate = Truth(Column(("b",)))
    with pytest.raises(ColumnNotFoundError, match="b"):
        evaluate(predicate, {}, 1)
    with pytest.raises(InvalidInputError, match="2 rows, expected 1"):
        evaluate(predicate, {("b",): pa.array([True, False])}, 1)
