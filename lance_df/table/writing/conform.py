"""Convert incoming data to the schema of a table: columns by name, in Arrow's storage types."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_df.errors import InvalidInputError
from lance_df.file.conform import conform_array
from lance_df.format.blobs import check_same_thresholds
from lance_df.format.schema import Schema, schema_from_arrow

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from lance_df.format.schema import Field


def schema_to_write(data: pa.Schema, table: Schema) -> Schema:
    """Return the part of a table's schema for which data has values.

    Columns are matched by name at every level. Their order does not count, and nullable columns may be
    missing.

    Raises
    ------
    InvalidInputError
        The table lacks a column, a type differs, or a column is missing that is not nullable.
    UnsupportedFeatureError
        The format does not support a type.
    """
    given = schema_from_arrow(data)
    return Schema(fields=_matched(table.fields, given.fields, ""), metadata=table.metadata)


def _matched(table: Sequence[Field], given: Sequence[Field], within: str) -> tuple[Field, ...]:
    by_name = {field.name: field for field in given}
    if len(by_name) != len(given):
        raise InvalidInputError(f"the data has duplicate column names {within and 'in ' + within}".rstrip())
    unknown = by_name.keys() - {field.name for field in table}
    if unknown:
        names = ", ".join(sorted(within + name for name in unknown))
        raise InvalidInputError(f"the data has columns that do not exist in the table: {names}")
    matched = []
    for field in table:
        path = within + field.name
        if field.name not in by_name:
            if not field.nullable:
                raise InvalidInputError(f"column {path!r} is not nullable, but is missing in the data")
            continue
        matched.append(_matched_field(field, by_name[field.name], path))
    return tuple(matched)


def _matched_field(table: Field, given: Field, path: str) -> Field:
    if table.is_blob and table.is_struct and given.is_blob:
        check_same_thresholds(table, given)
        return table  # given as bytes, or as one of the struct types of blobs
    # the items of lists may have any name; a blob given as bytes becomes a struct
    if table.logical_type.removesuffix(".struct") != given.logical_type.removesuffix(".struct"):
        raise InvalidInputError(
            f"column {path!r} has type {table.logical_type}, but type {given.logical_type} in the data"
        )
    if table.is_struct:
        return table.with_children(_matched(table.children, given.children, f"{path}."))
    pairs = zip(table.children, given.children, strict=True)
    return table.with_children(_matched_field(mine, theirs, f"{path}.{mine.name}") for mine, theirs in pairs)


def conform(batch: pa.RecordBatch, schema: Schema) -> list[pa.Array]:
    """Return one array of storage type for each field of ``schema``, a result of :func:`schema_to_write`."""
    return [conform_array(batch.column(field.name), field) for field in schema.fields]
