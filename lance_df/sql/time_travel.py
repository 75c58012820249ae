"""Time travel, ``FROM t VERSION AS OF 3`` and the like: such tables get names of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from sqlglot.errors import TokenError
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from lance_df.errors import InvalidInputError
from lance_df.sql.dialect import QUOTED, tokenize
from lance_df.sql.splice import Edit, quote_identifier, splice
from lance_df.sql.token_reader import is_name_word, lowered

_BEFORE_TABLES: Final = frozenset({"FROM", "JOIN", "USING", ",", "("})
# what may follow a table that has no alias
_NO_ALIAS: Final = frozenset(
    [
        *("WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT", "OFFSET", "FETCH", "UNION", "EXCEPT"),
        *("INTERSECT", "JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "NATURAL", "SEMI", "ANTI"),
        *("ON", "USING", "WINDOW", "QUALIFY", "TABLESAMPLE", "WHEN", "SET", "LATERAL", "FOR"),
    ]
)
# DataFusion takes both for names in FROM
_QUOTED_NAMES: Final = frozenset({TokenType.IDENTIFIER, TokenType.STRING})
_KINDS: Final = {
    **dict.fromkeys(("VERSION", "SYSTEM_VERSION"), "VERSION"),
    **dict.fromkeys(("TIMESTAMP", "SYSTEM_TIME"), "TIMESTAMP"),
}
_NEEDED: Final = {"VERSION": "a whole number or a tag in quotes", "TIMESTAMP": "a time in quotes"}


def with_versions(text: str, name_of: Callable[[str, str, str], str]) -> str:
    """Return a statement in which tables of other versions have names of their own.

    Parameters
    ----------
    name_of
        Given the name of a table, ``"version"``, ``"tag"`` or ``"time"``, and which one: the name to use.

    Raises
    ------
    InvalidInputError
        A version is no whole number.
    """
    try:
        tokens = tokenize(text)
    except TokenError:
        return text  # DataFusion says what is wrong with it
    return splice(text, _edits(text, tokens, name_of))


def _edits(text: str, tokens: list[Token], name_of: Callable[[str, str, str], str]) -> Iterator[Edit]:
    for index in range(2, len(tokens) - 2):
        kind = _KINDS.get(_word(tokens[index]) or "")
        if kind is None or [_word(each) for each in tokens[index + 1 : index + 3]] != ["AS", "OF"]:
            continue
        last = index - 2 if _word(tokens[index - 1]) == "FOR" else index - 1
        if not _is_table(tokens, last):
            continue
        after = index + 3
        if kind == "TIMESTAMP" and after < len(tokens) and _word(tokens[after]) == "TIMESTAMP":
            after += 1
        literal = tokens[after] if after < len(tokens) else None
        if literal is None or literal.token_type not in (TokenType.STRING, TokenType.NUMBER):
            given = "the end of the text" if literal is None else text[literal.start :].split()[0]
            raise InvalidInputError(f"{kind} AS OF needs {_NEEDED[kind]}, not {given}")
        table = tokens[last]
        name = table.text if table.token_type in _QUOTED_NAMES else lowered(table.text)
        following = tokens[after + 1] if after + 1 < len(tokens) else None
        alias = "" if following is not None and _is_alias(following) else f" AS {quote_identifier(name)}"
        stop = literal.end + 1
        new = name_of(name, _kind(kind, literal), literal.text)
        yield Edit(table.start, stop, quote_identifier(new) + alias)


def _kind(kind: str, literal: Token) -> str:
    is_text = literal.token_type is TokenType.STRING
    if kind == "TIMESTAMP":
        if not is_text:
            raise InvalidInputError(f"{kind} AS OF needs {_NEEDED[kind]}, not {literal.text}")
        return "time"
    if is_text:
        return "tag"
    if not literal.text.isdecimal() or len(literal.text) > 18:
        raise InvalidInputError(f"{kind} AS OF needs {_NEEDED[kind]}, not {literal.text}")
    return "version"


def _is_table(tokens: list[Token], index: int) -> bool:
    """Whether a token ends the name of a table in a list of tables."""
    while index > 1 and _word(tokens[index - 1]) == ".":
        index -= 2
    token = tokens[index]
    is_name = token.token_type in _QUOTED_NAMES or is_name_word(token)
    return index > 0 and is_name and _word(tokens[index - 1]) in _BEFORE_TABLES


def _is_alias(token: Token) -> bool:
    word = _word(token)
    if word is None:
        return token.token_type is TokenType.IDENTIFIER
    return word == "AS" or (word.isidentifier() and word not in _NO_ALIAS)


def _word(token: Token) -> str | None:
    if token.token_type in QUOTED:
        return None
    return " ".join(token.text.upper().split())
