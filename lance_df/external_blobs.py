"""Blobs that are references to files elsewhere: stored as such only when that was asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lance_df.errors import InvalidInputError, UnsupportedFeatureError

if TYPE_CHECKING:
    from collections.abc import Iterator

_BLOBS = "lance.blob.v2"
_EXTENSION_NAME = b"ARROW:extension:name"


def checked_references(
    schema: pa.Schema, batches: Iterator[pa.RecordBatch], *, mode: str, allow_outside: bool
) -> Iterator[pa.RecordBatch]:
    """Pass batches on whose blobs may be stored as they are.

    Parameters
    ----------
    mode
        ``"reference"``: references are stored. ``"ingest"``: what they refer to would be.
    allow_outside
        Whether references may name any place.

    Raises
    ------
    InvalidInputError
        A reference, which is not allowed; or an unknown mode.
    UnsupportedFeatureError
        A reference that is to be replaced by what it refers to.
    """
    if mode not in ("reference", "ingest"):
        raise InvalidInputError(f"external_blob_mode is {mode!r}, expected 'reference' or 'ingest'")
    if allow_outside and mode == "ingest":
        raise InvalidInputError(
            "allow_external_blob_outside_bases only applies when external_blob_mode is 'reference'"
        )
    columns = [place for place, field in enumerate(schema) if _is_blob(field)]
    if allow_outside or not columns:
        return batches
    return (_checked(batch, columns, mode) for batch in batches)


def _is_blob(field: pa.Field) -> bool:
    name = getattr(field.type, "extension_name", None) or (field.metadata or {}).get(_EXTENSION_NAME, b"")
    return name in (_BLOBS, _BLOBS.encode())


def _checked(batch: pa.RecordBatch, columns: list[int], mode: str) -> pa.RecordBatch:
    for place in columns:
        values = batch.column(place)
        storage = values.storage if isinstance(values, pa.ExtensionArray) else values
        if not pa.types.is_struct(storage.type) or storage.type.get_field_index("uri") < 0:
            continue
        lengths = pc.utf8_length(pc.struct_field(storage, "uri"))
        if pc.any(pc.greater(lengths, 0)).as_py():
            name = batch.schema.field(place).name
            if mode == "ingest":
                raise UnsupportedFeatureError(f"column {name!r}: external blobs cannot be ingested")
            raise InvalidInputError(
                f"column {name!r} has external blobs: pass allow_external_blob_outside_bases=True to store "
                "references to them"
            )
    return batch
