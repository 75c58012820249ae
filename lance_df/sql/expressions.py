"""Filters and computed columns of datasets: single expressions with column names as Lance writes them.

Observed with pylance 14: an unquoted name refers to the column with exactly that name, or else to the one
that differs only in case. Names in back-ticks are exact. Double quotes delimit strings. ``a.b`` is the field
``b`` of the struct ``a``. The type ``datetime`` is ``timestamp``. DataFusion reads names differently, so this
module translates them, token by token.
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
# words that stay keywords even if a column has such a name; in back-ticks they are names
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
        The expression is empty, is not a single expression (unterminated strings, unbalanced parentheses, or
        text after a ``;``), or is nested too deeply, see `lance_df.sql.nesting`.
    """
    try:
        tokens = tokenize(expression)
    except TokenError as err:
        raise InvalidInputError(
            f"the expression {expression!r} is malformed: a quote or a comment is not closed"
        ) from err
    while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
        expression = expression[: tokens.pop().start]
    _check_shape(expression, tokens)
    return bounded(splice(expression, _edits(expression, tokens, columns)))


def with_quoted_columns(expression: str, columns: Collection[str]) -> str:
    """Return the expression with back-ticks in place of double quotes around the names of ``columns``.

    This is for expressions over namespaces, which are SQL. Text in double quotes is a column if one has
    exactly that name. Otherwise it is a string, as Lance reads it.

    >>> with_quoted_columns('"Trip id" = "x"', ["Trip id"])
    '`Trip id` = "x"'

    Raises
    ------
    InvalidInputError
        The expression is not text.
    """
    try:
        tokens = tokenize(expression)
    except TokenError:
        return expression  # the evaluation reports the error
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
            raise InvalidInputError(f"expected one expression, but {expression!r} goes on after a ;")
    if opened or not tokens:
        problem = "the parentheses do not match" if opened else "it is empty"
        raise InvalidInputError(f"{expression!r} is not an expression: {problem}")


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
    """Whether the next token is a type, as in ``CAST(x AS DATETIME)``."""
    return previous.token_type in (TokenType.ALIAS, TokenType.DCOLON)


def _column_name(tokens: list[Token], index: int, columns: Sequence[str]) -> str | None:
    """Return the column that a token refers to; None if the token is not a column name."""
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
