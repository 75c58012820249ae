"""Placeholders in a statement, such as ``$1`` and ``$name``."""

from __future__ import annotations

import itertools

from sqlglot.tokens import TokenType  # type: ignore[attr-defined]

from lance_df.sql.dialect import tokenize
from lance_df.sql.splice import Edit, splice


def with_untyped_placeholders(text: str) -> str:
    """Return a text whose placeholders get their types from their values instead of from their context.

    DataFusion assumes that the value of a placeholder has the type of the column that it is inserted into,
    and does not cast it.

    >>> with_untyped_placeholders("VALUES ($1, '$2')")
    "VALUES (coalesce($1), '$2')"
    """
    edits = []
    for dollar, name in itertools.pairwise(tokenize(text)):
        if dollar.token_type is TokenType.PARAMETER and name.start == dollar.end + 1:
            whole = text[dollar.start : name.end + 1]
            edits.append(Edit(dollar.start, name.end + 1, f"coalesce({whole})"))
    return splice(text, edits)
