"""Encode columns for 2.0 files: every field has a column, in depth-first order.

Spec: file format, chapters 3 and 6.2. Offsets are ends, counted anew in each page; what is null is raised
beyond the largest end. Structs cannot be null, and have one page of no content over all rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.encodings.encoded_page import EncodedPage
from lance_df.encodings.list_items import kept_items, list_offsets
from lance_df.encodings.v2_1.encode_values import (
    BooleanValues,
    FixedValues,
    VariableValues,
    is_variable,
    leaf_values,
    pack_bits,
)
from lance_df.errors import InvalidInputError
from lance_df.format.array_encoding_messages import serialize_array_encoding
from lance_df.format.encodings_v2_0 import (
    AllNulls,
    Binary,
    BufferRef,
    Dictionary,
    Encoding,
    FixedSizeList,
    Flat,
    ListOffsets,
    NoNulls,
    SomeNulls,
    StructHeader,
)
from lance_df.format.file_metadata import ARRAY_ENCODING_URL

if TYPE_CHECKING:
    import numpy.typing as npt

    from lance_df.encodings.encoded_page import Buffer
    from lance_df.format.schema import Field

# Strings with fewer distinct values than this are stored as one byte each, as pylance does.
_MAX_DICTIONARY_ITEMS = 100
_MIN_DICTIONARY_ROWS = 100


def column_field_ids(field: Field) -> list[int]:
    """Return the field ids of the file columns that a top-level column takes."""
    return [node.id for node in field.walk()]


def encode_column(field: Field, array: pa.Array, *, version: str) -> list[list[EncodedPage]]:  # noqa: ARG001
    """Encode rows of a top-level column: one page for each of its file columns.

    Raises
    ------
    InvalidInputError
        A null struct, or a null where the schema allows none.
    """
    pages: list[EncodedPage] = []
    _encode(field, field.name, array, pages)
    return [[page] for page in pages]


def _encode(field: Field, path: str, array: pa.Array, pages: list[EncodedPage]) -> None:
    if array.null_count and not field.nullable:
        raise InvalidInputError(f"column {path!r} is declared not null, but the data holds nulls")
    if field.is_struct:
        if array.null_count:
            raise InvalidInputError(f"column {path!r}: structs cannot be null in file version 2.0")
        pages.append(_page(StructHeader(), [], len(array), is_header=True))
        for position, child in enumerate(field.children):
            _encode(child, f"{path}.{child.name}", array.field(position), pages)
    elif field.is_list:
        (child,) = field.children
        offsets = list_offsets(array)
        null = array.is_null().to_numpy(zero_copy_only=False)
        kept = np.where(null, 0, np.diff(offsets))
        pages.append(_lists(kept, null))
        _encode(child, f"{path}.{child.name}", kept_items(array, offsets, kept), pages)
    else:
        buffers: list[Buffer] = []
        encoding = _values(array, buffers)
        pages.append(_page(encoding, buffers, len(array)))


def _page(
    encoding: Encoding, buffers: list[Buffer], num_rows: int, *, is_header: bool = False
) -> EncodedPage:
    message = serialize_array_encoding(encoding)
    return EncodedPage(ARRAY_ENCODING_URL, message, tuple(buffers), num_rows, joins_previous=is_header)


def _lists(lengths: npt.NDArray[np.int64], null: npt.NDArray[np.bool_]) -> EncodedPage:
    ends, adjustment = _ends(lengths, null)
    buffers: list[Buffer] = []
    offsets = NoNulls(_flat(64, ends.tobytes(), buffers))
    return _page(ListOffsets(offsets, adjustment, adjustment - 1), buffers, len(lengths))


def _ends(
    lengths: npt.NDArray[np.int64], null: npt.NDArray[np.bool_] | None
) -> tuple[npt.NDArray[np.uint64], int]:
    """Return the end of each value, raised where it is null, and by how much."""
    ends = np.cumsum(lengths, dtype=np.int64)
    adjustment = int(ends[-1]) + 1 if len(ends) else 1
    if null is not None:
        ends = ends + np.where(null, adjustment, 0)
    return ends.astype("<u8"), adjustment


def _values(array: pa.Array, buffers: list[Buffer]) -> Encoding:
    """Encode leaf values, appending their buffers to those that the page has."""
    if pa.types.is_dictionary(array.type):
        return _dictionary_typed(array, buffers)
    if is_variable(array.type):
        return _try_short_dictionary(array, buffers) or _binary(array, buffers)
    if array.null_count == len(array) and len(array):
        return AllNulls()
    if pa.types.is_null(array.type):
        return AllNulls()
    if not array.null_count:
        return NoNulls(_plain(array, buffers))
    validity = pack_bits(array.is_valid().to_numpy(zero_copy_only=False))
    return SomeNulls(_flat(1, validity.tobytes(), buffers), _plain(array, buffers))


def _plain(array: pa.Array, buffers: list[Buffer]) -> Encoding:
    """Encode values that have a fixed width, whether or not they are null."""
    if pa.types.is_fixed_size_list(array.type):
        size = array.type.list_size
        items = array.values.slice(array.offset * size, len(array) * size)
        return FixedSizeList(size, _values(items, buffers))
    values = leaf_values(array)
    if isinstance(values, BooleanValues):
        return _flat(1, values.bitmap.data, buffers)
    if not isinstance(values, FixedValues):
        raise TypeError(f"not a fixed-width type: {array.type}")
    return _flat(values.width_bytes * 8, values.data.data, buffers)


def _binary(array: pa.Array, buffers: list[Buffer]) -> Encoding:
    null = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
    values = leaf_values(array, None if null is None else ~null)
    if not isinstance(values, VariableValues):
        raise TypeError(f"not a variable-width type: {array.type}")
    ends, adjustment = _ends(np.diff(values.offsets), null)
    indices = NoNulls(_flat(64, ends.tobytes(), buffers))
    return Binary(indices, _flat(8, values.data.data, buffers), adjustment)


def _try_short_dictionary(array: pa.Array, buffers: list[Buffer]) -> Encoding | None:
    """Store strings with few distinct values as one byte each: 0 is null, k stands for item k - 1."""
    if not pa.types.is_string(array.type) or len(array) < _MIN_DICTIONARY_ROWS:
        return None
    if pc.count_distinct(array[:1000]).as_py() >= _MAX_DICTIONARY_ITEMS:
        return None
    coded = array.dictionary_encode()
    if not 0 < len(coded.dictionary) < _MAX_DICTIONARY_ITEMS:
        return None
    codes = pc.fill_null(coded.indices, -1).to_numpy() + 1
    indices = NoNulls(_flat(8, codes.astype(np.uint8).tobytes(), buffers))
    return Dictionary(indices, _binary(coded.dictionary, buffers), len(coded.dictionary))


def _dictionary_typed(array: pa.DictionaryArray, buffers: list[Buffer]) -> Encoding:
    """Store indices as they are; what is null refers to a null item."""
    items, codes = array.dictionary, array.indices
    if array.null_count:
        limit = np.iinfo(codes.type.to_pandas_dtype()).max
        if len(items) > limit:
            raise InvalidInputError(f"a dictionary of {len(items)} values has no index left for null")
        codes = pc.fill_null(codes, len(items))
        items = pa.concat_arrays([items, pa.nulls(1, items.type)])
    indices = leaf_values(codes)
    if not isinstance(indices, FixedValues):
        raise TypeError(f"dictionary indices of type {codes.type}")
    encoded = NoNulls(_flat(indices.width_bytes * 8, indices.data.data, buffers))
    values = _binary(items, buffers) if is_variable(items.type) else _values(items, buffers)
    return Dictionary(encoded, values, len(items))


def _flat(bits: int, data: Buffer, buffers: list[Buffer]) -> Flat:
    buffers.append(data)
    return Flat(bits, BufferRef(len(buffers) - 1))
