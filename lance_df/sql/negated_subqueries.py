"""Find conditions for which DataFusion treats NULL as false: IN with a query below NOT.

DataFusion joins the rows with those of the query and keeps a flag for matches, which is true or false. NOT is
therefore true where SQL has NULL: if the value is NULL, or if nothing matches and the query returns a NULL. A
``NOT IN`` that AND joins to the other conditions becomes an anti join instead, which handles NULL correctly.
"""

from __future__ import annotations

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from lance_df.sql.dialect import DataFusion

_WITH_CONDITIONS = exp.Where | exp.Having | exp.Join | exp.Query


def has_negated_subquery(text: str) -> bool:
    """Whether a condition, or one in a query, would take the NULL of an IN with a query for false.

    That changes which rows match.

    >>> has_negated_subquery("a NOT IN (SELECT b FROM t) AND c = 1")
    False
    >>> has_negated_subquery("a NOT IN (SELECT b FROM t) OR c = 1")
    True

    A text that sqlglot cannot parse has none. What a query selects has none but within its subqueries.
    """
    try:
        tree = parse_one(text, dialect=DataFusion)
    except SqlglotError:
        return False
    return any(_is_negated(each) for each in tree.find_all(exp.In) if each.args.get("query") is not None)


def _is_negated(node: exp.Expression) -> bool:
    """Whether anything but AND and OR is above a node, within its condition, besides a NOT that AND joins."""
    above: list[object] = []
    parent = node.parent
    while parent is not None and not isinstance(parent, _WITH_CONDITIONS):
        if not isinstance(parent, exp.Paren):
            above.append(parent)
        parent = parent.parent
    if isinstance(parent, exp.Query):
        return False  # a value, which DataFusion does not compute
    rest = above[1:] if above and isinstance(above[0], exp.Not) else above
    is_plain_not = len(rest) < len(above) and all(isinstance(each, exp.And) for each in rest)
    return not is_plain_not and not all(isinstance(each, exp.And | exp.Or) for each in above)
