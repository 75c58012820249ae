"""SQL filters of datasets: expressions in a position for conditions, as pylance reads them.

In pylance, a call of ``regexp_match`` in the position of a condition is true if it matches. DataFusion's
function returns the matches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot.errors import TokenError
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from lance_df.errors import InvalidInputError
from lance_df.sql.dialect import tokenize
from lance_df.sql.expressions import to_datafusion
from lance_df.sql.splice import Edit, splice

_JOINS = frozenset({TokenType.AND, TokenType.OR})
_NAMES = frozenset({TokenType.VAR, TokenType.IDENTIFIER})


def condition_to_datafusion(condition: str, columns: Sequence[str]) -> str:
    """Return a filter as DataFusion reads it; see `lance_df.sql.expressions.to_datafusion`.

    >>> condition_to_datafusion("NOT regexp_match(s, 'a.') and x > 1", ["s", "x"])
    'NOT (regexp_match("s", \'a.\') IS NOT NULL) and "x" > 1'

    Raises
    ------
    InvalidInputError
        ``condition`` is not a single expression, or contains ``&&``.
    """
    text = to_datafusion(condition, columns)
    try:
        tokens = tokenize(text)
    except TokenError as err:
        raise InvalidInputError(f"the filter {condition!r} is malformed: {err}") from err
    if any(token.token_type is TokenType.DAMP for token in tokens):
        raise InvalidInputError(f"the filter {condition!r} has the operator &&, which is not SQL; use AND")
    return splice(text, list(_matches_as_conditions(text, tokens)))


def _matches_as_conditions(text: str, tokens: list[Token]) -> Iterator[Edit]:
    conditions = _conditions(tokens)
    for start in conditions:
        if tokens[start].text.lower() != "regexp_match" or tokens[start].token_type not in _NAMES:
            continue
        stop = _closing(tokens, start + 1)
        following = tokens[stop + 1].token_type if stop is not None and stop + 1 < len(tokens) else None
        if stop is not None and (following in _JOINS or following in (None, TokenType.R_PAREN)):
            call = text[tokens[start].start : tokens[stop].end + 1]
            yield Edit(tokens[start].start, tokens[stop].end + 1, f"({call} IS NOT NULL)")


def _conditions(tokens: list[Token]) -> Iterator[int]:
    """Yield the starts of conditions: at the beginning, after AND, OR and NOT, and in parentheses there."""
    begins, between = True, False
    grouping: list[bool] = []
    for number, token in enumerate(tokens):
        kind = token.token_type
        if kind is TokenType.L_PAREN:
            grouping.append(begins)
            continue
        if begins and kind is not TokenType.NOT:
            yield number
        if kind is TokenType.R_PAREN and grouping:
            grouping.pop()
        if kind is TokenType.BETWEEN:
            between = True
        is_join = kind in _JOINS and not (between and kind is TokenType.AND)
        between = between and kind is not TokenType.AND
        begins = all(grouping) and (is_join or kind is TokenType.NOT)


def _closing(tokens: list[Token], opening: int) -> int | None:
    """Return the index of the parenthesis that closes the one at ``opening``; None if there is none."""
    depth = 0
    for number in range(opening, len(tokens)):
        depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(tokens[number].token_type, 0)
        if depth <= 0:
            return number if number > opening else None
    return None
