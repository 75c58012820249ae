"""Queries that begin with FROM and have no SELECT. They return all columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sqlglot.errors import TokenError
from sqlglot.tokens import Token  # type: ignore[attr-defined]

from lance_df.records import dataclass
from lance_df.sql.dialect import QUOTED, tokenize
from lance_df.sql.splice import Edit, splice

_PIPE: Final = "|>"
_OPENS: Final = frozenset("([{")
_CLOSES: Final = frozenset(")]}")
_SET_OPERATORS: Final = frozenset({"UNION", "EXCEPT", "INTERSECT"})
_AFTER_SET_OPERATORS: Final = frozenset({"ALL", "DISTINCT", "BY", "NAME"})
_BEFORE_STATEMENTS: Final = frozenset({"EXPLAIN", "ANALYZE", "VERBOSE", "DESCRIBE", "DESC"})
_WITH_QUERY_AFTER_AS: Final = frozenset({"CREATE", "PREPARE"})


@dataclass(slots=True)
class _Scope:
    """The state of the text between two brackets, or of the statement itself.

    Attributes
    ----------
    first
        The first word of the current query or statement; empty before it begins.
    has_query
        Whether a query has begun in this scope.
    start
        The position of the FROM with which the query begins, as long as it has no SELECT.
    """

    is_statement: bool
    first: str = ""
    has_query: bool = False
    start: int | None = None

    def restart(self) -> int | None:
        """Prepare for the next query; return the start of the previous one if that has no SELECT."""
        start = self.start
        self.first, self.has_query, self.start = "", False, None
        return start


def with_select(text: str) -> str:
    """Return a statement in which each query that begins with FROM has a SELECT.

    >>> with_select("FROM 'a.csv' LIMIT 1"), with_select("CREATE TABLE u AS FROM t")
    ("SELECT * FROM 'a.csv' LIMIT 1", 'CREATE TABLE u AS SELECT * FROM t')
    >>> with_select("FROM t SELECT a"), with_select("SELECT extract(day FROM d) FROM t")
    ('FROM t SELECT a', 'SELECT extract(day FROM d) FROM t')
    >>> with_select("FROM t |> WHERE a > 1 |> SELECT a")
    'SELECT * FROM t |> WHERE a > 1 |> SELECT a'
    """
    try:
        tokens = tokenize(text)
    except TokenError:
        return text  # DataFusion reports the error
    return splice(text, (Edit(start, start, "SELECT * ") for start in _starts(tokens)))


def _starts(tokens: list[Token]) -> Iterator[int]:
    """Yield the start positions of queries that have no SELECT."""
    scopes = [_Scope(is_statement=True)]
    before = ""
    for token in tokens:
        word = "" if token.token_type in QUOTED else token.text.upper()
        scope = scopes[-1]
        ended = None
        if word in _OPENS:
            scope.first = scope.first or word
            scopes.append(_Scope(is_statement=False))
        elif word in _CLOSES and len(scopes) > 1:
            ended = scopes.pop().start
        elif word in _SET_OPERATORS or (word == ";" and scope.is_statement):
            ended = scope.restart()
        elif scope.first or not _comes_before(scope, word, before):
            _take(scope, word, before, token)
        before = word
        if ended is not None:
            yield ended
    yield from (scope.start for scope in scopes if scope.start is not None)


def _comes_before(scope: _Scope, word: str, before: str) -> bool:
    """Whether a word precedes a query without being part of it."""
    if word in _AFTER_SET_OPERATORS and before in _SET_OPERATORS | _AFTER_SET_OPERATORS:
        return True
    return scope.is_statement and (
        word in _BEFORE_STATEMENTS
        or (word == "FORMAT" and before in _BEFORE_STATEMENTS)
        or before == "FORMAT"
    )


def _take(scope: _Scope, word: str, before: str, token: Token) -> None:
    if scope.first == "WITH" and before == ")" and word not in (",", "AS"):
        scope.first = ""  # the last common table expression has ended
    is_first = not scope.first
    scope.first = scope.first or word or token.text
    if word == "FROM" and (is_first or (scope.first == "INSERT" and not scope.has_query)):
        scope.start, scope.has_query = token.start, True
    elif word == "SELECT" and before != _PIPE:
        scope.start, scope.has_query = None, True
    elif word == "AS" and scope.is_statement and scope.first in _WITH_QUERY_AFTER_AS and not scope.has_query:
        scope.first, scope.has_query = "", True
