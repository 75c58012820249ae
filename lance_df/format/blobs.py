"""Blob columns: large binaries that lie outside the pages, found by a description each.

A reader returns the bytes for the field as the schema has it, and the descriptions for `blob_description` of
it. Tables show descriptions unless they are asked for bytes; single files show bytes.
"""

from __future__ import annotations

import dataclasses

import pyarrow as pa

from lance_df.format.schema import (
    BLOB_EXTENSION,
    BLOB_KEY,
    EXTENSION_METADATA,
    EXTENSION_NAME,
    PACKED_KEYS,
    Field,
)

_BYTES_OR_URI = pa.struct([pa.field("data", pa.large_binary()), pa.field("uri", pa.string())])
_DESCRIPTION = tuple(Field(id=-1, name=name, logical_type="uint64") for name in ("position", "size"))
_DESCRIPTION_2_2 = tuple(
    Field(id=-1, name=name, logical_type=logical_type, nullable=False)
    for name, logical_type in (
        ("kind", "uint8"),
        ("position", "uint64"),
        ("size", "uint64"),
        ("blob_id", "uint32"),
        ("blob_uri", "string"),
    )
)


def blob_description(field: Field) -> Field:
    """Return a blob field as structs that say where each value is; other fields as they are.

    Struct and list fields are returned with the blobs below them described. Blobs of 2.2 files, which may lie
    in files of their own, have more to say than the position and size of those before.
    """
    if field.is_blob and field.is_struct and field.children != _DESCRIPTION:
        dropped = (EXTENSION_NAME, EXTENSION_METADATA)
        metadata = {key: value for key, value in field.metadata.items() if key not in dropped}
        metadata |= {PACKED_KEYS[0]: b"true", BLOB_KEY: b"true"}
        return dataclasses.replace(field, children=_DESCRIPTION_2_2, metadata=metadata)
    if field.is_blob and field.logical_type == "large_binary":
        return dataclasses.replace(field, logical_type="struct", children=_DESCRIPTION)
    if field.children:
        return field.with_children(blob_description(child) for child in field.children)
    return field


def blobs_as_stored(schema: pa.Schema, version: str) -> pa.Schema:
    """Return the schema of a new table: from 2.2 on, blobs given as large binaries become bytes or URIs."""
    return schema if version != "2.2" else pa.schema(map(_blob_as_stored, schema), schema.metadata)


def _blob_as_stored(field: pa.Field) -> pa.Field:
    metadata = dict(field.metadata or {})
    if pa.types.is_struct(field.type) and metadata.get(EXTENSION_NAME.encode()) != BLOB_EXTENSION:
        return field.with_type(pa.struct(list(map(_blob_as_stored, field.type))))
    if pa.types.is_large_binary(field.type) and metadata.pop(BLOB_KEY.encode(), b"").lower() == b"true":
        return field.with_type(_BYTES_OR_URI).with_metadata(
            {**metadata, EXTENSION_NAME.encode(): BLOB_EXTENSION}
        )
    return field


def is_blob_description(field: Field) -> bool:
    """Return whether `blob_description` made this field, of a blob before 2.2."""
    return field.is_blob and field.is_struct and field.children == _DESCRIPTION
