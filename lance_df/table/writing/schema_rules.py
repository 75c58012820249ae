"""What a schema must be like before a table is written with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_df.errors import InvalidInputError
from lance_df.file.storable import WRITABLE_VERSIONS, check_storable, resolve_version
from lance_df.format.messages import is_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lance_df.format.schema import Field, Schema

__all__ = ["WRITABLE_VERSIONS", "check_schema", "resolve_version"]

# names that scans use for columns of their own
_RESERVED = frozenset(
    {"_rowid", "_rowaddr", "_rowoffset", "_row_created_at_version", "_row_last_updated_at_version"}
)


def check_schema(schema: Schema, version: str) -> None:
    """Check that a table with this schema can be written in a file version.

    Raises
    ------
    InvalidInputError
        Duplicate or reserved names, or names that cannot be referred to.
    UnsupportedFeatureError
        A type that the version, or this release, cannot store.
    """
    for field in schema.fields:
        check_column_name(field.name)
    for field in schema.walk():
        if "\0" in field.name or not is_text(field.name):
            raise InvalidInputError(
                f"column name {field.name!r} has a NUL character, or half a surrogate pair"
            )
    check_primary_key(schema.fields)
    check_storable(schema, version)


def check_column_name(name: str) -> None:
    """Check the name of a top-level column.

    Raises
    ------
    InvalidInputError
        It is reserved, or pylance cannot read columns that are called so.
    """
    if name in _RESERVED:
        raise InvalidInputError(f"column name {name!r} is reserved")
    if not name or "`" in name:
        raise InvalidInputError(f"column name {name!r}: pylance cannot read such columns")


def check_primary_key(fields: Iterable[Field], *, may_be_null: bool = False) -> None:
    """Check that columns of the primary key, and structs around them, must not be null.

    Parameters
    ----------
    may_be_null
        Whether what is above the fields may be null.

    Raises
    ------
    InvalidInputError
        One may be null: pylance opens no such table.
    """
    for field in fields:
        optional = may_be_null or field.nullable
        if optional and field.primary_key_position is not None:
            raise InvalidInputError(
                f"column {field.name!r} is of the primary key: neither it nor a struct around it may be null"
            )
        check_primary_key(field.children, may_be_null=optional)


def check_complete(part: Schema, table: Schema, version: str) -> None:
    """Check that new rows bring values for all columns, where a table needs that: in file version 0.1.

    Raises
    ------
    InvalidInputError
        A column is missing.
    """
    given = part.by_id()
    missing = [field.name for field in table.walk() if field.id not in given]
    if version == "0.1" and missing:
        raise InvalidInputError(
            f"the data does not have the columns {', '.join(map(repr, missing))}; "
            "rows of file version 0.1 have values in all columns of the table"
        )
