"""Partition values of literals are those of rows, whether literals are substituted or bound as columns."""

import datetime as dt

import pyarrow as pa
import pytest
from test_pruning import column_of, kept_values

from lance_df import partition
from lance_df.compute.evaluator import ExpressionEvaluator
from lance_df.expr.literals import compare, is_in
from lance_df.expr.nodes import Column, Operator
from lance_df.namespace.spec.literal_values import values_of_literals
from lance_df.namespace.spec.namespace_schema import NamespaceSchema
from lance_df.namespace.spec.partition_by import resolve_all
from lance_df.namespace.spec.partition_values import partition_values

pytestmark = pytest.mark.engine

COLUMNS = {
    "i": pa.array([-5, 0, 7, 2**62, None]),
    "b": pa.array([-128, -1, 0, 127, None], pa.int8()),
    "f": pa.array([-0.0, 0.5, float("nan"), float("-inf"), None], from_pandas=False),
    "s": pa.array(["", "it's", "a/*b", "ünï \U0001f600", None]),
    "d": pa.array([dt.date(1969, 12, 31), dt.date(2024, 2, 29), dt.date(9999, 1, 1), None, None]),
    "x": pa.array([b"", b"\x00'", b"ab", b"\xff", None]),
}
EXPRESSIONS = {
    "upper(left(col0, 1)) || coalesce(col0, 'none')": ["s"],
    "-col0 % 7": ["i"],
    "col0 / 5": ["b"],
    "CASE WHEN col0 > 0 THEN 'above' WHEN col0 <= 0 THEN 'not' ELSE 'none' END": ["f"],
    "CASE WHEN col0 > col1 THEN col0 ELSE CAST(col1 AS BIGINT) END": ["i", "b"],
    "abs(murmur3(lower(col0))) % 8": ["s"],
    "date_part('doy', col0)": ["d"],
    "CASE WHEN col0 = X'6162' THEN 'ab' ELSE 'other' END": ["x"],
}


@pytest.mark.parametrize("expression", EXPRESSIONS)
@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_values(expression, count):
    names = EXPRESSIONS[expression]
    schema = NamespaceSchema.create(pa.table(COLUMNS).schema)
    (field,) = resolve_all([partition.expression(expression, names, field_id="value")], schema)
    for start in range(6 - count):
        sources = [COLUMNS[name].slice(start, count) for name in names]
        assert values_of_literals(field, sources).equals(partition_values(field, sources))
    negative = pa.array([-float("nan")])
    if names == ["f"]:
        assert values_of_literals(field, [negative]).equals(partition_values(field, [negative]))


def test_pruning_substitutes_few_literals(monkeypatch):
    evaluated = []
    constants = ExpressionEvaluator.constants
    monkeypatch.setattr(
        ExpressionEvaluator,
        "constants",
        lambda self, texts: evaluated.extend(texts) or constants(self, texts),
    )
    spec = [partition.expression("upper(left(col0, 1))", ["s"])]
    rows = column_of("s", ["abc", "xyz", None])
    assert kept_values(spec, rows, compare(Column(("s",)), pa.string(), Operator.EQ, pa.scalar("abc"))) == [
        "A"
    ]
    assert evaluated == ["upper(left('abc', 1))"]
    many = pa.array([f"x{number}" for number in range(100)])
    assert kept_values(spec, rows, is_in(Column(("s",)), pa.string(), many)) == ["X"]
    assert len(evaluated) == 1
