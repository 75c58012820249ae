"""Time travel such as ``FROM t VERSION AS OF 3``: replace these tables by names for their versions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from sqlglot.errors import TokenError
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from lance_df.errors import InvalidInputError
from lance_df.records import dataclass
from lance_df.sql.dialect import QUOTED, tokenize
from lance_df.sql.splice import Edit, quote_identifier, splice
from lance_df.sql.token_reader import is_name_word, lowered

_BEFORE_TABLES: Final = frozenset({"FROM", "JOIN", "USING", ",", "("})
# what may follow a table that has no alias
_NO_ALIAS: Final = frozenset(
    [
        *("WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT", "OFFSET", "FETCH", "UNION", "EXCEPT"),
        *("INTERSECT", "JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "NATURAL", "SEMI", "ANTI"),
        *("ON", "USING", "WINDOW", "QUALIFY", "TABLESAMPLE", "WHEN", "SET", "LATERAL", "FOR", "MINUS"),
        *("PIVOT", "UNPIVOT", "SORT BY", "CLUSTER BY", "DISTRIBUTE BY", "SELECT", "INSERT"),
    ]
)
# DataFusion accepts both as names in FROM
_QUOTED_NAMES: Final = frozenset({TokenType.IDENTIFIER, TokenType.STRING})
_KINDS: Final = {
    **dict.fromkeys(("VERSION", "SYSTEM_VERSION"), "VERSION"),
    **dict.fromkeys(("TIMESTAMP", "SYSTEM_TIME"), "TIMESTAMP"),
}
_NEEDED: Final = {"VERSION": "a whole number or a tag in quotes", "TIMESTAMP": "a time in quotes"}


@dataclass(frozen=True, slots=True)
class Names:
    """The functions with which a dialect reads and writes names.

    Attributes
    ----------
    tokenize
        Returns the tokens of a text.
    is_plain
        Whether a token may be an unquoted name.
    plain
        Returns the name that an unquoted name refers to.
    quoted
        Returns a name in quotes.
    folded
        Returns the text that all spellings of a name share.
    """

    tokenize: Callable[[str], list[Token]]
    is_plain: Callable[[Token], bool]
    plain: Callable[[str], str]
    quoted: Callable[[str], str]
    folded: Callable[[str], str]


_OF_DATAFUSION: Final = Names(tokenize, is_name_word, lowered, quote_identifier, str)


def with_versions(text: str, name_of: Callable[[str, str, str], str], names: Names = _OF_DATAFUSION) -> str:
    """Return a statement in which other versions of tables have names of their own.

    Parameters
    ----------
    name_of
        A function from the name of a table, the kind of a version (``"version"``, ``"tag"`` or ``"time"``)
        and the version to the new name.
    names
        The names of the statement's dialect.

    Raises
    ------
    InvalidInputError
        A version is not an integer, or is that of a query, as a name of WITH or in parentheses.
    """
    try:
        tokens = names.tokenize(text)
    except TokenError:
        return text  # the engine reports the error
    return splice(text, _edits(text, tokens, name_of, names))


def _edits(
    text: str, tokens: list[Token], name_of: Callable[[str, str, str], str], names: Names
) -> Iterator[Edit]:
    queries = list(_queries_of_with(tokens, names))
    for index in range(2, len(tokens) - 2):
        kind = _KINDS.get(_word(tokens[index]) or "")
        if kind is None or [_word(each) for each in tokens[index + 1 : index + 3]] != ["AS", "OF"]:
            continue
        last = index - 2 if _word(tokens[index - 1]) == "FOR" else index - 1
        if _word(tokens[last]) == ")":
            begin = _start_of_group(tokens, last)
            given = text[tokens[begin].start : tokens[last].end + 1]
            raise InvalidInputError(
                f"{kind} AS OF must come directly after the name of a table, before TABLESAMPLE, not after "
                f"{given:.60}"
            )
        if not _is_table(tokens, last, names):
            continue
        after = index + 3
        if kind == "TIMESTAMP" and after < len(tokens) and _word(tokens[after]) == "TIMESTAMP":
            after += 1
        literal = tokens[after] if after < len(tokens) else None
        if literal is None or literal.token_type not in (TokenType.STRING, TokenType.NUMBER):
            given = "the end of the text" if literal is None else text[literal.start :].split()[0]
            raise InvalidInputError(f"{kind} AS OF needs {_NEEDED[kind]}, got {given}")
        table = tokens[last]
        name = table.text if table.token_type in _QUOTED_NAMES else names.plain(table.text)
        is_query = any(each == names.folded(name) and last in scope for each, scope in queries)
        if is_query and _word(tokens[last - 1]) != ".":
            raise InvalidInputError(
                f"{kind} AS OF: {name!r} is a query of WITH and has no versions; put {kind} AS OF into that "
                "query, or rename it"
            )
        new = name_of(name, _kind(kind, literal), literal.text)
        yield Edit(table.start, literal.end + 1, names.quoted(new))
        after = _end_of_sample(tokens, after)
        following = tokens[after + 1] if after + 1 < len(tokens) else None
        if following is None or not _is_alias(following):
            stop = tokens[after].end + 1
            yield Edit(stop, stop, f" AS {names.quoted(name)}")


def _kind(kind: str, literal: Token) -> str:
    is_text = literal.token_type is TokenType.STRING
    if kind == "TIMESTAMP":
        if not is_text:
            raise InvalidInputError(f"{kind} AS OF needs {_NEEDED[kind]}, got {literal.text}")
        return "time"
    if is_text:
        return "tag"
    if not literal.text.isdecimal() or len(literal.text) > 18:
        raise InvalidInputError(f"{kind} AS OF needs {_NEEDED[kind]}, got {literal.text}")
    return "version"


def _queries_of_with(tokens: list[Token], names: Names) -> Iterator[tuple[str, range]]:
    """Yield the names of the queries of WITH, with the tokens among which a name is that of the query."""
    for index in (position for position, token in enumerate(tokens, 1) if _word(token) == "WITH"):
        is_recursive = _word_at(tokens, index) == "RECURSIVE"
        end, position = _end_of_group(tokens, index), index + is_recursive
        while (begin := _begin_of_query(tokens, position)) is not None:
            name, close = tokens[position], _end_of_group(tokens, begin + 1)
            written = name.text if name.token_type in _QUOTED_NAMES else names.plain(name.text)
            yield names.folded(written), range(begin if is_recursive else close, end)
            if _word_at(tokens, close + 1) != ",":
                break
            position = close + 2


def _begin_of_query(tokens: list[Token], name: int) -> int | None:
    """Return the position of the parenthesis that begins the query of a name in WITH; None for no query."""
    index = name + 1
    if _word_at(tokens, index) == "(":
        columns = _end_of_group(tokens, index + 1)
        index = columns + 1 if _word_at(tokens, columns + 1) in ("AS", "MAX", "(") else index
    if _word_at(tokens, index) == "MAX":  # MAX RECURSION LEVEL n
        index += 4
    while _word_at(tokens, index) in ("AS", "NOT", "MATERIALIZED"):
        index += 1
    return index if _word_at(tokens, index) == "(" else None


def _end_of_group(tokens: list[Token], index: int) -> int:
    """Return the position of the parenthesis that closes the group of a token, or the number of tokens."""
    depth = 0
    for position in range(index, len(tokens)):
        depth += {"(": 1, ")": -1}.get(_word(tokens[position]) or "", 0)
        if depth < 0:
            return position
    return len(tokens)


def _start_of_group(tokens: list[Token], index: int) -> int:
    """Return the position of the parenthesis that a token closes, or of the name before it."""
    depth = 0
    for position in range(index, 0, -1):
        depth += {")": 1, "(": -1}.get(_word(tokens[position]) or "", 0)
        if depth == 0:
            has_name = (_word(tokens[position - 1]) or "").isidentifier()
            return position - (has_name and _word(tokens[position - 1]) not in _BEFORE_TABLES)
    return index


def _end_of_sample(tokens: list[Token], index: int) -> int:
    """Return the last token before the position of an alias: ``index``, or the end of a ``TABLESAMPLE (…)``.

    ``REPEATABLE (…)`` is part of the latter.
    """
    if index + 1 >= len(tokens) or _word(tokens[index + 1]) not in ("TABLESAMPLE", "REPEATABLE"):
        return index
    depth = 0
    for position in range(index + 2, len(tokens)):
        depth += {"(": 1, ")": -1}.get(_word(tokens[position]) or "", 0)
        if depth == 0:
            return _end_of_sample(tokens, position)
    return index


def _is_table(tokens: list[Token], index: int, names: Names) -> bool:
    """Whether a token ends the name of a table in a list of tables."""
    while index > 1 and _word(tokens[index - 1]) == ".":
        index -= 2
    token = tokens[index]
    is_name = token.token_type in _QUOTED_NAMES or (names.is_plain(token) and _word(token) != "SELECT")
    return index > 0 and is_name and _word(tokens[index - 1]) in _BEFORE_TABLES


def _is_alias(token: Token) -> bool:
    word = _word(token)
    if word is None:
        return token.token_type is TokenType.IDENTIFIER
    return word == "AS" or (word.isidentifier() and word not in _NO_ALIAS)


def _word_at(tokens: list[Token], index: int) -> str | None:
    return _word(tokens[index]) if index < len(tokens) else None


def _word(token: Token) -> str | None:
    if token.token_type in QUOTED:
        return None
    return " ".join(token.text.upper().split())
