"""Find calls of given functions in a statement."""

from __future__ import annotations

from collections.abc import Collection

from sqlglot.errors import TokenError
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from lance_df.records import dataclass
from lance_df.sql.dialect import tokenize

_OPENING = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE}
_CLOSING = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE}


@dataclass(frozen=True, slots=True)
class Span:
    """``text[start:stop]``."""

    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Call:
    """One call: the function in lower case, and the spans of its name, the whole call and its arguments."""

    function: str
    name: Span
    whole: Span
    arguments: tuple[Span, ...]


def find_calls(text: str, functions: Collection[str]) -> list[Call]:
    """Return the calls of ``functions`` in the order of the text, including nested calls.

    Incomplete calls and quoted names are left out. A text with an unterminated string or comment has no
    calls.

    >>> [call.arguments for call in find_calls("select f(a, (1, 2))", {"f"})]
    [(Span(start=9, stop=10), Span(start=12, stop=18))]
    """
    try:
        tokens = tokenize(text)
    except TokenError:
        return []
    calls = []
    for index, token in enumerate(tokens[:-1]):
        is_name = token.token_type is not TokenType.IDENTIFIER and token.text.lower() in functions
        if is_name and tokens[index + 1].token_type is TokenType.L_PAREN:
            call = _call(tokens, index)
            calls += [call] if call is not None else []
    return calls


def _call(tokens: list[Token], index: int) -> Call | None:
    arguments: list[Span] = []
    depth = 0
    first = index + 2
    for position in range(index + 1, len(tokens)):
        kind = tokens[position].token_type
        depth += (kind in _OPENING) - (kind in _CLOSING)
        ends_argument = (kind is TokenType.COMMA and depth == 1) or depth == 0
        if ends_argument and position > first:
            arguments.append(Span(tokens[first].start, tokens[position - 1].end + 1))
        if ends_argument:
            first = position + 1
        if depth == 0:
            name = Span(tokens[index].start, tokens[index].end + 1)
            whole = Span(name.start, tokens[position].end + 1)
            return Call(tokens[index].text.lower(), name, whole, tuple(arguments))
    return None
