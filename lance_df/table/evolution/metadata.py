"""Change the maps of a table: its configuration, and the metadata of the table, its schema and fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from lance_df.errors import InvalidInputError
from lance_df.format.messages import is_text
from lance_df.format.operations import MapUpdate, UpdateConfig
from lance_df.table.evolution.fields import find_field

if TYPE_CHECKING:
    from lance_df.format.schema import Schema


def map_update(values: Mapping[str, str | None], *, replace: bool = False) -> MapUpdate:
    """Return the change of a map; a value of None deletes its key, or is ignored with ``replace``.

    Raises
    ------
    InvalidInputError
        Keys or values are not text.
    """
    if not isinstance(values, Mapping):
        raise InvalidInputError(f"metadata must be a dict of strings, got {type(values).__name__}")
    for key, value in values.items():
        if not is_text(key) or not (value is None or is_text(value)):
            raise InvalidInputError(
                f"metadata keys and values must be strings, got {key!r:.60}: {value!r:.60}"
            )
    entries = tuple((key, value) for key, value in values.items() if value is not None or not replace)
    return MapUpdate(entries, replace=replace)


def field_metadata_update(
    schema: Schema, updates: Mapping[str, Mapping[str, str | None]], *, replace: bool = False
) -> UpdateConfig:
    """Return the operation that changes the metadata of fields, which are given by path.

    Raises
    ------
    ColumnNotFoundError
        There is no such field.
    InvalidInputError
        Keys or values are not text.
    """
    return UpdateConfig(
        field_metadata={
            find_field(schema, path)[-1].id: map_update(values, replace=replace)
            for path, values in updates.items()
        }
    )
