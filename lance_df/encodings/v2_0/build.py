"""Build the decoder of a 2.0 page from its encoding."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lance_df.encodings.bitpacked.page import BitpackedDecoder, BitpackedForNonNegDecoder
from lance_df.encodings.constant.page import ConstantDecoder
from lance_df.encodings.dictionary.page import DictionaryCodedDecoder, DictionaryDecoder
from lance_df.encodings.fixed_size_list.page import FixedSizeListDecoder
from lance_df.encodings.flat.page import CompressedFlatDecoder, FlatDecoder, bits_of
from lance_df.encodings.fsst.page import FsstDecoder
from lance_df.encodings.nullable.page import AllNullsDecoder, SomeNullsDecoder
from lance_df.encodings.packed_struct.page import PackedStructDecoder
from lance_df.encodings.variable.ends import EndPositions
from lance_df.encodings.variable.fixed_size_page import FixedSizeBinaryDecoder
from lance_df.encodings.variable.page import BinaryDecoder
from lance_df.errors import CorruptDataError, UnsupportedFeatureError
from lance_df.format import encodings_v2_0 as enc

if TYPE_CHECKING:
    from lance_df.encodings.decoder import BufferTable, Decoder

_UNSIGNED = {8: pa.uint8(), 16: pa.uint16(), 32: pa.uint32(), 64: pa.uint64()}


def build_decoder(
    encoding: enc.Encoding, data_type: pa.DataType, num_values: int, buffers: BufferTable
) -> Decoder:
    """Return the decoder of a page of values.

    Parameters
    ----------
    encoding
        The encoding of the page, or of a part of it.
    data_type
        The type of the values.
    num_values
        The number of rows of the page, checked against the sizes of the buffers.
    buffers
        The buffers that the encoding refers to.

    Raises
    ------
    CorruptDataError
        Type, encoding and buffers contradict each other.
    UnsupportedFeatureError
        No known writer makes the combination.
    """
    match encoding:
        case enc.NoNulls(values):
            return build_decoder(values, data_type, num_values, buffers)
        case enc.AllNulls():
            return AllNullsDecoder(data_type, num_values)
        case enc.SomeNulls(validity, values):
            return SomeNullsDecoder(
                data_type,
                num_values,
                build_decoder(validity, pa.bool_(), num_values, buffers),
                build_decoder(values, data_type, num_values, buffers),
            )
        case enc.Flat():
            return _flat(encoding, data_type, num_values, buffers)
        case enc.FixedSizeList():
            return _fixed_size_list(encoding, data_type, num_values, buffers)
        case enc.Binary():
            return _binary(encoding, data_type, num_values, buffers)
        case enc.Fsst(enc.Binary() as binary, symbol_table):
            codes = _binary(binary, pa.large_binary(), num_values, buffers)
            return FsstDecoder(data_type, num_values, codes, symbol_table)
        case enc.Dictionary():
            return _dictionary(encoding, data_type, num_values, buffers)
        case enc.PackedStruct():
            return _packed_struct(encoding, data_type, num_values, buffers)
        case enc.Bitpacked(packed_bits, bits, buffer, signed):
            _check_bits(data_type, bits)
            return BitpackedDecoder(data_type, num_values, buffers.resolve(buffer), packed_bits, signed)
        case enc.BitpackedForNonNeg(packed_bits, bits, buffer):
            _check_bits(data_type, bits)
            return BitpackedForNonNegDecoder(data_type, num_values, buffers.resolve(buffer), packed_bits)
        case enc.FixedSizeBinary(data, byte_width):
            return _fixed_size_binary(data, byte_width, data_type, num_values, buffers)
        case enc.Constant(value):
            return ConstantDecoder(data_type, num_values, value)
    raise UnsupportedFeatureError(
        f"encoding {type(encoding).__name__} is not supported for values of type {data_type}"
    )


def build_end_positions(
    encoding: enc.Encoding, adjustment: int, num_values: int, buffers: BufferTable
) -> EndPositions:
    """Return the reader of the end positions of strings or lists."""
    return EndPositions(_unsigned(encoding, num_values, buffers), adjustment)


def _unsigned(encoding: enc.Encoding, num_values: int, buffers: BufferTable) -> Decoder:
    """Return a decoder of unsigned integers of any stored width, without nulls."""
    innermost = encoding.values if isinstance(encoding, enc.NoNulls) else encoding
    match innermost:
        case enc.Flat() | enc.Bitpacked() | enc.BitpackedForNonNeg():
            if (data_type := _UNSIGNED.get(innermost.bits_per_value)) is not None:
                return build_decoder(innermost, data_type, num_values, buffers)
            raise CorruptDataError(
                f"positions have {innermost.bits_per_value} bits, expected 8, 16, 32 or 64"
            )
    raise UnsupportedFeatureError(f"encoding {type(innermost).__name__} is not supported for positions")


def _flat(encoding: enc.Flat, data_type: pa.DataType, num_values: int, buffers: BufferTable) -> Decoder:
    _check_bits(data_type, encoding.bits_per_value)
    buffer = buffers.resolve(encoding.buffer)
    if encoding.compression is None:
        return FlatDecoder(data_type, num_values, buffer)
    return CompressedFlatDecoder(data_type, num_values, buffer, encoding.compression)


def _fixed_size_list(
    encoding: enc.FixedSizeList, data_type: pa.DataType, num_values: int, buffers: BufferTable
) -> Decoder:
    if not pa.types.is_fixed_size_list(data_type) or data_type.list_size != encoding.dimension:
        raise CorruptDataError(
            f"expected values of type {data_type}, found lists of {encoding.dimension} items"
        )
    items = build_decoder(encoding.items, data_type.value_type, num_values * encoding.dimension, buffers)
    if isinstance(items, FlatDecoder):
        return FlatDecoder(data_type, num_values, items.buffer)
    return FixedSizeListDecoder(data_type, num_values, items)


def _binary(
    encoding: enc.Binary, data_type: pa.DataType, num_values: int, buffers: BufferTable
) -> BinaryDecoder:
    positions = build_end_positions(encoding.indices, encoding.null_adjustment, num_values, buffers)
    data = encoding.data.values if isinstance(encoding.data, enc.NoNulls) else encoding.data
    if not isinstance(data, enc.Flat) or data.bits_per_value != 8:
        raise UnsupportedFeatureError(
            f"encoding {type(data).__name__} is not supported for the bytes of strings"
        )
    return BinaryDecoder(data_type, num_values, positions, buffers.resolve(data.buffer), data.compression)


def _dictionary(
    encoding: enc.Dictionary, data_type: pa.DataType, num_values: int, buffers: BufferTable
) -> Decoder:
    if pa.types.is_dictionary(data_type):
        items = build_decoder(encoding.items, data_type.value_type, encoding.num_items, buffers)
        indices = build_decoder(encoding.indices, data_type.index_type, num_values, buffers)
        return DictionaryDecoder(data_type, num_values, indices, items)
    items = build_decoder(encoding.items, data_type, encoding.num_items, buffers)
    return DictionaryCodedDecoder(
        data_type, num_values, _unsigned(encoding.indices, num_values, buffers), items
    )


def _packed_struct(
    encoding: enc.PackedStruct, data_type: pa.DataType, num_values: int, buffers: BufferTable
) -> Decoder:
    if not pa.types.is_struct(data_type) or data_type.num_fields != len(encoding.children):
        raise CorruptDataError(
            f"expected values of type {data_type}, found a packed struct of {len(encoding.children)} children"
        )
    for child, stored in zip(data_type, encoding.children, strict=True):
        _check_packed_child(stored, child.type)
    return PackedStructDecoder(data_type, num_values, buffers.resolve(encoding.buffer))


def _check_packed_child(encoding: enc.Encoding, data_type: pa.DataType) -> None:
    match encoding:
        case enc.NoNulls(values):
            _check_packed_child(values, data_type)
        case enc.Flat(bits, _, None):
            _check_bits(data_type, bits)
        case enc.FixedSizeList(dimension, items):
            if not pa.types.is_fixed_size_list(data_type) or data_type.list_size != dimension:
                raise CorruptDataError(
                    f"expected a packed child of type {data_type}, found lists of {dimension} items"
                )
            _check_packed_child(items, data_type.value_type)
        case _:
            raise UnsupportedFeatureError(
                f"encoding {type(encoding).__name__} is not supported for a packed child"
            )


def _fixed_size_binary(
    data: enc.Encoding, byte_width: int, data_type: pa.DataType, num_values: int, buffers: BufferTable
) -> Decoder:
    flat = data.values if isinstance(data, enc.NoNulls) else data
    # Writers describe the bytes either one by one or value by value; the buffer is the same.
    if not isinstance(flat, enc.Flat) or flat.bits_per_value not in (8, 8 * byte_width):
        raise UnsupportedFeatureError(
            f"encoding {type(flat).__name__} is not supported for the bytes of strings"
        )
    if byte_width >= 2**31:
        raise CorruptDataError(f"fixed-size strings have {byte_width} bytes each, expected fewer than 2 GiB")
    wide = enc.Flat(8 * byte_width, flat.buffer, flat.compression)
    return FixedSizeBinaryDecoder(
        data_type, num_values, _flat(wide, pa.binary(byte_width), num_values, buffers)
    )


def _check_bits(data_type: pa.DataType, bits: int) -> None:
    if bits_of(data_type) != bits:
        raise CorruptDataError(f"expected values of type {data_type}, found values of {bits} bits")
