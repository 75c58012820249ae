"""Check schemas before tables are written with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_df.errors import InvalidInputError
from lance_df.file.storable import (
    WRITABLE_VERSIONS,
    check_distinct_names,
    check_no_dot,
    check_storable,
    check_types,
    resolve_version,
)
from lance_df.format.messages import is_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lance_df.format.schema import Field, Schema

__all__ = ["WRITABLE_VERSIONS", "check_schema", "check_types", "resolve_version"]

# names that scans use for system columns
_RESERVED = frozenset(
    {"_rowid", "_rowaddr", "_rowoffset", "_row_created_at_version", "_row_last_updated_at_version"}
)


def check_schema(schema: Schema, version: str) -> None:
    """Check that a table with this schema can be written in a file version.

    Raises
    ------
    InvalidInputError
        Names are repeated, reserved or not usable.
    UnsupportedFeatureError
        The file version, or this release, does not support a type.
    """
    for field in schema.fields:
        check_column_name(field.name)
    _check_text(schema.walk())
    check_primary_key(schema.fields)
    check_storable(schema, version)


def check_names(schema: Schema, table: Schema | None) -> None:
    """Check the names of a schema that a table gets without new data.

    Parameters
    ----------
    table
        The table's current schema, whose names may stay as they are.

    Raises
    ------
    InvalidInputError
        Names are repeated; or new names are reserved or not usable.
    """
    check_distinct_names(schema.fields)
    known = set() if table is None else {field.name for field in table.fields}
    for field in schema.fields:
        if field.name not in known:
            check_column_name(field.name)
            check_no_dot(field.name)
            _check_text(field.walk())


def _check_text(fields: Iterable[Field]) -> None:
    for field in fields:
        if "\0" in field.name or not is_text(field.name):
            raise InvalidInputError(
                f"column name {field.name!r} contains a NUL character or an unpaired surrogate"
            )


def check_column_name(name: str) -> None:
    """Check the name of a top-level column.

    Raises
    ------
    InvalidInputError
        The name is reserved, or pylance cannot read columns with such a name.
    """
    if name in _RESERVED:
        raise InvalidInputError(f"column name {name!r} is reserved")
    if not name or "`" in name:
        raise InvalidInputError(f"column name {name!r} is not allowed, because pylance cannot read it")


def check_primary_key(fields: Iterable[Field], *, may_be_null: bool = False) -> None:
    """Check that the columns of the primary key, and structs around them, are not nullable.

    Parameters
    ----------
    may_be_null
        Whether a struct around the fields is nullable.

    Raises
    ------
    InvalidInputError
        One of them is nullable; pylance cannot open such a table.
    """
    for field in fields:
        optional = may_be_null or field.nullable
        if optional and field.primary_key_position is not None:
            raise InvalidInputError(
                f"column {field.name!r} is part of the primary key; neither it nor a struct around it may "
                "be nullable"
            )
        check_primary_key(field.children, may_be_null=optional)


def check_complete(part: Schema, table: Schema, version: str) -> None:
    """Check that new rows have all columns of the table, as file version 0.1 requires.

    Raises
    ------
    InvalidInputError
        A column is missing.
    """
    given = part.by_id()
    missing = [field.name for field in table.walk() if field.id not in given]
    if version == "0.1" and missing:
        raise InvalidInputError(
            f"the columns {', '.join(map(repr, missing))} are missing in the data; in tables of file "
            "version 0.1 rows must have values in all columns"
        )
