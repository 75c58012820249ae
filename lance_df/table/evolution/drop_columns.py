"""Remove columns from the schema; their data stays in the files. Spec: table format, chapter 11."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from lance_df.errors import InvalidInputError, UnsupportedFeatureError
from lance_df.format.operations import Merge, Project
from lance_df.format.schema import Schema
from lance_df.table.evolution.column_files import columns_written, with_columns_of
from lance_df.table.evolution.fields import edited, find_field
from lance_df.table.evolution.live_rows import read_live

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from lance_df.format.fragments import Fragment
    from lance_df.format.schema import Field
    from lance_df.table.table import Table


@contextmanager
def columns_dropped(table: Table, paths: Sequence[str]) -> Iterator[Merge | Project]:
    """Drop columns or fields of structs; a struct without fields, or a list of such, is dropped, too.

    A fragment may be left without data files, as the other columns never had values. It gets a file with
    nulls, as pylance cannot read fragments without files. The file is deleted if the block fails.

    Yields
    ------
    The operation.

    Raises
    ------
    ColumnNotFoundError
        There is no such column.
    InvalidInputError
        No column would be left.
    UnsupportedFeatureError
        A column is inside a list or a map.
    """
    schema = schema_without(table.schema, paths, source=table.uri)
    bare = _bare_fragments(table, schema)
    if not bare:
        yield Project(schema, preserves_nullability=True)
        return
    # the dropped fields of a struct say where it is NULL; in 2.0 files it never is
    fields = tuple(each for each in schema.fields if each.is_struct and table.manifest.file_version != "2.0")
    if not fields:
        fields = (next((each for each in schema.fields if not each.is_struct), schema.fields[0]),)
    part = Schema(fields=fields, metadata=schema.metadata)

    def values(fragment: Fragment) -> Iterator[list[pa.Array]]:
        return read_live(table, fragment, fields)

    with columns_written(table, bare, part, values) as files:
        fragments = tuple(
            with_columns_of(fragment, files[fragment.id], schema) if fragment.id in files else fragment
            for fragment in table.fragments
        )
        yield Merge(fragments, schema, preserves_nullability=True)


def _bare_fragments(table: Table, schema: Schema) -> list[Fragment]:
    ids = schema.by_id().keys()
    bare = (
        position
        for position, message in enumerate(table.fragments.to_proto())
        if all(ids.isdisjoint(file.fields) for file in message.files)
    )
    return [table.fragments[position] for position in bare]


def schema_without(schema: Schema, paths: Sequence[str], *, source: str) -> Schema:
    """Return a schema without some columns or fields of structs.

    Parameters
    ----------
    source
        The owner of the schema, for messages.

    Raises
    ------
    ColumnNotFoundError, InvalidInputError, UnsupportedFeatureError
        See `columns_dropped`.
    """
    gone = set()
    for path in paths:
        *parents, field = find_field(schema, path)
        of_map = any(parent.logical_type == "map" for parent in parents[-2:])
        if of_map or any(not parent.is_struct or parent.is_packed for parent in parents[-1:]):
            raise UnsupportedFeatureError(
                f"{path!r} is not a field of a struct, so it cannot be dropped on its own"
            )
        gone.add(field.id)

    def remaining(field: Field) -> Field | None:
        if field.id in gone:
            return None
        if field.logical_type == "map" and len(field.children[0].children) < 2:
            return None  # without values
        return None if had_children[field.id] and not field.children else field

    had_children = {field.id: bool(field.children) for field in schema.walk()}
    left = edited(schema, remaining)
    if not left.fields:
        raise InvalidInputError(f"{source}: cannot drop all columns")
    return left
