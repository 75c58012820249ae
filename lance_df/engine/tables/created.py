"""What statements create or drop: tables of other places, views, tables of queries; the names of tables.

The parser is imported for statements only that may create something.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lance_df.engine.tables.source import TableSource
from lance_df.errors import InvalidInputError

if TYPE_CHECKING:
    from lance_df.sql.statements import CreateExternalTable, CreateView
    from lance_df.table.metadata.refs import VersionRef


def name_parts(text: str) -> tuple[str, ...]:
    """Return the parts of the name of a table.

    Raises
    ------
    InvalidInputError
        It is none.
    """
    if not isinstance(text, str):
        raise InvalidInputError(f"the name of a table is text, not {type(text).__name__}")
    if text.isascii() and text.isidentifier() and text.islower():
        return (text,)
    from lance_df.sql.statements import parse_name

    return parse_name(text)


def registered_name_parts(text: str) -> tuple[str, ...]:
    """Return the parts of a name as `register_table` reads it: what is no SQL name is a name as it is."""
    try:
        return name_parts(text)
    except InvalidInputError:
        if not isinstance(text, str):
            raise
        return (text,)


def created_external_table(text: str) -> CreateExternalTable | None:
    """Return what a statement says of an external table; None for other statements."""
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


def external_source(external: CreateExternalTable, storage_options: Mapping[str, Any] | None) -> TableSource:
    """Return the source of an external table, which has been opened once.

    Raises
    ------
    LanceError
        It cannot be opened.
    """
    options = {key.removeprefix("format."): value for key, value in external.options}
    version = options.pop("version", None)
    pinned: VersionRef | None = int(version) if version is not None and version.isdecimal() else version
    source = TableSource(
        external.location, version=pinned, storage_options={**(storage_options or {}), **options}
    )
    source.open()
    return source
