"""Spark statements about lance_df tables that Spark cannot run without help.

Unknown statements are left to Spark, which reports any errors.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from sqlglot.errors import TokenError

from lance_df.records import dataclass
from lance_df.sql.spark_dialect import tokenize_spark
from lance_df.sql.spark_reader import NotKnownError, SparkReader

_QUERY: Final = frozenset({"SELECT", "WITH", "FROM", "VALUES", "TABLE", "(", "MAP", "REDUCE"})
_MAY_CHANGE: Final = frozenset({"INSERT", "WITH", "FROM", "DELETE", "UPDATE", "MERGE", "TRUNCATE"})
_CHANGES: Final = (
    ("DELETE", "FROM"),
    ("UPDATE",),
    ("MERGE", "INTO"),
    ("MERGE", "WITH", "SCHEMA", "EVOLUTION", "INTO"),
    ("TRUNCATE", "TABLE"),
)


@dataclass(frozen=True, slots=True)
class SparkInsert:
    """``INSERT INTO name (columns) query``. OVERWRITE in place of INTO replaces rows."""

    name: tuple[str, ...]
    columns: tuple[str, ...]
    query: str
    is_overwrite: bool


@dataclass(frozen=True, slots=True)
class SparkCreate:
    """``CREATE TABLE name USING lance_df …``, or ``CREATE TABLE name AS query`` without a format.

    Attributes
    ----------
    has_format
        Whether the statement has USING.
    query
        The query of the rows; None for a table without rows or an existing one.
    has_columns
        Whether the statement lists columns.
    """

    name: tuple[str, ...]
    query: str | None
    path: str | None
    partition_by: tuple[str, ...]
    if_not_exists: bool
    has_format: bool
    has_columns: bool
    is_replaced: bool


@dataclass(frozen=True, slots=True)
class SparkAlter:
    """``ALTER TABLE name …``, with the next words."""

    name: tuple[str, ...]
    action: str


@dataclass(frozen=True, slots=True)
class SparkDrop:
    """``DROP TABLE name`` or ``DROP VIEW name``, according to the kind."""

    name: tuple[str, ...]
    kind: str


@dataclass(frozen=True, slots=True)
class SparkChange:
    """``DELETE FROM``, ``UPDATE``, ``MERGE INTO`` or ``TRUNCATE TABLE name …``, named by the verb."""

    name: tuple[str, ...]
    verb: str


@dataclass(frozen=True, slots=True)
class OtherInsert:
    """An ``INSERT`` in a form that is not supported here, such as ``BY NAME``."""

    name: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OtherCreate:
    """``CREATE TABLE … USING lance_df … AS …`` with clauses that are not supported here."""


SparkStatement: TypeAlias = (
    "SparkInsert | SparkCreate | SparkAlter | SparkDrop | SparkChange | OtherInsert | OtherCreate"
)


def parse_spark(text: str) -> SparkStatement | None:
    """Return the parsed statement, or None if Spark handles it alone."""
    try:
        tokens = tokenize_spark(text)
    except TokenError:
        return None
    reader = SparkReader(text, tokens)
    try:
        if reader.takes("INSERT"):
            return _insert(reader)
        if reader.takes("CREATE"):
            return _create(reader)
        if reader.takes("ALTER", "TABLE"):
            name = reader.name()
            return SparkAlter(name, " ".join(reader.words(2)))
        if reader.takes("DROP"):
            return _drop(reader)
    except NotKnownError:
        pass
    return _other_form(SparkReader(text, tokens))


def _insert(reader: SparkReader) -> SparkInsert:
    is_overwrite = reader.takes("OVERWRITE")
    if not is_overwrite:
        reader.expect("INTO")
    reader.takes("TABLE")
    name = reader.name()
    if reader.words(2) == ["WITH", "("]:  # options, which Spark passes on
        raise NotKnownError
    columns = reader.columns()
    if reader.words()[:1] and reader.words()[0] not in _QUERY:
        raise NotKnownError
    return SparkInsert(name, columns, reader.rows(), is_overwrite)


def _create(reader: SparkReader) -> SparkCreate:
    is_replaced = reader.takes("OR", "REPLACE")
    reader.expect("TABLE")
    if_not_exists = reader.takes("IF", "NOT", "EXISTS")
    name = reader.name()
    has_columns = reader.words() == ["("]
    if has_columns:
        reader.items()
    has_format = reader.takes("USING")
    if has_format and reader.identifier().lower() != "lance_df":
        raise NotKnownError
    path: str | None = None
    query: str | None = None
    partition_by: tuple[str, ...] = ()
    while not reader.is_at_end:
        if reader.takes("LOCATION"):
            path = reader.string()
        elif reader.takes("PARTITIONED", "BY"):
            partition_by = reader.items()
        elif reader.takes("OPTIONS", "("):
            if reader.identifier().lower() != "path":
                raise NotKnownError
            reader.takes("=")
            path = reader.string()
            reader.expect(")")
        elif reader.takes("AS") or reader.words()[0] in _QUERY:
            query = reader.rest()
            break
        else:
            raise NotKnownError
    if not has_format and (query is None or path is not None or has_columns):
        raise NotKnownError
    return SparkCreate(
        name,
        query,
        path,
        partition_by,
        if_not_exists=if_not_exists,
        has_format=has_format,
        has_columns=has_columns,
        is_replaced=is_replaced,
    )


def _drop(reader: SparkReader) -> SparkDrop:
    kind = "TABLE" if reader.takes("TABLE") else "VIEW"
    if kind == "VIEW":
        reader.expect("VIEW")
    reader.takes("IF", "EXISTS")
    return SparkDrop(reader.name(), kind)


def _other_form(reader: SparkReader) -> SparkStatement | None:
    """Return a marker for a CREATE or a change in a form that is not supported here; None for others."""
    try:
        if reader.takes("CREATE", "TABLE"):
            return _other_create(reader)
        return _other_change(reader) if reader.words()[:1] and reader.words()[0] in _MAY_CHANGE else None
    except NotKnownError:
        return None


def _other_create(reader: SparkReader) -> OtherCreate | None:
    while not reader.takes("USING"):
        reader.skip()
    if reader.identifier().lower() != "lance_df":
        return None
    while not reader.takes("AS"):
        reader.skip()
    return OtherCreate() if reader.words()[:1] and reader.words()[0] in _QUERY else None


def _other_change(reader: SparkReader) -> OtherInsert | SparkChange | None:
    if reader.takes("WITH"):
        reader.skip_queries()
    verb = next((each[0] for each in _CHANGES if reader.takes(*each)), None)  # elsewhere it is a column
    if verb is not None:
        return SparkChange(reader.name(), verb)
    depth = 0
    target: tuple[str, ...] | None = None
    while not reader.is_at_end:
        word = reader.words()[0]
        depth += (word == "(") - (word == ")")
        if reader.takes("WITH", "(", "PATH"):  # options, which Spark passes on
            return None
        is_first = target is None and depth == 0
        if is_first and (reader.takes("INSERT", "INTO") or reader.takes("INSERT", "OVERWRITE")):
            reader.takes("TABLE")
            target = reader.name()
        else:
            reader.skip()
    return None if target is None else OtherInsert(target)
