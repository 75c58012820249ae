"""Predicates: a typed tree, where it comes from, how it is evaluated, and what bounds say about it."""

from lance_df.expr.bounds import Match, ZoneBounds, classify
from lance_df.expr.evaluate import evaluate, gather_columns
from lance_df.expr.from_pyarrow import to_predicate
from lance_df.expr.literals import compare, is_in
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

__all__ = [
    "And",
    "Column",
    "Comparison",
    "In",
    "IsNull",
    "Literal",
    "Match",
    "Not",
    "Operator",
    "Or",
    "Predicate",
    "Truth",
    "Unknown",
    "ZoneBounds",
    "classify",
    "columns",
    "compare",
    "conjuncts",
    "evaluate",
    "gather_columns",
    "has_unknown",
    "is_in",
    "simplify",
    "to_predicate",
    "to_text",
]
