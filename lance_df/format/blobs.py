"""Blob columns: large binaries stored outside the pages, which hold a description of each.

A reader returns the bytes for a field of the schema, and the descriptions for the `blob_description` of that
field. Tables return descriptions unless bytes are requested; single files return bytes.
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
"""Blobs to be written into a file: either their bytes, or a byte range of the file at a URI.

``position`` and ``size`` are null if the blob is the whole file. If ``is_copied``, the bytes are copied into
the table; otherwise a reference is stored, and ``base_id`` names the base path that the URI is relative to
(0: none; null: not known yet).
"""

DESCRIPTOR: Final = pa.struct([pa.field("position", pa.uint64()), pa.field("size", pa.uint64())])
"""The type of a blob column of a 2.0 or 2.1 file as it is read."""

DESCRIPTOR_2_2: Final = pa.struct(
    [
        pa.field("kind", pa.uint8(), nullable=False),
        pa.field("position", pa.uint64(), nullable=False),
        pa.field("size", pa.uint64(), nullable=False),
        pa.field("blob_id", pa.uint32(), nullable=False),
        pa.field("blob_uri", pa.string(), nullable=False),
    ]
)
"""The type of a blob column of a 2.2 file as it is read."""

INLINE, PACKED, DEDICATED, EXTERNAL = range(4)
"""Where a 2.2 blob is stored: the data file, a shared file, a file of its own, or an external URI."""

_THRESHOLD_KEYS = {
    "inline": "lance-encoding:blob-inline-size-threshold",
    "dedicated": "lance-encoding:blob-dedicated-size-threshold",
    "pack_file": "lance-encoding:blob-pack-file-size-threshold",
}
_MAX_THRESHOLD = 2**64 - 1

_BYTES_OR_URI = pa.struct([pa.field("data", pa.large_binary()), pa.field("uri", pa.string())])
_INPUT_NAMES = (("data", "uri"), ("data", "uri", "position", "size"))
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
    """The sizes in bytes that decide where 2.2 blobs are stored. The defaults are those of pylance.

    Attributes
    ----------
    inline
        Blobs up to this size are stored in the data file.
    dedicated
        Blobs above this size are stored in a file of their own; this is checked first.
    pack_file
        The maximum size of a file that holds several blobs.
    """

    inline: int = 64 * 1024
    dedicated: int = 4 * 1024**2
    pack_file: int = 1024**3

    @classmethod
    def of(cls, metadata: Mapping[str, bytes]) -> BlobThresholds:
        """Return the thresholds in the metadata of a field.

        Raises
        ------
        InvalidInputError
            A threshold is not a number, or is too small.
        """
        given = {}
        for name, key in _THRESHOLD_KEYS.items():
            if key not in metadata:
                continue
            text = metadata[key].decode(errors="replace")
            least = 0 if name == "inline" else 1
            if not (text.isascii() and text.isdigit() and least <= int(text[:21]) <= _MAX_THRESHOLD):
                raise InvalidInputError(
                    f"{key} must be a number of bytes of at least {least}, got {text!r:.60}"
                )
            given[name] = int(text)
        return cls(**given)


def check_same_thresholds(stored: Field, given: Field) -> None:
    """Check that data for a blob column does not contradict the thresholds of the column.

    Raises
    ------
    InvalidInputError
        The thresholds differ.
    """
    ours, theirs = BlobThresholds.of(stored.metadata), BlobThresholds.of(given.metadata)
    for name, key in _THRESHOLD_KEYS.items():
        if key in given.metadata and getattr(theirs, name) != getattr(ours, name):
            raise InvalidInputError(
                f"column {stored.name!r} has {key} {getattr(ours, name)}, but the data has "
                f"{getattr(theirs, name)}; the thresholds of a column cannot be changed"
            )


def blob_description(field: Field) -> Field:
    """Return a blob field as a struct that describes where each value is stored; return other fields as is.

    In struct and list fields, the blobs at any depth are replaced. The description of a 2.2 blob has more
    fields than position and size, since the blob may be stored in another file.
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
    """Return the schema of a new table; in 2.2, large binary blobs become structs of bytes or URI.

    Raises
    ------
    UnsupportedFeatureError
        A type is nested too deeply.
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


def is_blob_input(data_type: pa.DataType) -> bool:
    """Return whether a type is that of 2.2 blobs as they are written: with bytes and a URI."""
    if not pa.types.is_struct(data_type):
        return False
    names = tuple(field.name for field in data_type)
    return names in _INPUT_NAMES and data_type.field(0).type == pa.large_binary()


def is_blob_description(field: Field) -> bool:
    """Return whether a field was made by `blob_description` from a blob of a 2.0 or 2.1 file."""
    return field.is_blob and field.is_struct and field.children == _DESCRIPTION
