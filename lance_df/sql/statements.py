"""Statements that are handled here, or of which something has to be known, read from their tokens."""

from __future__ import annotations

from typing import Final

from sqlglot.errors import TokenError
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from lance_df.errors import InvalidInputError
from lance_df.records import dataclass
from lance_df.sql.dialect import tokenize

_PREPARATIONS: Final = ("PREPARE", "EXECUTE", "DEALLOCATE")


@dataclass(frozen=True, slots=True)
class CreateExternalTable:
    """``CREATE EXTERNAL TABLE name STORED AS LANCE LOCATION location OPTIONS (...)``.

    ``name`` has up to three parts, already normalised. ``options`` keep the case of their keys.
    """

    name: tuple[str, ...]
    location: str
    options: tuple[tuple[str, str], ...] = ()
    or_replace: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class CreateView:
    """``CREATE VIEW name AS query``, without a list of columns."""

    name: tuple[str, ...]
    query: str


@dataclass(frozen=True, slots=True)
class Preparation:
    """``PREPARE name …``, ``EXECUTE name …`` or ``DEALLOCATE name``: the first word, and the name.

    ``before`` and ``after`` are the text around the name.
    """

    verb: str
    name: str
    before: str
    after: str


def parse_name(text: str) -> tuple[str, ...]:
    """Return the parts of a table name as SQL reads it: what is not quoted is lower-cased.

    >>> parse_name('Lake."Trips".x')
    ('lake', 'Trips', 'x')

    Raises
    ------
    InvalidInputError
        It is not a name of one to three parts.
    """
    try:
        reader = _Reader(tokenize(text))
        name = reader.name()
        reader.end()
    except (TokenError, InvalidInputError) as err:
        raise InvalidInputError(
            f"{text!r} is not a table name; quote parts that are no plain words, as in '\"my-table\"'"
        ) from err
    return name


def parse_create_external_table(text: str) -> CreateExternalTable | None:
    """Return the statement if it creates an external table that is stored as Lance, else None.

    Raises
    ------
    InvalidInputError
        It is such a statement, and malformed.
    """
    reader = _reader(text)
    if reader is None or not reader.take("CREATE"):
        return None
    or_replace = reader.take("OR", "REPLACE")
    if not (reader.take("EXTERNAL", "TABLE") and reader.has("STORED", "AS", "LANCE")):
        return None
    if_not_exists = reader.take("IF", "NOT", "EXISTS")
    name = reader.name()
    reader.need("STORED", "AS", "LANCE")
    reader.need("LOCATION")
    location = reader.string()
    options = reader.options() if reader.take("OPTIONS") else ()
    reader.end()
    return CreateExternalTable(name, location, options, or_replace, if_not_exists)


def parse_create_view(text: str) -> CreateView | None:
    """Return the statement if it creates a view for sure, without a list of columns, else None."""
    reader = _reader(text)
    if reader is None or not reader.take("CREATE"):
        return None
    reader.take("OR", "REPLACE")
    if not reader.take("VIEW"):
        return None
    if reader.take("IF", "NOT", "EXISTS"):
        return None  # whether it does anything does not follow from its text
    name = reader.name()
    if not reader.take("AS"):
        return None
    return CreateView(name, text[reader.position() :])


def parse_create_table_as(text: str) -> str | None:
    """Return the query of a ``CREATE TABLE name AS query`` without a list of columns, else None."""
    reader = _reader(text)
    if reader is None or not reader.take("CREATE"):
        return None
    reader.take("OR", "REPLACE")
    if not reader.take("TABLE"):
        return None
    reader.take("IF", "NOT", "EXISTS")
    try:
        reader.name()
    except InvalidInputError:
        return None  # DataFusion says what is wrong with it
    return text[reader.position() :] if reader.take("AS") else None


def parse_defined_name(text: str) -> tuple[str, ...] | None:
    """Return the table or view that a statement creates, drops or shows the definition of; None for others.

    >>> parse_defined_name("DROP VIEW IF EXISTS a.v"), parse_defined_name("SELECT * FROM v")
    (('a', 'v'), None)
    """
    reader = _reader(text)
    if reader is None:
        return None
    reader.take("SHOW")
    if not (reader.take("CREATE") or reader.take("DROP")):
        return None
    reader.take("OR", "REPLACE")
    if not (reader.take("VIEW") or reader.take("TABLE")):
        return None
    reader.take("IF", "EXISTS")
    reader.take("IF", "NOT", "EXISTS")
    try:
        return reader.name()
    except InvalidInputError:
        return None  # DataFusion says what is wrong with it


def parse_preparation(text: str) -> Preparation | None:
    """Return the statement if it prepares one, executes a prepared one, or forgets it, else None."""
    reader = _reader(text)
    verb = None if reader is None else next(filter(reader.take, _PREPARATIONS), None)
    if reader is None or verb is None:
        return None
    if verb == "DEALLOCATE":
        reader.take("PREPARE")
    before = text[: reader.position()]
    try:
        (name,) = reader.name()
    except (InvalidInputError, ValueError):
        return None
    return Preparation(verb, name, before, text[reader.last_end() :])


def _reader(text: str) -> _Reader | None:
    try:
        return _Reader(tokenize(text))
    except TokenError:
        return None  # DataFusion says what is wrong with it


class _Reader:
    """Takes tokens one after the other."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._next = 0

    def take(self, *words: str) -> bool:
        """Take these words if they come next."""
        ahead = self._tokens[self._next : self._next + len(words)]
        if tuple(token.text.upper() for token in ahead) != words or any(map(_is_quoted, ahead)):
            return False
        self._next += len(words)
        return True

    def has(self, *words: str) -> bool:
        """Whether these words come in a row anywhere from here on."""
        rest = [None if _is_quoted(token) else token.text.upper() for token in self._tokens[self._next :]]
        return any(tuple(rest[start : start + len(words)]) == words for start in range(len(rest)))

    def need(self, *words: str) -> None:
        if not self.take(*words):
            raise InvalidInputError(f"expected {' '.join(words)}, found {self._next_text()}")

    def name(self) -> tuple[str, ...]:
        parts = [self._part()]
        while len(parts) < 3 and self.take("."):
            parts.append(self._part())
        return tuple(parts)

    def string(self) -> str:
        token = self._peek()
        if token is None or token.token_type is not TokenType.STRING:
            raise InvalidInputError(f"expected a string in single quotes, found {self._next_text()}")
        self._next += 1
        return str(token.text)

    def options(self) -> tuple[tuple[str, str], ...]:
        """Take ``('key' 'value', key value, ...)``."""
        self.need("(")
        pairs: list[tuple[str, str]] = []
        while not pairs or self.take(","):
            key = self._word()
            while self.take("."):
                key += "." + self._word()
            pairs.append((key, self._word()))
        self.need(")")
        return tuple(pairs)

    def end(self) -> None:
        self.take(";")
        if self._peek() is not None:
            raise InvalidInputError(f"expected the end of the statement, found {self._next_text()}")

    def position(self) -> int:
        """Return where the next token stands in the text."""
        token = self._peek()
        return self._tokens[-1].end + 1 if token is None else token.start

    def last_end(self) -> int:
        """Return where the text goes on after the last token that was taken."""
        return int(self._tokens[self._next - 1].end) + 1

    def _peek(self) -> Token | None:
        return self._tokens[self._next] if self._next < len(self._tokens) else None

    def _next_text(self) -> str:
        token = self._peek()
        return "the end" if token is None else repr(token.text)

    def _part(self) -> str:
        token = self._peek()
        if (
            token is None
            or not (_is_quoted(token) or token.text.isidentifier())
            or (token.token_type is TokenType.STRING)
        ):
            raise InvalidInputError(f"expected a name, found {self._next_text()}")
        self._next += 1
        return str(token.text) if _is_quoted(token) else token.text.lower()

    def _word(self) -> str:
        token = self._peek()
        if token is None or token.text in ("(", ")", ","):
            raise InvalidInputError(f"expected a key or a value in OPTIONS, found {self._next_text()}")
        self._next += 1
        return str(token.text)


def _is_quoted(token: Token) -> bool:
    return token.token_type in (TokenType.IDENTIFIER, TokenType.STRING)
