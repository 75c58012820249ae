"""Find conditions in which DataFusion treats NULL as false, such as an IN with a query below NOT.

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
    """Whether DataFusion would treat the NULL of an IN with a query as false, so that other rows match.

    The text is a condition, or a query with conditions.

    >>> has_negated_subquery("a NOT IN (SELECT b FROM t) AND c = 1")
    False
    >>> has_negated_subquery("a NOT IN (SELECT b FROM t) OR c = 1")
    True

    Returns False for text that sqlglot cannot parse. An IN in a SELECT list counts only in a subquery.
    """
    try:
        tree = parse_one(text, dialect=DataFusion)
    except SqlglotError:
        return False
    return any(_is_negated(each) for each in tree.find_all(exp.In) if each.args.get("query") is not None)


def _is_negated(node: exp.Expression) -> bool:
    """Whether a node in a condition has parents other than AND and OR, and is not a NOT IN joined by AND."""
    above: list[object] = []
    parent = node.parent
    while parent is not None and not isinstance(parent, _WITH_CONDITIONS):
        if not isinstance(parent, exp.Paren):
            above.append(parent)
        parent = parent.parent
    if isinstance(parent, exp.Query):
        return False  # a selected value, which DataFusion does not compute
    rest = above[1:] if above and isinstance(above[0], exp.Not) else above
    is_plain_not = len(rest) < len(above) and all(isinstance(each, exp.And) for each in rest)
    return not is_plain_not and not all(isinstance(each, exp.And | exp.Or) for each in above)
