"""Parse the statements that lance_df handles or inspects, from their tokens."""

from __future__ import annotations

from typing import Final

from sqlglot.errors import TokenError

from lance_df.errors import InvalidInputError
from lance_df.records import dataclass
from lance_df.sql.dialect import tokenize
from lance_df.sql.token_reader import TokenReader, token_reader

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
    """``PREPARE name …``, ``EXECUTE name …`` or ``DEALLOCATE name``, as the verb and the name.

    ``before`` and ``after`` are the text before and after the name.
    """

    verb: str
    name: str
    before: str
    after: str


def parse_name(text: str) -> tuple[str, ...]:
    """Return the parts of a table name as SQL reads it. Unquoted parts are lower-cased.

    >>> parse_name('Lake."Trips".x')
    ('lake', 'Trips', 'x')

    Raises
    ------
    InvalidInputError
        ``text`` is not a name of one to three parts.
    """
    try:
        reader = TokenReader(tokenize(text))
        name = reader.name()
        reader.end()
    except (TokenError, InvalidInputError) as err:
        raise InvalidInputError(
            f"{text!r} is not a table name; quote parts that are not plain words, such as '\"my-table\"'"
        ) from err
    return name


def parse_create_external_table(text: str) -> CreateExternalTable | None:
    """Return the parsed CREATE EXTERNAL TABLE statement; None unless it is STORED AS LANCE.

    Raises
    ------
    InvalidInputError
        The statement is malformed.
    """
    reader = token_reader(text)
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
    """Return the parsed CREATE VIEW statement; None for IF NOT EXISTS, column lists and other statements."""
    reader = token_reader(text)
    if reader is None or not reader.take("CREATE"):
        return None
    reader.take("OR", "REPLACE")
    if not reader.take("VIEW"):
        return None
    if reader.take("IF", "NOT", "EXISTS"):
        return None  # the text does not show whether the statement has an effect
    name = reader.name()
    if not reader.take("AS"):
        return None
    return CreateView(name, text[reader.position() :])


def parse_create_table_as(text: str) -> str | None:
    """Return the query of a ``CREATE TABLE name AS query`` without a list of columns; otherwise None."""
    reader = token_reader(text)
    if reader is None or not reader.take("CREATE"):
        return None
    reader.take("OR", "REPLACE")
    if not reader.take("TABLE"):
        return None
    reader.take("IF", "NOT", "EXISTS")
    try:
        reader.name()
    except InvalidInputError:
        return None  # DataFusion reports the error
    return text[reader.position() :] if reader.take("AS") else None


def parse_defined_name(text: str) -> tuple[str, ...] | None:
    """Return the table or view that a CREATE, DROP or SHOW CREATE statement names; otherwise None.

    >>> parse_defined_name("DROP VIEW IF EXISTS a.v"), parse_defined_name("SELECT * FROM v")
    (('a', 'v'), None)
    """
    reader = token_reader(text)
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
        return None  # DataFusion reports the error


def parse_preparation(text: str) -> Preparation | None:
    """Return the parsed PREPARE, EXECUTE or DEALLOCATE statement; None for other statements."""
    reader = token_reader(text)
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


def parse_explained(text: str) -> str | None:
    """Return the query of an ``EXPLAIN`` without options; None for all other statements.

    >>> parse_explained("EXPLAIN SELECT 1")
    'SELECT 1'
    """
    reader = token_reader(text)
    if reader is None or not reader.take("EXPLAIN"):
        return None
    return reader.rest() if reader.at("SELECT") or reader.at("WITH") else None
