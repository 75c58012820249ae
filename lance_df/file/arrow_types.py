"""Types as tables show them: extension types that pyarrow knows, and JSON as text, over the stored types.

Scans return stored types, whose fields name the extension in their metadata, as pylance writes them.
"""

from __future__ import annotations

import pyarrow as pa

from lance_df.encodings.jsonb import decode_jsonb
from lance_df.format.schema import EXTENSION_NAME

_EXTENSION = EXTENSION_NAME.encode()
_STORED_JSON = b"lance.json"
_SHOWN_JSON = b"arrow.json"


def shown_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema with the types that a user sees.

    A field whose extension type is registered with pyarrow has that type; JSON is `arrow.json` over strings.
    """
    fields = [_shown_field(field) for field in schema]
    return pa.Schema._import_from_c_capsule(pa.schema(fields, schema.metadata).__arrow_c_schema__())


def show_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch of stored types as one of ``schema``, which `shown_schema` made of its schema.

    Buffers are shared, except those of JSON columns.

    Raises
    ------
    CorruptDataError
        A JSON column holds something else.
    """
    if batch.schema.equals(schema, check_metadata=True) or not batch.num_columns:
        return batch
    fields = [_shown_field(field) for field in batch.schema]
    arrays = [_shown_array(array, field) for array, field in zip(batch.columns, batch.schema, strict=True)]
    plain = pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields, schema.metadata))
    return pa.RecordBatch._import_from_c_capsule(*plain.__arrow_c_array__())


def show_table(table: pa.Table) -> pa.Table:
    """Return a table of stored types as a user sees it; see `show_batch`."""
    schema = shown_schema(table.schema)
    if not table.num_columns:
        return table
    return pa.Table.from_batches([show_batch(batch, schema) for batch in table.to_batches()], schema)


def _is_json(field: pa.Field) -> bool:
    return field.metadata is not None and field.metadata.get(_EXTENSION) == _STORED_JSON


def _shown_field(field: pa.Field) -> pa.Field:
    if _is_json(field):
        return field.with_type(pa.string()).with_metadata({**field.metadata, _EXTENSION: _SHOWN_JSON})
    if pa.types.is_struct(field.type):
        return field.with_type(pa.struct([_shown_field(child) for child in field.type]))
    return field


def _shown_array(array: pa.Array, field: pa.Field) -> pa.Array:
    if _is_json(field):
        return decode_jsonb(array)
    if pa.types.is_struct(field.type) and _holds_json(field):
        children = [_shown_array(array.field(index), child) for index, child in enumerate(field.type)]
        fields = [_shown_field(child) for child in field.type]
        return pa.StructArray.from_arrays(children, fields=fields, mask=array.is_null())
    return array


def _holds_json(field: pa.Field) -> bool:
    return any(
        _is_json(child) or (pa.types.is_struct(child.type) and _holds_json(child)) for child in field.type
    )
