"""Blob columns: large binaries that lie outside the pages, found by a description each.

A reader returns the bytes for the field as the schema has it, and the descriptions for `blob_description` of
it. Tables show descriptions unless they are asked for bytes; single files show bytes.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from lance_df.errors import InvalidInputError
from lance_df.format.depth import check_depth
from lance_df.format.schema import (
    BLOB_EXTENSION,
    BLOB_KEY,
    EXTENSION_METADATA,
    EXTENSION_NAME,
    PACKED_KEYS,
    Field,
)
from lance_df.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

MOVED_BLOB: Final = pa.struct(
    [
        pa.field("data", pa.large_binary()),
        pa.field("uri", pa.string()),
        pa.field("position", pa.uint64()),
        pa.field("size", pa.uint64()),
        pa.field("base_id", pa.uint32()),
        pa.field("is_copied", pa.bool_()),
    ]
)
"""Blobs on their way into a file: bytes, or a place at a URI.

``position`` and ``size`` are null for all of a file. The bytes at the place are copied into the table if
``is_copied``; otherwise a reference to it is stored, which ``base_id`` makes relative to a base path (0: to
none; null: not known yet).
"""

DESCRIPTOR: Final = pa.struct([pa.field("position", pa.uint64()), pa.field("size", pa.uint64())])
"""What a blob column of 2.0 and 2.1 is read as."""

DESCRIPTOR_2_2: Final = pa.struct(
    [
        pa.field("kind", pa.uint8(), nullable=False),
        pa.field("position", pa.uint64(), nullable=False),
        pa.field("size", pa.uint64(), nullable=False),
        pa.field("blob_id", pa.uint32(), nullable=False),
        pa.field("blob_uri", pa.string(), nullable=False),
    ]
)
"""What a blob column of 2.2 is read as."""

INLINE, PACKED, DEDICATED, EXTERNAL = range(4)
"""Kinds of places of 2.2 blobs: the data file, a file of several beside it, one of its own, elsewhere."""

_THRESHOLD_KEYS = {
    "inline": "lance-encoding:blob-inline-size-threshold",
    "dedicated": "lance-encoding:blob-dedicated-size-threshold",
    "pack_file": "lance-encoding:blob-pack-file-size-threshold",
}
_MAX_THRESHOLD = 2**64 - 1

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


@dataclass(frozen=True, slots=True)
class BlobThresholds:
    """Where 2.2 blobs lie, by their sizes in bytes. The defaults are pylance's.

    Attributes
    ----------
    inline
        Up to this size, in the data file.
    dedicated
        Above this size, in a file of their own; checked first.
    pack_file
        How large a file of several blobs gets.
    """

    inline: int = 64 * 1024
    dedicated: int = 4 * 1024**2
    pack_file: int = 1024**3

    @classmethod
    def of(cls, metadata: Mapping[str, bytes]) -> BlobThresholds:
        """Return the thresholds that the metadata of a field says.

        Raises
        ------
        InvalidInputError
            One is no number, or too small.
        """
        given = {}
        for name, key in _THRESHOLD_KEYS.items():
            if key not in metadata:
                continue
            text = metadata[key].decode(errors="replace")
            least = 0 if name == "inline" else 1
            if not (text.isascii() and text.isdigit() and least <= int(text[:21]) <= _MAX_THRESHOLD):
                raise InvalidInputError(f"{key} is {text!r:.60}, expected a number of bytes from {least} on")
            given[name] = int(text)
        return cls(**given)


def check_same_thresholds(stored: Field, given: Field) -> None:
    """Check that data for a blob column says nothing else about thresholds than the column.

    Raises
    ------
    InvalidInputError
        It does.
    """
    ours, theirs = BlobThresholds.of(stored.metadata), BlobThresholds.of(given.metadata)
    for name, key in _THRESHOLD_KEYS.items():
        if key in given.metadata and getattr(theirs, name) != getattr(ours, name):
            raise InvalidInputError(
                f"column {stored.name!r} has {key} {getattr(ours, name)}, the data says "
                f"{getattr(theirs, name)}: the thresholds of a column stay as they were made"
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
    """Return the schema of a new table: from 2.2 on, blobs given as large binaries become bytes or URIs.

    Raises
    ------
    UnsupportedFeatureError
        A type that is nested too deep.
    """
    check_depth(schema)
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
