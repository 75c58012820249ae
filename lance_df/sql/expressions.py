"""Filters and computed columns of datasets: single expressions, with names as Lance writes them.

Observed with pylance 14: a name without quotes means the column of exactly that name, else the one that
differs in case only; back-ticks mean exactly what they hold; double quotes are strings; ``a.b`` is the field
``b`` of the struct ``a``; the type ``datetime`` is ``timestamp``. DataFusion reads names otherwise, so they
are put in its terms here, token by token.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from sqlglot.errors import TokenError
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from lance_df.errors import InvalidInputError
from lance_df.sql.dialect import STRINGS, tokenize
from lance_df.sql.nesting import bounded
from lance_df.sql.splice import Edit, quote_identifier, quote_string, splice

_VALUES = STRINGS | {TokenType.NUMBER}
# words that stay what they are although a column may have such a name; back-ticks make them names
_RESERVED = frozenset(
    [
        "AND",
        "OR",
        "NOT",
        "IN",
        "IS",
        "NULL",
        "TRUE",
        "FALSE",
        "LIKE",
        "ILIKE",
        "SIMILAR",
        "TO",
        "ESCAPE",
        "BETWEEN",
        "CASE",
        "WHEN",
        "THEN",
        "ELSE",
        "END",
        "CAST",
        "TRY_CAST",
        "AS",
        "DISTINCT",
        "FROM",
        "UNKNOWN",
        "EXISTS",
        "ANY",
        "ALL",
        "AT",
    ]
)
_CLOSING = {TokenType.R_PAREN: TokenType.L_PAREN, TokenType.R_BRACKET: TokenType.L_BRACKET}


def to_datafusion(expression: str, columns: Sequence[str]) -> str:
    """Return the expression with the names of ``columns`` as DataFusion reads them.

    >>> to_datafusion('Fare > 10 and `Trip id` = "x" and st.a = 1', ["fare", "Trip id", "st"])
    '"fare" > 10 and "Trip id" = \\'x\\' and "st"[\\'a\\'] = 1'

    Raises
    ------
    InvalidInputError
        It is empty, or no single expression: a string does not end, parentheses do not match, or something
        follows a ``;``; or it is too deep, see `lance_df.sql.nesting`.
    """
    try:
        tokens = tokenize(expression)
    except TokenError as err:
        raise InvalidInputError(
            f"the expression {expression!r} is malformed: a quote or a comment in it does not end"
        ) from err
    while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
        expression = expression[: tokens.pop().start]
    _check_shape(expression, tokens)
    return bounded(splice(expression, _edits(expression, tokens, columns)))


def with_quoted_columns(expression: str, columns: Collection[str]) -> str:
    """Return the expression with double quotes around the names of ``columns`` as back-ticks.

    For expressions over namespaces, which are SQL: what is in double quotes there is a column if one has
    exactly that name. Otherwise it is text, as Lance reads it.

    >>> with_quoted_columns('"Trip id" = "x"', ["Trip id"])
    '`Trip id` = "x"'

    Raises
    ------
    InvalidInputError
        It is no text.
    """
    try:
        tokens = tokenize(expression)
    except TokenError:
        return expression  # who evaluates it says what is wrong
    return splice(
        expression,
        [
            Edit(token.start, token.end + 1, f"`{token.text}`")
            for token in tokens
            if token.token_type is TokenType.IDENTIFIER
            and expression[token.start] == '"'
            and token.text in columns
            and "`" not in token.text
        ],
    )


def _check_shape(expression: str, tokens: list[Token]) -> None:
    opened: list[TokenType] = []
    for token in tokens:
        kind = token.token_type
        if kind in _CLOSING.values():
            opened.append(kind)
        elif kind in _CLOSING and (not opened or opened.pop() is not _CLOSING[kind]):
            raise InvalidInputError(f"the parentheses in {expression!r} do not match")
        elif kind is TokenType.SEMICOLON:
            raise InvalidInputError(f"one expression is expected, but {expression!r} goes on after a ;")
    if opened or not tokens:
        problem = "the parentheses do not match" if opened else "there is nothing in it"
        raise InvalidInputError(f"{expression!r} is no expression: {problem}")


def _edits(expression: str, tokens: list[Token], columns: Sequence[str]) -> Iterator[Edit]:
    index = 0
    while index < len(tokens):
        token = tokens[index]
        index += 1
        if token.token_type is TokenType.IDENTIFIER and expression[token.start] == '"':
            yield Edit(token.start, token.end + 1, quote_string(token.text))
            continue
        if token.token_type is TokenType.DATETIME and index > 1 and _is_type(tokens[index - 2]):
            yield Edit(token.start, token.end + 1, "TIMESTAMP")
            continue
        name = _column_name(tokens, index - 1, columns)
        if name is None:
            continue
        yield Edit(token.start, token.end + 1, quote_identifier(name))
        while index + 1 < len(tokens) and tokens[index].token_type is TokenType.DOT:
            field = tokens[index + 1]
            yield Edit(tokens[index].start, field.end + 1, f"[{quote_string(field.text)}]")
            index += 2


def _is_type(previous: Token) -> bool:
    """Whether a type follows, as in ``CAST(x AS DATETIME)``."""
    return previous.token_type in (TokenType.ALIAS, TokenType.DCOLON)


def _column_name(tokens: list[Token], index: int, columns: Sequence[str]) -> str | None:
    """Return the column that a token names, if it is a name."""
    token = tokens[index]
    text = token.text
    if token.token_type is TokenType.IDENTIFIER:
        return text
    is_word = token.token_type not in _VALUES and text.isidentifier()
    if not is_word or text.upper() in _RESERVED:
        return None
    following = tokens[index + 1].token_type if index + 1 < len(tokens) else None
    previous = tokens[index - 1].token_type if index else None
    if following in (TokenType.L_PAREN, TokenType.STRING):  # a function, or a type as in DATE '…'
        return None
    if previous in (TokenType.ALIAS, TokenType.DCOLON, TokenType.PARAMETER):  # a type, or a parameter
        return None
    before = tokens[index - 2].text.upper() if index > 1 else ""
    if before == "INTERVAL" and previous in (TokenType.STRING, TokenType.NUMBER):  # as in INTERVAL '1' DAY
        return None
    if before == "EXTRACT" and following is TokenType.FROM:
        return None
    if text in columns:
        return text
    matches = [name for name in columns if name.lower() == text.lower()]
    return matches[0] if len(matches) == 1 else None
