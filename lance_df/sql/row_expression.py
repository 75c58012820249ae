"""Restrict partition expressions to deterministic functions of their row.

Spec: partitioning, "Partition Expression", requirements 1 and 2.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from sqlglot.errors import TokenError
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from lance_df.errors import InvalidInputError
from lance_df.sql.dialect import STRINGS, tokenize
from lance_df.sql.expression_size import check_growth, check_text_size

# Words before a parenthesis that are not function calls: operators, special syntax, types.
_NO_CALLS: Final = frozenset(
    [
        *("all", "and", "any", "as", "between", "by", "case", "cast", "else", "end", "escape", "extract"),
        *("filter", "ilike", "in", "interval", "is", "like", "not", "on", "or", "overlay", "position"),
        *("similar", "substring", "then", "to", "trim", "try_cast", "when"),
        *("binary", "bytea", "char", "character", "date", "dec", "decimal", "double", "float", "int"),
        *("numeric", "time", "timestamp", "varbinary", "varchar"),
    ]
)
# Functions that DataFusion considers deterministic although they describe the engine instead of the row.
_ABOUT_THE_ENGINE: Final = frozenset({"version", "arrow_metadata", "arrow_typeof", "input_file_name"})
# Words that read the clock or the session without parentheses.
_STATE: Final = frozenset(
    [
        *("current_catalog", "current_date", "current_role", "current_schema", "current_time"),
        *("current_timestamp", "current_user", "localtime", "localtimestamp", "now", "session_user"),
        *("today", "user"),
    ]
)
_STATEMENTS: Final = {
    TokenType.SELECT: "a subquery",
    TokenType.EXISTS: "a subquery",
    TokenType.WITH: "a subquery",
    TokenType.VALUES: "a subquery",
    TokenType.OVER: "a window",
    TokenType.PARAMETER: "a parameter",
    TokenType.PLACEHOLDER: "a parameter",
    TokenType.SEMICOLON: "another statement",
}


def check_row_expression(expression: str, functions: Collection[str]) -> None:
    """Check that an expression depends only on the columns of its row.

    Parameters
    ----------
    functions
        The names of the deterministic scalar functions, in lower case.

    Raises
    ------
    InvalidInputError
        The expression has a subquery, a window or a parameter, reads a clock or a session, or calls a
        function that is volatile, unknown, or not a function of one row; or it is too large, see
        `lance_df.sql.expression_size`.
    """
    check_text_size(expression)
    try:
        tokens = tokenize(expression)
    except TokenError as err:
        raise InvalidInputError(
            f"the expression {expression!r} is malformed: a quote or a comment is not closed"
        ) from err
    if not tokens:
        raise InvalidInputError("the expression is empty")
    check_growth(expression, tokens)
    for index, token in enumerate(tokens):
        following = tokens[index + 1].token_type if index + 1 < len(tokens) else None
        problem = _problem(token, following, functions)
        if problem is not None:
            raise InvalidInputError(f"the expression {expression!r} {problem}")


def _problem(token: Token, following: TokenType | None, functions: Collection[str]) -> str | None:
    name = token.text.lower()
    if token.token_type in STRINGS or token.token_type is TokenType.NUMBER:
        return None
    if token.token_type in _STATEMENTS and not (name == "with" and following is TokenType.TIME):
        return f"contains {_STATEMENTS[token.token_type]}; it must depend only on its own row"
    if name in _STATE and token.token_type is not TokenType.IDENTIFIER:
        return f"reads {name}; its value must not depend on when and where it is evaluated"
    if following is not TokenType.L_PAREN or not name.isidentifier() or name in _NO_CALLS:
        return None
    if name in _ABOUT_THE_ENGINE or name not in functions:
        return f"calls {name}, which is not a deterministic function of one row"
    return None
