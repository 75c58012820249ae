"""Convert stored types to the types that users see: registered extension types, and JSON as text.

Scans return stored types, whose fields name the extension type in their metadata, as pylance writes them.
"""

from __future__ import annotations

import pyarrow as pa

from lance_df.encodings.arrays import items_of, with_fields, with_items
from lance_df.encodings.jsonb import decode_jsonb
from lance_df.format.schema import EXTENSION_NAME

_EXTENSION = EXTENSION_NAME.encode()
_STORED_JSON = b"lance.json"
_SHOWN_JSON = b"arrow.json"


def shown_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema with the types that users see.

    A field whose extension type is registered with pyarrow has that type; JSON is `arrow.json` over strings.
    """
    fields = [_shown_field(field) for field in schema]
    return pa.Schema._import_from_c_capsule(pa.schema(fields, schema.metadata).__arrow_c_schema__())


def show_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Convert a batch of stored types to ``schema``, the `shown_schema` of its own schema.

    Buffers are shared, except those of JSON columns.

    Raises
    ------
    CorruptDataError
        A JSON column holds values that are not JSON.
    """
    if batch.schema.equals(schema, check_metadata=True) or not batch.num_columns:
        return batch
    fields = [_shown_field(field) for field in batch.schema]
    arrays = [_shown_array(array, field) for array, field in zip(batch.columns, batch.schema, strict=True)]
    plain = pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields, schema.metadata))
    return pa.RecordBatch._import_from_c_capsule(*plain.__arrow_c_array__())


def show_table(table: pa.Table) -> pa.Table:
    """Convert a table of stored types to the types that users see; see `show_batch`."""
    schema = shown_schema(table.schema)
    if not table.num_columns:
        return table
    return pa.Table.from_batches([show_batch(batch, schema) for batch in table.to_batches()], schema)


def _is_json(field: pa.Field) -> bool:
    return field.metadata is not None and field.metadata.get(_EXTENSION) == _STORED_JSON


def _shown_field(field: pa.Field) -> pa.Field:
    if _is_json(field):
        return field.with_type(pa.string()).with_metadata({**field.metadata, _EXTENSION: _SHOWN_JSON})
    return field.with_type(_shown_type(field.type)) if _holds_json(field) else field


def _shown_type(data_type: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(data_type):
        return pa.struct(list(map(_shown_field, data_type)))
    if pa.types.is_map(data_type):
        return pa.map_(data_type.key_field, _shown_field(data_type.item_field), data_type.keys_sorted)
    item = _shown_field(data_type.value_field)
    if pa.types.is_fixed_size_list(data_type):
        return pa.list_(item, data_type.list_size)
    return (pa.large_list if pa.types.is_large_list(data_type) else pa.list_)(item)


def _shown_array(array: pa.Array, field: pa.Field) -> pa.Array:
    if _is_json(field):
        return decode_jsonb(array)
    if not _holds_json(field):
        return array
    if pa.types.is_struct(field.type):
        children = [_shown_array(array.field(index), child) for index, child in enumerate(field.type)]
        fields = [_shown_field(child) for child in field.type]
        return with_fields(array, pa.struct(fields), children)
    (item,) = _inner_fields(field.type)
    items = items_of(array)
    return array if items is None else with_items(array, _shown_type(field.type), _shown_array(items, item))


def _holds_json(field: pa.Field) -> bool:
    return any(_is_json(child) or _holds_json(child) for child in _inner_fields(field.type))


def _inner_fields(data_type: pa.DataType) -> list[pa.Field]:
    """Return the fields of a struct, or of the items of a list or map."""
    kinds = pa.types
    if kinds.is_struct(data_type):
        return list(data_type)
    if kinds.is_map(data_type):
        return [data_type.item_field]
    if kinds.is_list(data_type) or kinds.is_large_list(data_type) or kinds.is_fixed_size_list(data_type):
        return [data_type.value_field]
    return []
