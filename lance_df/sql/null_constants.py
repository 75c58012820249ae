"""Find expressions that are NULL with a type."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.errors import SqlglotError

from lance_df.sql.dialect import DataFusion


def is_typed_null(expression: str) -> bool:
    """Whether an expression only casts NULL to a type.

    >>> is_typed_null("CAST(NULL AS INT)"), is_typed_null("NULL"), is_typed_null("CAST(a AS INT)")
    (True, False, False)
    """
    try:
        (tree,) = DataFusion().parse(expression)
    except (SqlglotError, RecursionError, ValueError):
        return False
    has_type = False
    while isinstance(tree, exp.Paren | exp.Cast):
        has_type |= isinstance(tree, exp.Cast)
        tree = tree.this
    return has_type and isinstance(tree, exp.Null)
