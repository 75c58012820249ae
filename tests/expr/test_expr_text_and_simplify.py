"""Predicates as text, their parts, and what simplification leaves."""

from __future__ import annotations

import datetime as dt
import decimal

import pyarrow as pa
import pytest

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
from lance_df.expr.walk import columns, conjuncts, has_unknown

A, B = Column(("a",)), Truth(Column(("b",)))
ONE = Comparison(A, Operator.EQ, pa.scalar(1))
TWO = Comparison(A, Operator.LT, pa.scalar(2))
NULL, TRUE, FALSE = Literal(None), Literal(True), Literal(False)


@pytest.mark.parametrize(
    ("predicate", "text"),
    [
        (ONE, "a = 1"),
        (Comparison(Column(("a", "b.c", "D")), Operator.NE, pa.scalar("x'y")), "a.\"b.c\".\"D\" <> 'x''y'"),
        (Comparison(A, Operator.GE, pa.scalar(b"\0\xff")), "a >= x'00ff'"),
        (Comparison(A, Operator.EQ, pa.scalar(decimal.Decimal("1.50"))), "a = 1.50"),
        (Comparison(A, Operator.EQ, pa.scalar(dt.date(2024, 1, 2))), "a = '2024-01-02'"),
        (Comparison(A, Operator.EQ, pa.scalar(True)), "a = TRUE"),
        (Comparison(A, Operator.EQ, pa.scalar("x" * 99)), f"a = '{'x' * 59}…'"),
        (Comparison(A, Operator.EQ, pa.scalar("x\ny")), "a = 'x\\ny'"),
        (In(A, pa.array([1, 2]), has_null=True), "a IN (1, 2, NULL)"),
        (Not(In(A, pa.array(range(9)))), "a NOT IN (0, 1, 2, 3, 4, 5, … 9 values)"),
        (In(A, pa.array([], pa.int64())), "a IN ()"),
        (And((ONE, Or((TWO, B)))), "a = 1 AND (a < 2 OR b)"),
        (Or((And((ONE, B)), TWO)), "(a = 1 AND b) OR a < 2"),
        (Not(And((ONE, B))), "NOT (a = 1 AND b)"),
        (Not(B), "NOT b"),
        (IsNull(A), "a IS NULL"),
        (Not(IsNull(A)), "a IS NOT NULL"),
        (IsNull(ONE), "(a = 1) IS NULL"),
        (And(()), "TRUE"),
        (Or(()), "FALSE"),
        (NULL, "NULL"),
        (Unknown("f(x) LIKE 'a'"), "f(x) LIKE 'a'"),
        (
            Comparison(A, Operator.EQ, pa.scalar(2**62, pa.timestamp("ns"))),
            "a = '2116-02-20 23:53:38.427387904'",
        ),
        # the first moment after the last that Python knows
        (
            Comparison(A, Operator.LT, pa.scalar(253402300800, pa.timestamp("s"))),
            "a < '10000-01-01 00:00:00'",
        ),
        (Comparison(A, Operator.EQ, pa.scalar(2**62, pa.duration("s"))), f"a = '{2**62}'"),
    ],
)
def test_text(predicate: Predicate, text: str) -> None:
    assert to_text(predicate) == text


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        (Not(ONE), Comparison(A, Operator.NE, pa.scalar(1))),
        (Not(TWO), Comparison(A, Operator.GE, pa.scalar(2))),
        (Not(Not(ONE)), ONE),
        (Not(And((ONE, B))), Or((Comparison(A, Operator.NE, pa.scalar(1)), Not(B)))),
        (And((ONE, And((TWO, TRUE)), TRUE)), And((ONE, TWO))),
        (And((ONE, FALSE)), FALSE),
        (And((ONE, NULL)), And((ONE, NULL))),
        (And((NULL, NULL)), NULL),
        (And((NULL, FALSE)), FALSE),
        (Or((ONE, TRUE)), TRUE),
        (Or((FALSE, ONE)), ONE),
        (Not(NULL), NULL),
        (And(()), TRUE),
        (Or(()), FALSE),
        (IsNull(ONE), IsNull(A)),
        (IsNull(Not(B)), IsNull(Column(("b",)))),
        (IsNull(IsNull(A)), FALSE),
        (Not(IsNull(IsNull(A))), TRUE),
        (IsNull(NULL), TRUE),
        (Not(Unknown("x")), Not(Unknown("x"))),
    ],
    ids=to_text,
)
def test_simplify(predicate: Predicate, expected: Predicate) -> None:
    assert simplify(predicate) == expected


def test_parts() -> None:
    predicate = And((ONE, And((Or((TWO, Unknown("x"))), Literal(True))), IsNull(Column(("s", "t")))))
    assert columns(predicate) == {("a",), ("s", "t")}
    assert has_unknown(predicate)
    assert not has_unknown(And((ONE, IsNull(A), IsNull(ONE))))
    assert conjuncts(predicate) == (ONE, Or((TWO, Unknown("x"))), IsNull(Column(("s", "t"))))
    assert conjuncts(Literal(True)) == ()
