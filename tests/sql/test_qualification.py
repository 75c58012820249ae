"""Columns that no table is named for are those of one side; all else in an expression stays as it is."""

from __future__ import annotations

import pytest

from lance_df.sql.qualification import qualified


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("a", '"t 1".a'),
        ("A + other.a", '"t 1".A + other.a'),
        ('"a" || \'a\' || "A"', '"t 1"."a" || \'a\' || "A"'),
        ("upper(a) = b AND c > a -- a", 'upper("t 1".a) = "t 1".b AND c > "t 1".a -- a'),
        ("CASE WHEN a IS NULL THEN 1 ELSE b END", 'CASE WHEN "t 1".a IS NULL THEN 1 ELSE "t 1".b END'),
        ("a IN (SELECT a FROM u WHERE b > 1)", '"t 1".a IN (SELECT a FROM u WHERE b > 1)'),
        ("EXISTS (SELECT 1 FROM u WHERE a = 1)", "EXISTS (SELECT 1 FROM u WHERE a = 1)"),
        ("array_transform(b, a -> a + 1)", 'array_transform("t 1".b, a -> a + 1)'),
        ("a[1] + b['x']", '"t 1".a[1] + "t 1".b[\'x\']'),
        ("DATE '2024-01-01' > a AND true", "DATE '2024-01-01' > \"t 1\".a AND true"),
        ("a +", "a +"),
        ("", ""),
    ],
)
def test_qualified(expression: str, expected: str) -> None:
    assert qualified(expression, "t 1", ["a", "b"]) == expected
