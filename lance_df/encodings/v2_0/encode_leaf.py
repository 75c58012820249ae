"""Encode the values of a column without children for 2.0 pages.

Format: docs/format/index.md. The ends of strings restart in each page; for nulls, an adjustment beyond the
largest end is added. As in pylance, values are compressed only if the field's metadata request it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.encodings.arrays import fixed_width_bits
from lance_df.encodings.fsst.train import train_symbols
from lance_df.encodings.general.codecs import compress
from lance_df.encodings.leaf_values import (
    BooleanValues,
    FixedValues,
    VariableValues,
    is_variable,
    leaf_values,
    pack_bits,
)
from lance_df.encodings.loaded_page import is_large
from lance_df.errors import InvalidInputError
from lance_df.format.encodings_v2_0 import (
    AllNulls,
    Binary,
    BufferRef,
    Dictionary,
    Encoding,
    FixedSizeList,
    Flat,
    Fsst,
    NoNulls,
    PackedStruct,
    SomeNulls,
)
from lance_df.records import dataclass

if TYPE_CHECKING:
    import numpy.typing as npt

    from lance_df.encodings.encoded_page import Buffer
    from lance_df.format.schema import Field

# Strings with fewer distinct values than this get one-byte indices, as in pylance.
_MAX_DICTIONARY_ITEMS = 100
_MIN_DICTIONARY_ROWS = 100
_SCHEME_KEY = "lance-encoding:compression"
_LEVEL_KEY = "lance-encoding:compression-level"
_SCHEMES = ("zstd", "lz4", "fsst")


@dataclass(frozen=True, slots=True)
class TextCompression:
    """The compression of strings or binaries in a field's metadata; ``level`` is for Zstandard."""

    scheme: str
    level: int | None

    @classmethod
    def of(cls, field: Field) -> TextCompression | None:
        """Read the compression; None if there is none, or one that pylance does not know and ignores."""
        scheme = field.metadata.get(_SCHEME_KEY, b"").decode("utf-8", "replace").lower()
        level = field.metadata.get(_LEVEL_KEY, b"")
        if scheme not in _SCHEMES:
            return None
        return cls(scheme, int(level) if level.isdigit() else None)


def encode_leaf(field: Field, array: pa.Array, buffers: list[Buffer]) -> Encoding:
    """Encode values, and append their buffers, as views where possible, to ``buffers``."""
    compression = TextCompression.of(field) if is_variable(array.type) else None
    return _values(array, buffers, compression)


def encode_ends(ends: npt.NDArray[np.int64], null: npt.NDArray[np.bool_] | None) -> tuple[Buffer, int]:
    """Return the stored ends, with an adjustment added for null values, and the adjustment."""
    adjustment = int(ends[-1]) + 1 if len(ends) else 1
    if null is not None:
        ends = ends + np.where(null, adjustment, 0)
    return np.ascontiguousarray(ends, "<u8").view(np.uint8).data, adjustment


def flat(bits: int, data: Buffer, buffers: list[Buffer], compression: str | None = None) -> Flat:
    """Store one buffer."""
    buffers.append(data)
    return Flat(bits, BufferRef(len(buffers) - 1), compression)


def encode_packed(path: str, array: pa.StructArray, buffers: list[Buffer]) -> Encoding:
    """Encode structs as rows of bytes.

    Raises
    ------
    InvalidInputError
        A value is null, which packed structs cannot store.
    """
    rows = []
    children = []
    for position in range(array.type.num_fields):
        column = array.field(position)
        scratch: list[Buffer] = []
        children.append(_values(column, scratch, None))
        if len(scratch) != 1:
            raise InvalidInputError(f"column {path!r}: packed structs of file version 2.0 cannot hold nulls")
        width = (fixed_width_bits(column.type) or 0) // 8
        rows.append(np.frombuffer(scratch[0], np.uint8).reshape(len(column), width))
    buffers.append(np.concatenate(rows, axis=1).reshape(-1).data)
    return PackedStruct(tuple(children), BufferRef(len(buffers) - 1))


def _values(array: pa.Array, buffers: list[Buffer], compression: TextCompression | None) -> Encoding:
    if pa.types.is_dictionary(array.type):
        return _dictionary_typed(array, buffers)
    if is_variable(array.type):
        return _try_short_dictionary(array, buffers) or _binary(array, buffers, compression)
    if pa.types.is_null(array.type) or (len(array) and array.null_count == len(array)):
        return AllNulls()
    if not array.null_count:
        return NoNulls(_plain(array, buffers))
    validity = pack_bits(array.is_valid().to_numpy(zero_copy_only=False))
    return SomeNulls(flat(1, validity.data, buffers), _plain(array, buffers))


def _plain(array: pa.Array, buffers: list[Buffer]) -> Encoding:
    """Encode values of fixed width, with or without nulls."""
    if pa.types.is_fixed_size_list(array.type):
        size = array.type.list_size
        items = array.values.slice(array.offset * size, len(array) * size)
        return FixedSizeList(size, _values(items, buffers, None))
    values = leaf_values(array)
    if isinstance(values, BooleanValues):
        return flat(1, values.bitmap.data, buffers)
    if not isinstance(values, FixedValues):
        raise TypeError(f"not a fixed-width type: {array.type}")
    return flat(values.width_bytes * 8, values.data.data, buffers)


def _binary(array: pa.Array, buffers: list[Buffer], compression: TextCompression | None = None) -> Encoding:
    null = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
    values = leaf_values(array, None if null is None else ~null)
    if not isinstance(values, VariableValues):
        raise TypeError(f"not a variable-width type: {array.type}")
    offsets, data = values.offsets, values.data
    symbols = None
    # pylance reads FSST codes of types with 32-bit offsets only
    if compression is not None and compression.scheme == "fsst" and len(data) and not is_large(array.type):
        coder, _ = train_symbols(offsets, data)
        offsets, data = coder.encode(offsets, data)
        symbols = coder.serialize()
    stored, adjustment = encode_ends(offsets[1:], null)
    indices = NoNulls(flat(64, stored, buffers))
    if compression is None or compression.scheme == "fsst":
        binary = Binary(indices, flat(8, data.data, buffers), adjustment)
        return binary if symbols is None else Fsst(binary, symbols)
    packed = compress(compression.scheme, data.data, level=compression.level)
    return Binary(indices, flat(8, packed, buffers, compression.scheme), adjustment)


def _try_short_dictionary(array: pa.Array, buffers: list[Buffer]) -> Encoding | None:
    """Store strings with few distinct values as one byte each: 0 is null, k refers to item k - 1."""
    if not pa.types.is_string(array.type) or len(array) < _MIN_DICTIONARY_ROWS:
        return None
    if pc.count_distinct(array[:1000]).as_py() >= _MAX_DICTIONARY_ITEMS:
        return None
    coded = array.dictionary_encode()
    items = coded.dictionary
    if len(items) >= _MAX_DICTIONARY_ITEMS:
        return None
    if not len(items):  # no reader expects that
        items = pa.array([""], items.type)
    codes = pc.fill_null(coded.indices, -1).to_numpy() + 1
    indices = NoNulls(flat(8, codes.astype(np.uint8).data, buffers))
    return Dictionary(indices, _binary(items, buffers), len(items))


def _dictionary_typed(array: pa.DictionaryArray, buffers: list[Buffer]) -> Encoding:
    """Store indices unchanged; a null refers to a null item."""
    items, codes = array.dictionary, array.indices
    if array.null_count:
        limit = np.iinfo(codes.type.to_pandas_dtype()).max
        if len(items) > limit:
            raise InvalidInputError(
                f"a dictionary of {len(items)} values leaves no index for nulls; use a larger index type"
            )
        codes = pc.fill_null(codes, len(items))
        items = pa.concat_arrays([items, pa.nulls(1, items.type)])
    indices = leaf_values(codes)
    if not isinstance(indices, FixedValues):
        raise TypeError(f"unexpected type of dictionary indices: {codes.type}")
    encoded = NoNulls(flat(indices.width_bytes * 8, indices.data.data, buffers))
    values = _binary(items, buffers) if is_variable(items.type) else _values(items, buffers, None)
    return Dictionary(encoded, values, len(items))
