"""Limits on the size of stored expressions and on the size of the values that they compute.

Opening a namespace evaluates expressions that others wrote. The length of the expressions is limited, and so
are the results of functions that repeat or pad a value: ``repeat('x', 1000000000)`` needs a gigabyte for each
row.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from sqlglot.tokens import TokenType  # type: ignore[attr-defined]

from lance_df.errors import InvalidInputError
from lance_df.sql.dialect import STRINGS
from lance_df.sql.nesting import bounded

if TYPE_CHECKING:
    from sqlglot.tokens import Token  # type: ignore[attr-defined]

MAX_CHARACTERS: Final = 20_000
MAX_TOKENS: Final = 2_000
MAX_GROWTH: Final = 10_000
"""The maximum factor by which all calls together may enlarge a value, as if they were nested."""

# the arguments that specify a count or a length; for ranges, all arguments
_COUNTS: Final = {
    **dict.fromkeys(("repeat", "lpad", "rpad"), slice(1, 2)),
    **dict.fromkeys(("array_repeat", "list_repeat", "array_resize", "list_resize"), slice(1, 2)),
    **dict.fromkeys(("range", "generate_series"), slice(None)),
}
_REPLACES: Final = frozenset({"replace", "regexp_replace"})
_GROWTH_OF_UNKNOWN_TEXT: Final = 100
_GROWTH_OF_ENCODE: Final = 2
_OPENING: Final = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET})
_CLOSING: Final = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET})
_FIXED_SIZE: Final = re.compile(r"fixedsize\w*\s*\(\s*(\d+)", re.IGNORECASE)


def check_text_size(expression: str) -> None:
    """Check the size of an expression's text before it is parsed.

    Raises
    ------
    InvalidInputError
        The expression is not text, is too long, or is nested too deeply.
    """
    if not isinstance(expression, str):
        raise InvalidInputError(f"an expression must be a string, got {type(expression).__name__}")
    if len(expression) > MAX_CHARACTERS:
        raise InvalidInputError(
            f"the expression {expression[:60]!r}… has {len(expression):,} characters; at most "
            f"{MAX_CHARACTERS:,} are supported"
        )
    bounded(expression)


def check_growth(expression: str, tokens: list[Token]) -> None:
    """Check how much an expression may enlarge a value.

    Raises
    ------
    InvalidInputError
        The expression has too many tokens, a count that is not a small number, or calls that enlarge a value
        too much.
    """
    if len(tokens) > MAX_TOKENS:
        raise InvalidInputError(
            f"the expression {expression[:60]!r}… has {len(tokens):,} parts; at most {MAX_TOKENS:,} are "
            "supported"
        )
    growth = 1
    for index, token in enumerate(tokens):
        growth *= _growth(tokens, index, token)
        if growth > MAX_GROWTH:
            raise InvalidInputError(
                f"the expression {expression[:200]!r} may enlarge a value more than {MAX_GROWTH:,} times; "
                "use small numbers as counts"
            )


def _growth(tokens: list[Token], index: int, token: Token) -> int:
    if token.token_type in STRINGS:
        return max([1, *(int(size[:12]) for size in _FIXED_SIZE.findall(token.text))])
    name = token.text.lower()
    if index + 1 >= len(tokens) or tokens[index + 1].token_type is not TokenType.L_PAREN:
        return 1
    if name in _COUNTS:
        sizes = [_count(argument) for argument in _arguments(tokens, index + 2)[_COUNTS[name]]]
        return max([1, *sizes])
    if name in _REPLACES:
        replacement = _arguments(tokens, index + 2)[2:3]
        return max([1, *map(_length, replacement)])
    return _GROWTH_OF_ENCODE if name == "encode" else 1


def _count(argument: list[Token]) -> int:
    if len(argument) == 1 and argument[0].token_type is TokenType.NUMBER and argument[0].text.isdecimal():
        return int(argument[0].text[:12])
    return MAX_GROWTH + 1


def _length(argument: list[Token]) -> int:
    if len(argument) == 1 and argument[0].token_type is TokenType.STRING:
        return len(argument[0].text)
    return _GROWTH_OF_UNKNOWN_TEXT


def _arguments(tokens: list[Token], start: int) -> list[list[Token]]:
    """Return the arguments of a call. ``start`` is the index after the opening parenthesis."""
    arguments: list[list[Token]] = [[]]
    depth = 0
    for token in tokens[start:]:
        depth += (token.token_type in _OPENING) - (token.token_type in _CLOSING)
        if depth < 0:
            break
        if token.token_type is TokenType.COMMA and not depth:
            arguments.append([])
        else:
            arguments[-1].append(token)
    return arguments
