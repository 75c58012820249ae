"""Bring incoming data into the shape of a table: columns by name, in Arrow's storage types."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_df.errors import InvalidInputError
from lance_df.format.schema import Schema, schema_from_arrow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance_df.format.schema import Field


def schema_to_write(data: pa.Schema, table: Schema) -> Schema:
    """Return the part of a table's schema that data brings values for.

    Columns are matched by name at every level; the order does not count, and nullable columns may be missing.

    Raises
    ------
    InvalidInputError
        A column that the table does not have, another type, or a missing column that must not be null.
    UnsupportedFeatureError
        A type that the format cannot hold.
    """
    given = schema_from_arrow(data)
    return Schema(fields=_matched(table.fields, given.fields, ""), metadata=table.metadata)


def _matched(table: Sequence[Field], given: Sequence[Field], within: str) -> tuple[Field, ...]:
    by_name = {field.name: field for field in given}
    if len(by_name) != len(given):
        raise InvalidInputError(f"the data has two columns of one name {within and 'in ' + within}".rstrip())
    unknown = by_name.keys() - {field.name for field in table}
    if unknown:
        names = ", ".join(sorted(within + name for name in unknown))
        raise InvalidInputError(f"the data has columns that the table does not have: {names}")
    matched = []
    for field in table:
        path = within + field.name
        if field.name not in by_name:
            if not field.nullable:
                raise InvalidInputError(f"column {path!r} must not be null, but the data does not have it")
            continue
        matched.append(_matched_field(field, by_name[field.name], path))
    return tuple(matched)


def _matched_field(table: Field, given: Field, path: str) -> Field:
    if table.logical_type != given.logical_type:
        raise InvalidInputError(
            f"column {path!r} is of type {table.logical_type}, the data has {given.logical_type}"
        )
    if table.is_struct:
        return table.with_children(_matched(table.children, given.children, f"{path}."))
    pairs = zip(table.children, given.children, strict=True)
    return table.with_children(_matched_field(mine, theirs, f"{path}.{mine.name}") for mine, theirs in pairs)


def conform(batch: pa.RecordBatch, schema: Schema) -> list[pa.Array]:
    """Return one array of storage type for each field of ``schema``, a result of :func:`schema_to_write`."""
    return [_conform(batch.column(field.name), field, field.arrow_type()) for field in schema.fields]


def _conform(array: pa.Array, field: Field, wanted: pa.DataType) -> pa.Array:
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if array.type == wanted:
        return array
    if field.is_struct:
        children = [
            _conform(array.field(array.type.get_field_index(child.name)), child, child.arrow_type())
            for child in field.children
        ]
        validity = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(
            children, fields=[c.to_arrow() for c in field.children], mask=validity
        )
    if field.children:
        return _conform_items(array, field, wanted)
    return array.cast(wanted)


def _conform_items(array: pa.Array, field: Field, wanted: pa.DataType) -> pa.Array:
    """Conform what is in a list, a map or a fixed-size list; offsets and validity stay."""
    (child,) = field.children
    valid = None
    if array.null_count:
        valid = pa.py_buffer(np.packbits(array.is_valid().to_numpy(zero_copy_only=False), bitorder="little"))
    if pa.types.is_fixed_size_list(wanted):
        size = wanted.list_size
        items, buffers = array.values.slice(array.offset * size, len(array) * size), [valid]
    else:
        items, buffers = array.values, [valid, pa.py_buffer(array.offsets.to_numpy())]
    conformed = _conform(items, child, child.arrow_type())
    return pa.Array.from_buffers(wanted, len(array), buffers, children=[conformed])
