"""What a statement's predicates let a scan leave out, beyond what DataFusion pushes into it."""

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

import lance_df
from lance_df.engine.pruning.ranges import cast_range, prefix_range, truncated_range
from lance_df.expr.nodes import And, Column, Comparison, Operator
from lance_df.expr.text import to_text

pytestmark = pytest.mark.engine

HINTS = {
    "s LIKE 'ab%'": "s >= 'ab' AND s < 'ac'",
    "s LIKE 'ab_d%'": "s >= 'ab' AND s < 'ac'",
    r"s LIKE 'a\_b%'": "s >= 'a' AND s < 'b'",
    "starts_with(s, 'ab')": "s >= 'ab' AND s < 'ac'",
    "left(s, 2) = 'ab'": "s >= 'ab' AND s < 'ac'",
    "ls LIKE 'y%'": "ls >= 'y' AND ls < 'z'",
    "dic LIKE 'r%'": "dic >= 'r' AND dic < 's'",
    "s LIKE 'a%' OR i = 3": "(s >= 'a' AND s < 'b') OR i = 3",
    "date_trunc('month', ts) = '2024-03-01'": "ts >= '2024-03-01 00:00:00' AND ts < '2024-04-01 00:00:00'",
    "cast(ts AS date) = '2024-03-03'": "ts >= '2024-03-03 00:00:00' AND ts < '2024-03-04 00:00:00'",
    "cast(ts AS date) >= '2024-03-03'": "ts >= '2024-03-03 00:00:00'",
    "st['a'] = 2": "st.a = 2",
    "st['t'] LIKE 'y%'": "st.t >= 'y' AND st.t < 'z'",
    "i >= 4.5": "i > 4",
    "i BETWEEN 2.5 AND 3.5": "i > 2 AND i <= 3",
    "d < 1.505": "d <= 1.51",
    "d IN (1.5, 1.25, 1, 2, 3)": "d IN (1.50, 1.25, 1.00, 2.00, 3.00)",
    "i IS NOT DISTINCT FROM 3": "i = 3",
    "day IN ('2024-01-01', '2024-01-02', '2024-01-03', '2024-01-04')": (
        "day IN ('2024-01-01', '2024-01-02', '2024-01-03', '2024-01-04')"
    ),
}


_NO_PARENTHESES = str.maketrans("", "", "()")


@pytest.fixture
def ctx(sample):
    session = lance_df.SessionContext()
    lance_df.register(session, "t", sample)
    return session


def hint(ctx, sample, query):
    ctx.explain_scan(query)
    found = sample.requests[-1].pruning_predicate
    return None if found is None else to_text(found)


@pytest.mark.parametrize(("condition", "expected"), HINTS.items())
def test_conditions(ctx, sample, condition, expected):
    found = hint(ctx, sample, f"SELECT id FROM t WHERE {condition}")
    assert found.translate(_NO_PARENTHESES) == expected.translate(_NO_PARENTHESES)


def test_conditions_through_names(ctx, sample):
    expected = "s >= 'ab' AND s < 'ac'"
    for query in (
        "WITH c AS (SELECT id AS n, s AS name FROM t) SELECT n FROM c WHERE name LIKE 'ab%'",
        "SELECT x.id FROM t x JOIN (VALUES (1)) v(k) ON x.id = v.k WHERE x.s LIKE 'ab%'",
        "SELECT count(*) FROM t GROUP BY s HAVING s LIKE 'ab%'",
        "SELECT id FROM t WHERE s LIKE 'ab%' ORDER BY id LIMIT 1",
    ):
        assert hint(ctx, sample, query) == expected


@pytest.mark.parametrize(
    "condition",
    ["s NOT LIKE 'ab%'", "s ILIKE 'ab%'", "s LIKE '%ab'", "upper(s) = 'AB'", "id + 1 = 5", "i = id",
     "b IS NOT TRUE", "NOT (b IS TRUE)", "NOT (b IS NOT DISTINCT FROM true)", "date_part('month', ts) = 3",
     "cast(i AS float) = 2.0", "abs(i) > 3", "date_trunc('month', ts) <> '2024-01-01'"],
)  # fmt: skip
def test_conditions_that_prove_nothing(ctx, sample, condition):
    ctx.explain_scan(f"SELECT id FROM t WHERE {condition}")
    found = sample.requests[-1].pruning_predicate
    assert found is None or "Unknown" in str(found)


def test_pruning_happens(ctx):
    report = ctx.explain_scan("SELECT id FROM t WHERE date_trunc('month', ts) = '2024-03-01'")
    assert report.pages.kept < report.pages.total


def comparisons(predicate):
    parts = predicate.operands if isinstance(predicate, And) else (predicate,)
    assert all(isinstance(part, Comparison) for part in parts)
    return [(str(part.operator), part.value.as_py()) for part in parts]


def test_prefixes_at_the_end_of_unicode():
    column = Column(("s",))
    assert comparisons(prefix_range(column, pa.string(), "a\U0010ffff")) == [
        (">=", "a\U0010ffff"),
        ("<", "b"),
    ]
    assert comparisons(prefix_range(column, pa.string(), "\U0010ffff")) == [(">=", "\U0010ffff")]
    assert comparisons(prefix_range(column, pa.string(), "\ud7ff")) == [(">=", "\ud7ff"), ("<", "\ue000")]
    assert prefix_range(column, pa.string(), "") is None
    assert prefix_range(column, pa.int64(), "a") is None


def test_decimals_are_rounded_outwards():
    column, kind = Column(("d",)), pa.decimal128(10, 2)
    for operator, value, expected in [
        (Operator.EQ, "1.505", [(">=", Decimal("1.50")), ("<=", Decimal("1.51"))]),
        (Operator.LT, "-1.505", [("<=", Decimal("-1.50"))]),
        (Operator.GT, "-1.505", [(">=", Decimal("-1.51"))]),
    ]:
        scalar = pa.scalar(Decimal(value), pa.decimal128(30, 15))
        assert comparisons(cast_range(column, kind, operator, scalar, is_cast=True)) == expected
    huge = pa.scalar(Decimal("1e20"), pa.decimal128(38, 15))
    assert cast_range(column, kind, Operator.LT, huge, is_cast=True) is None
    assert cast_range(column, kind, Operator.LT, pa.scalar(float("nan")), is_cast=True) is None


def test_periods_before_1970_and_in_zones_are_widened():
    column = Column(("ts",))
    value = pa.scalar(dt.datetime(1969, 3, 1), pa.timestamp("us"))
    found = comparisons(truncated_range(column, pa.timestamp("us"), "month", Operator.EQ, value))
    assert [each[1] for each in found] == [dt.datetime(1969, 2, 28), dt.datetime(1969, 4, 2)]
    assert truncated_range(column, pa.timestamp("us"), "fortnight", Operator.LT, value) is None
