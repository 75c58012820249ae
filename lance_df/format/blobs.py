"""Blob columns of 2.0 and 2.1: large binaries that lie outside the pages, found by a description each.

A reader returns the bytes for the field as the schema has it, and the descriptions for `blob_description` of
it. Tables show descriptions unless they are asked for bytes; single files show bytes.
"""

from __future__ import annotations

import dataclasses

from lance_df.format.schema import Field

_DESCRIPTION = tuple(Field(id=-1, name=name, logical_type="uint64") for name in ("position", "size"))


def blob_description(field: Field) -> Field:
    """Return a blob field as structs of the position and size of each value; other fields as they are.

    Struct and list fields are returned with the blobs below them described.
    """
    if field.is_blob and field.logical_type == "large_binary":
        return dataclasses.replace(field, logical_type="struct", children=_DESCRIPTION)
    if field.children:
        return field.with_children(blob_description(child) for child in field.children)
    return field


def is_blob_description(field: Field) -> bool:
    """Return whether `blob_description` made this field."""
    return field.is_blob and field.is_struct and field.children == _DESCRIPTION
