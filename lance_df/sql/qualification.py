"""Qualify the columns of an expression if two tables have columns with the same names."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from lance_df.sql.dialect import DataFusion
from lance_df.sql.splice import Edit, quote_identifier, splice

_BEFORE: Final = "SELECT (\n"


def qualified(expression: str, owner: str, names: Collection[str]) -> str:
    """Return an expression in which the unqualified columns among ``names`` are qualified with ``owner``.

    Columns in subqueries and lambdas stay unchanged, and so does a text that the parser does not understand.

    >>> qualified("a + s.a", "t", ["a"])
    '"t".a + s.a'
    """
    before = f"{quote_identifier(owner)}."
    return splice(
        expression, [Edit(start, start, before) for name, start in _columns(expression) if name in names]
    )


def _columns(expression: str) -> list[tuple[str, int]]:
    """Return the names of unqualified columns, with their positions in the text."""
    try:
        tree = parse_one(f"{_BEFORE}{expression}\n)", dialect=DataFusion)
    except SqlglotError:
        return []
    columns = []
    for column in tree.find_all(exp.Column):
        name = column.this
        if column.args.get("table") is not None or not isinstance(name, exp.Identifier):
            continue
        if column.find_ancestor(exp.Query, exp.Lambda) is tree:
            text = name.name if name.args.get("quoted") else name.name.lower()
            columns.append((text, name.meta["start"] - len(_BEFORE)))
    return columns
