"""Queries that begin with FROM."""

from __future__ import annotations

from sqlglot.errors import TokenError

from lance_df.sql.dialect import tokenize


def with_select(text: str) -> str:
    """Return a statement that begins with FROM, and selects nothing, as one that selects all columns.

    >>> with_select("FROM 'a.csv' LIMIT 1"), with_select("FROM t SELECT a")
    ("SELECT * FROM 'a.csv' LIMIT 1", 'FROM t SELECT a')
    """
    if "from" not in text.lower():
        return text
    try:
        tokens = tokenize(text)
    except TokenError:
        return text  # DataFusion says what is wrong with it
    if not tokens or tokens[0].text.upper() != "FROM":
        return text
    depth = 0
    for token in tokens:
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        if not depth and token.text.upper() == "SELECT":
            return text
    start = tokens[0].start
    return f"{text[:start]}SELECT * {text[start:]}"
