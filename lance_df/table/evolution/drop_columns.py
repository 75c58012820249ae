"""Leave columns out of the schema; their data stays in the files. Spec: table format, chapter 11."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_df.errors import InvalidInputError, UnsupportedFeatureError
from lance_df.format.operations import Project
from lance_df.table.evolution.fields import edited, find_field

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance_df.format.schema import Field
    from lance_df.table.table import Table


def columns_dropped(table: Table, paths: Sequence[str]) -> Project:
    """Return the operation that drops columns or fields of structs; a struct without fields goes, too.

    Raises
    ------
    ColumnNotFoundError
        There is no such column.
    InvalidInputError
        Nothing would be left.
    UnsupportedFeatureError
        A column is what a list holds, or a map.
    """
    gone = set()
    for path in paths:
        *parents, field = find_field(table.schema, path)
        if any(not parent.is_struct or parent.is_packed for parent in parents[-1:]):
            raise UnsupportedFeatureError(f"{path!r} is no field of a struct, so it cannot be dropped alone")
        gone.add(field.id)

    def kept(field: Field) -> Field | None:
        if field.id in gone:
            return None
        return None if field.is_struct and not field.children and had_children[field.id] else field

    had_children = {field.id: bool(field.children) for field in table.schema.walk()}
    schema = edited(table.schema, kept)
    if not schema.fields:
        raise InvalidInputError(f"{table.uri}: not all columns can be dropped")
    return Project(schema, preserves_nullability=True)
