"""Statements of Spark about tables of lance_df, as far as Spark needs help with them.

What is not known here is left to Spark, which then says what is wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sqlglot.errors import TokenError
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from lance_df.records import dataclass
from lance_df.sql.dialect import QUOTED, tokenize

if TYPE_CHECKING:
    from collections.abc import Iterator

_QUERY: Final = frozenset({"SELECT", "WITH", "FROM", "VALUES", "TABLE", "(", "MAP", "REDUCE"})


@dataclass(frozen=True, slots=True)
class SparkInsert:
    """``INSERT INTO name (columns) query``; OVERWRITE instead of INTO replaces rows."""

    name: tuple[str, ...]
    columns: tuple[str, ...]
    query: str
    is_overwrite: bool


@dataclass(frozen=True, slots=True)
class SparkCreate:
    """``CREATE TABLE name USING lance_df …``.

    Attributes
    ----------
    query
        What the rows are; None for a table that has none yet, or is there.
    has_columns
        Whether columns are listed.
    """

    name: tuple[str, ...]
    query: str | None
    path: str | None
    partition_by: tuple[str, ...]
    if_not_exists: bool
    has_columns: bool
    is_replaced: bool


@dataclass(frozen=True, slots=True)
class SparkAlter:
    """``ALTER TABLE name …``, with the words that follow."""

    name: tuple[str, ...]
    action: str


def parse_spark(text: str) -> SparkInsert | SparkCreate | SparkAlter | None:
    """Return what a statement says; None for one that Spark does alone."""
    try:
        reader = _Reader(text, tokenize(text))
    except TokenError:
        return None
    try:
        if reader.takes("INSERT"):
            return _insert(reader)
        if reader.takes("CREATE"):
            return _create(reader)
        if reader.takes("ALTER", "TABLE"):
            name = reader.name()
            return SparkAlter(name, " ".join(reader.words(2)))
    except _NotKnownError:
        pass
    return None


def names_in(text: str) -> Iterator[str]:
    """Yield all names in a statement."""
    try:
        tokens = tokenize(text)
    except TokenError:
        return
    for token in tokens:
        if token.token_type is TokenType.IDENTIFIER or token.text.replace("$", "_").isidentifier():
            yield token.text


class _NotKnownError(Exception):
    """Ends the parse of a statement that is left to Spark."""


class _Reader:
    """Reads the tokens of a statement one after the other."""

    def __init__(self, text: str, tokens: list[Token]) -> None:
        self.text = text
        self._tokens = tokens
        self._next = 0

    def words(self, count: int = 1) -> list[str]:
        """Return the next words, without taking them."""
        return [_word(each) for each in self._tokens[self._next : self._next + count]]

    def takes(self, *words: str) -> bool:
        """Whether these words are next; they are taken then."""
        if " ".join(self.words(len(words))) == " ".join(words):
            self._next += len(words)
            return True
        joined = " ".join(words)
        if len(words) > 1 and self.words() == [joined]:  # words that make one token
            self._next += 1
            return True
        return False

    def expect(self, *words: str) -> None:
        if not self.takes(*words):
            raise _NotKnownError

    def identifier(self) -> str:
        if self._next >= len(self._tokens):
            raise _NotKnownError
        token = self._tokens[self._next]
        if token.token_type is not TokenType.IDENTIFIER and not token.text.isidentifier():
            raise _NotKnownError
        self._next += 1
        return token.text

    def name(self) -> tuple[str, ...]:
        parts = [self.identifier()]
        while self.takes("."):
            parts.append(self.identifier())
        return tuple(parts)

    def string(self) -> str:
        if self._next >= len(self._tokens) or self._tokens[self._next].token_type is not TokenType.STRING:
            raise _NotKnownError
        self._next += 1
        return self._tokens[self._next - 1].text

    def items(self) -> tuple[str, ...]:
        """Return the texts between the commas of a list in parentheses."""
        self.expect("(")
        texts, depth, start = [], 0, self._next
        while self._next < len(self._tokens):
            word = _word(self._tokens[self._next])
            if depth == 0 and word in (",", ")"):
                if self._next > start:
                    first, last = self._tokens[start], self._tokens[self._next - 1]
                    texts.append(self.text[first.start : last.end + 1])
                start = self._next + 1
            if word == ")" and depth == 0:
                self._next += 1
                return tuple(texts)
            depth += (word == "(") - (word == ")")
            self._next += 1
        raise _NotKnownError

    def rest(self) -> str:
        if self._next >= len(self._tokens):
            raise _NotKnownError
        return self.text[self._tokens[self._next].start :].rstrip().rstrip(";")

    @property
    def is_at_end(self) -> bool:
        return self._next >= len(self._tokens) or self.words() == [";"]


def _insert(reader: _Reader) -> SparkInsert:
    is_overwrite = reader.takes("OVERWRITE")
    if not is_overwrite:
        reader.expect("INTO")
    reader.takes("TABLE")
    name = reader.name()
    if reader.words(2) == ["WITH", "("]:  # options, which Spark passes on
        raise _NotKnownError
    columns: tuple[str, ...] = ()
    if reader.words() == ["("] and reader.words(2)[-1] not in _QUERY:
        columns = tuple(each.strip().strip("`") for each in reader.items())
    if reader.words()[:1] and reader.words()[0] not in _QUERY:
        raise _NotKnownError
    return SparkInsert(name, columns, reader.rest(), is_overwrite)


def _create(reader: _Reader) -> SparkCreate:
    is_replaced = reader.takes("OR", "REPLACE")
    reader.expect("TABLE")
    if_not_exists = reader.takes("IF", "NOT", "EXISTS")
    name = reader.name()
    has_columns = reader.words() == ["("]
    if has_columns:
        reader.items()
    reader.expect("USING")
    if reader.identifier().lower() != "lance_df":
        raise _NotKnownError
    path: str | None = None
    query: str | None = None
    partition_by: tuple[str, ...] = ()
    while not reader.is_at_end:
        if reader.takes("LOCATION"):
            path = reader.string()
        elif reader.takes("PARTITIONED", "BY"):
            partition_by = reader.items()
        elif reader.takes("OPTIONS"):
            options = reader.items()
            if len(options) != 1 or not options[0].lower().startswith("path"):
                raise _NotKnownError
            path = options[0].split("'")[1] if options[0].count("'") == 2 else None
            if path is None:
                raise _NotKnownError
        elif reader.takes("AS") or reader.words()[0] in _QUERY:
            query = reader.rest()
            break
        else:
            raise _NotKnownError
    return SparkCreate(name, query, path, partition_by, if_not_exists, has_columns, is_replaced)


def _word(token: Token) -> str:
    if token.token_type in QUOTED:
        return ""
    return " ".join(token.text.upper().split())
