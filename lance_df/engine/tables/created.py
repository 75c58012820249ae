"""Parse what statements create, drop or explain, and the names of tables.

The parser is only imported for statements that may create something.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from lance_df.engine.tables.source import TableSource
from lance_df.engine.tables.version_text import VERSION_MARK
from lance_df.errors import InvalidInputError
from lance_df.interrupts import imports_finished

if TYPE_CHECKING:
    from lance_df.sql.statements import CreateExternalTable, CreateView
    from lance_df.table.metadata.refs import VersionRef

_CHANGES: Final = ("insert", "delete", "update", "merge", "truncate", "create", "drop", "alter")
_BEFORE_CHANGES: Final = ("with", "select", "from", "(")
_BEFORE_ANYTHING: Final = ("explain", "prepare")
_CHANGE: Final = re.compile(rf"\b({'|'.join(_CHANGES)}|into)\b", re.IGNORECASE)
# see `lance_df.sql.refused`
_OTHERS: Final = (
    *("vacuum", "optimize", "begin", "start", "commit", "rollback", "replace", "upsert", "restore", "copy"),
    *("describe", "comment"),
)
_ANYTHING: Final = re.compile(rf"\b({'|'.join((*_CHANGES, *_OTHERS))}|into)\b", re.IGNORECASE)
_OF_VERSIONS: Final = re.compile(
    r"\b(?:version|timestamp|system_time|system_version)\s+as\s+of\b", re.IGNORECASE
)

# what may directly precede the FROM with which a query begins; such a query may also follow a WITH or an
# INSERT
_BEGINS_WITH_FROM: Final = re.compile(
    r"(?:^|\(|;|\bAS|\b(?:UNION|EXCEPT|INTERSECT)(?:\s+(?:ALL|DISTINCT|BY\s+NAME))*"
    r"|\b(?:EXPLAIN|DESCRIBE|DESC)(?:\s+(?:ANALYZE|VERBOSE|FORMAT\s+\w+))*|\*/|--[^\n]*\n)\s*FROM\b",
    re.IGNORECASE,
)
_INSERT: Final = re.compile(r"\bINSERT\b", re.IGNORECASE)
_WITH: Final = re.compile(r"\bWITH\b", re.IGNORECASE)
_AFTER_TABLES: Final = re.compile(r"\)\s*FROM\b", re.IGNORECASE)


def name_parts(text: str) -> tuple[str, ...]:
    """Return the parts of the name of a table.

    Raises
    ------
    InvalidInputError
        ``text`` is not the name of a table.
    """
    if not isinstance(text, str):
        raise InvalidInputError(f"the name of a table must be a string, got {type(text).__name__}")
    if text.isascii() and text.isidentifier() and text.islower():
        return (text,)
    from lance_df.sql.statements import parse_name

    return parse_name(text)


def registered_name_parts(text: str) -> tuple[str, ...]:
    """Return the parts of a name as `register_table` reads it. Text that is not an SQL name is one part."""
    try:
        return name_parts(text)
    except InvalidInputError:
        if not isinstance(text, str):
            raise
        return (text,)


def created_external_table(text: str) -> CreateExternalTable | None:
    """Return the parsed CREATE EXTERNAL TABLE statement; None for other statements."""
    if "external" not in text.lower():
        return None
    from lance_df.sql.statements import parse_create_external_table

    return parse_create_external_table(text)


def created_view(text: str) -> CreateView | None:
    """Return the view that a statement creates; None for other statements."""
    if "view" not in text.lower():
        return None
    from lance_df.sql.statements import parse_create_view

    return parse_create_view(text)


def explained_query(text: str) -> str | None:
    """Return the query of an ``EXPLAIN`` without options; None for all other statements."""
    if "explain" not in text.lower():
        return None
    from lance_df.sql.statements import parse_explained

    return parse_explained(text)


def defined_name(text: str) -> tuple[str, ...] | None:
    """Return what `lance_df.sql.statements.parse_defined_name` returns, without the parser where it can."""
    lowered = text.lower()
    if "create" not in lowered and "drop" not in lowered:
        return None
    from lance_df.sql.statements import parse_defined_name

    return parse_defined_name(text)


def query_of_created_table(text: str) -> str | None:
    """Return the query of a ``CREATE TABLE … AS``; None for other statements."""
    if text.lstrip()[:6].lower() != "create":
        return None
    from lance_df.sql.statements import parse_create_table_as

    return parse_create_table_as(text)


def may_change(text: str) -> bool:
    """Whether a statement may change a table. Decided without the parser, so it may be true needlessly."""
    text = text.lstrip()
    word = text[:9].lower()
    if word.startswith(_BEFORE_CHANGES):
        return _CHANGE.search(text) is not None
    if word.startswith(_BEFORE_ANYTHING):
        return _ANYTHING.search(text) is not None
    # a statement after a comment or a semicolon can be of any kind
    return word.startswith((*_CHANGES, *_OTHERS)) or not text[:1].isalpha()


def may_name_versions(text: str) -> bool:
    """Whether a statement may read other versions of tables. Decided without the parser."""
    return _OF_VERSIONS.search(text) is not None


def named_versions(text: str) -> str:
    """Return a statement in which other versions of tables have names that catalogs can resolve."""
    with imports_finished():
        from lance_df.sql.time_travel import with_versions

    return with_versions(text, lambda name, kind, value: f"{name}{VERSION_MARK}{kind} {value}")


def with_selects(text: str) -> str:
    """Return a statement with a SELECT added to each query that begins with FROM and has none."""
    may_begin = _BEGINS_WITH_FROM.search(text) is not None or _INSERT.search(text) is not None
    if not may_begin and (_WITH.search(text) is None or _AFTER_TABLES.search(text) is None):
        return text
    with imports_finished():
        from lance_df.sql.from_first import with_select

    return with_select(text)


def external_source(external: CreateExternalTable, storage_options: Mapping[str, Any] | None) -> TableSource:
    """Open an external table and return its source.

    Raises
    ------
    LanceError
        The table cannot be opened.
    """
    options = {key.removeprefix("format."): value for key, value in external.options}
    version = options.pop("version", None)
    pinned: VersionRef | None = int(version) if version is not None and version.isdecimal() else version
    source = TableSource(
        external.location, version=pinned, storage_options={**(storage_options or {}), **options}
    )
    source.open()
    return source
