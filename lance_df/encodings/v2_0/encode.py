"""Encode columns for 2.0 files: one for each field, depth first, but none below a packed struct.

Format: docs/format/index.md. Structs cannot be null, and have one page without content for all rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_df.encodings.arrays import has_nulls
from lance_df.encodings.encoded_page import EncodedPage
from lance_df.encodings.list_items import list_offsets, selected_items
from lance_df.encodings.v2_0.encode_blobs import encode_blobs
from lance_df.encodings.v2_0.encode_leaf import encode_ends, encode_leaf, encode_packed, flat
from lance_df.errors import InvalidInputError
from lance_df.format.array_encoding_messages import serialize_array_encoding
from lance_df.format.column_metadata import ARRAY_ENCODING_URL
from lance_df.format.encodings_v2_0 import Encoding, ListOffsets, NoNulls, StructHeader

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from lance_df.encodings.encoded_page import Buffer
    from lance_df.format.schema import Field


def column_fields(field: Field) -> Iterator[Field]:
    """Yield the fields that are file columns of a top-level column."""
    yield field
    if not (field.is_struct and field.is_packed):
        for child in field.children:
            yield from column_fields(child)


def column_field_ids(field: Field) -> list[int]:
    """Return the ids of the fields that are file columns of a top-level column."""
    return [node.id for node in column_fields(field)]


def encode_column(field: Field, array: pa.Array, *, version: str) -> list[list[EncodedPage]]:  # noqa: ARG001
    """Encode rows of a top-level column: one page for each of its file columns.

    Raises
    ------
    InvalidInputError
        A struct is null, a packed struct has a null, or a value is null but the schema does not allow it.
    """
    pages: list[EncodedPage] = []
    _encode(field, field.name, array, pages)
    return [[page] for page in pages]


def _encode(field: Field, path: str, array: pa.Array, pages: list[EncodedPage]) -> None:
    if not field.nullable and has_nulls(array):
        raise InvalidInputError(f"column {path!r} is declared not null, but the data holds nulls")
    buffers: list[Buffer] = []
    if field.is_blob:
        pages.append(_page(encode_blobs(array, buffers), buffers, len(array)))
    elif field.is_struct:
        _encode_struct(field, path, array, pages)
    elif field.is_list:
        (child,) = field.children
        offsets = list_offsets(array)
        null = array.is_null().to_numpy(zero_copy_only=False)
        sizes = np.where(null, 0, np.diff(offsets))
        pages.append(_lists(sizes, null))
        _encode(child, f"{path}.{child.name}", selected_items(array, offsets, sizes), pages)
    else:
        pages.append(_page(encode_leaf(field, array, buffers), buffers, len(array)))


def _encode_struct(field: Field, path: str, array: pa.StructArray, pages: list[EncodedPage]) -> None:
    if array.null_count:
        raise InvalidInputError(f"column {path!r}: structs cannot be null in file version 2.0")
    if field.is_packed:
        buffers: list[Buffer] = []
        pages.append(_page(encode_packed(path, array, buffers), buffers, len(array)))
        return
    pages.append(_page(StructHeader(), [], len(array), is_header=True))
    for position, child in enumerate(field.children):
        _encode(child, f"{path}.{child.name}", array.field(position), pages)


def _page(
    encoding: Encoding,
    buffers: list[Buffer],
    num_rows: int,
    *,
    is_header: bool = False,
) -> EncodedPage:
    message = serialize_array_encoding(encoding)
    return EncodedPage(ARRAY_ENCODING_URL, message, tuple(buffers), num_rows, joins_previous=is_header)


def _lists(lengths: npt.NDArray[np.int64], null: npt.NDArray[np.bool_]) -> EncodedPage:
    ends, adjustment = encode_ends(np.cumsum(lengths, dtype=np.int64), null)
    buffers: list[Buffer] = []
    offsets = NoNulls(flat(64, ends, buffers))
    return _page(ListOffsets(offsets, adjustment, adjustment - 1), buffers, len(lengths))
