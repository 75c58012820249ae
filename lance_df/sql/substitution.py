"""Put literals in the place of ``col0``, ``col1`` … of a partition expression.

Spec: partitioning, appendix D.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from sqlglot.errors import TokenError
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from lance_df.errors import InvalidInputError
from lance_df.sql.dialect import tokenize
from lance_df.sql.splice import Edit, splice

_PLACEHOLDER: Final = re.compile(r"col(\d+)", re.IGNORECASE)


def substituted(expression: str, literals: Sequence[str]) -> str:
    """Return an expression with SQL texts instead of its columns.

    >>> substituted("date_part('year', col0)", ["DATE '2025-12-10'"])
    "date_part('year', DATE '2025-12-10')"

    Raises
    ------
    InvalidInputError
        A string in it does not end, or it has more columns than there are texts.
    """
    try:
        tokens = tokenize(expression)
    except TokenError as err:
        raise InvalidInputError(f"the expression {expression!r} is malformed: {err}") from err
    return splice(expression, _edits(expression, tokens, literals))


def _edits(expression: str, tokens: Sequence[Token], literals: Sequence[str]) -> Iterator[Edit]:
    for token in tokens:
        found = _PLACEHOLDER.fullmatch(token.text)
        if found is None or token.token_type is TokenType.STRING:
            continue
        number = int(found[1])
        if number >= len(literals):
            raise InvalidInputError(f"the expression {expression!r} has no value for {token.text}")
        yield Edit(token.start, token.end + 1, literals[number])
