"""Decode leaf values of any type: from the value buffers of chunks to Arrow arrays without nulls.

The type determines the family of encodings: fixed width, variable width, fixed-size lists, and packed structs
of these. The validity of the values is stored in levels; see `levels`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_df.encodings.arrays import fixed_array, fixed_size_lists, null_array, struct_array
from lance_df.encodings.buffers import Bytes, Chunked, Counts, with_validity
from lance_df.encodings.codecs.fixed_width import (
    decode_fixed_width,
    decode_fixed_width_block,
    stored_bits,
)
from lance_df.encodings.flat.decode import checked_sizes
from lance_df.encodings.fsst.symbol_table import SymbolTable
from lance_df.encodings.general.decode import decompress_chunks
from lance_df.encodings.text import check_utf8
from lance_df.encodings.variable.decode import Strings, decode_variable, decode_variable_block
from lance_df.errors import CorruptDataError, UnsupportedFeatureError
from lance_df.format.encodings_v2_1 import Constant, Encoding, FixedSizeList, Fsst, General, PackedStruct

if TYPE_CHECKING:
    pass

INDEX_TYPES = {8: pa.uint8(), 16: pa.uint16(), 32: pa.uint32(), 64: pa.uint64()}


def bits_per_offset(data_type: pa.DataType) -> int | None:
    """Return the width of Arrow's offsets for binary-like types, None for others."""
    types = pa.types
    if types.is_string(data_type) or types.is_binary(data_type):
        return 32
    if types.is_large_string(data_type) or types.is_large_binary(data_type):
        return 64
    return None


def bits_per_value(data_type: pa.DataType) -> int:
    """Return the width of Arrow's values for types of fixed width."""
    if pa.types.is_fixed_size_binary(data_type):
        return int(data_type.byte_width) * 8  # pyarrow's bit width is limited to 32 bits
    try:
        return int(data_type.bit_width)
    except ValueError:
        raise UnsupportedFeatureError(f"values of type {data_type} are not supported in a 2.1 page") from None


def decode_values(
    encoding: Encoding, buffers: tuple[Chunked, ...], counts: Counts, data_type: pa.DataType
) -> pa.Array:
    """Decode ``counts[i]`` values of each chunk into one array of ``data_type``.

    Raises
    ------
    CorruptDataError
        The buffers do not hold values of the type.
    UnsupportedFeatureError
        The encoding is not one for the type.
    """
    types = pa.types
    if types.is_fixed_size_list(data_type):
        return _decode_fixed_size_list(encoding, buffers, counts, data_type)
    if types.is_struct(data_type):
        return _decode_packed_struct(encoding, buffers, counts, data_type)
    if (offset_bits := bits_per_offset(data_type)) is not None:
        strings = decode_variable(encoding, buffers, counts, bits_per_offset=offset_bits)
        return checked_text(strings.to_arrow(data_type))
    data = decode_fixed_width(encoding, buffers, counts, bits_per_value=bits_per_value(data_type))
    return fixed_width_array(data, int(counts.sum()), data_type)


def decode_dictionary(encoding: Encoding, data: Bytes, count: int, data_type: pa.DataType) -> pa.Array:
    """Decode the block of ``count`` dictionary values of a page. Raises as :func:`decode_values`."""
    if (offset_bits := bits_per_offset(data_type)) is not None:
        strings = decode_variable_block(encoding, data, count, bits_per_offset=offset_bits)
        return checked_text(strings.to_arrow(data_type))
    bits = bits_per_value(data_type)
    values = decode_fixed_width_block(
        encoding, Chunked.single(data), np.array([count], np.int64), bits_per_value=bits
    )
    return fixed_width_array(values, count, data_type)


def decode_indices(encoding: Encoding, buffers: tuple[Chunked, ...], counts: Counts) -> pa.Array:
    """Decode dictionary indices of any width as unsigned integers."""
    bits = stored_bits(encoding)
    if (index_type := INDEX_TYPES.get(bits)) is None:
        raise CorruptDataError(f"dictionary indices have {bits} bits, expected 8, 16, 32 or 64")
    data = decode_fixed_width(encoding, buffers, counts, bits_per_value=bits)
    return fixed_width_array(data, int(counts.sum()), index_type)


def decode_codes(
    encoding: Fsst, buffers: tuple[Chunked, ...], counts: Counts, data_type: pa.DataType
) -> pa.Array:
    """Decode FSST codes, as binary values. Raises as :func:`decode_values`."""
    offset_bits = bits_per_offset(data_type)
    if offset_bits is None:
        raise CorruptDataError(f"expected values of type {data_type}, found FSST-encoded strings")
    codes = decode_variable(encoding.values, buffers, counts, bits_per_offset=offset_bits)
    return codes.to_arrow(pa.binary() if offset_bits == 32 else pa.large_binary())


def expand_codes(encoding: Fsst, codes: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Return the values for codes returned by :func:`decode_codes`. Raises as :func:`decode_values`."""
    table = SymbolTable.parse(encoding.symbol_table)
    return checked_text(Strings(*table.expand(*Strings.of(codes))).to_arrow(data_type))


def fixed_width_array(data: Bytes, count: int, data_type: pa.DataType) -> pa.Array:
    """Return ``count`` values that share the memory of ``data`` if it is aligned."""
    return fixed_array(data_type, count, pa.py_buffer(data))


def checked_text(strings: pa.Array) -> pa.Array:
    """Return ``strings`` if they are binary or all UTF-8, which engines do not check.

    Raises
    ------
    CorruptDataError
        A string is not UTF-8.
    """
    if not (pa.types.is_string(strings.type) or pa.types.is_large_string(strings.type)) or not len(strings):
        return strings
    _, offsets, data = strings.buffers()
    ends = np.frombuffer(offsets, "<i4" if pa.types.is_string(strings.type) else "<i8")[: len(strings) + 1]
    check_utf8(data, ends)
    return strings


def list_sizes(encoding: Encoding, data_type: pa.DataType) -> tuple[list[FixedSizeList], Encoding]:
    """Return the nested fixed-size list encodings, outermost first, and the encoding of their items.

    The items may themselves be lists, which are all null.

    Raises
    ------
    CorruptDataError
        The encodings contradict the type.
    """
    lists = []
    while pa.types.is_fixed_size_list(data_type) and encoding != Constant(None):
        if not isinstance(encoding, FixedSizeList) or encoding.items_per_value != data_type.list_size:
            raise CorruptDataError(f"expected values of type {data_type}, found {_summary(encoding)} values")
        lists.append(encoding)
        encoding, data_type = encoding.values, data_type.value_type
    return lists, encoding


def _decode_fixed_size_list(
    encoding: Encoding, buffers: tuple[Chunked, ...], counts: Counts, data_type: pa.DataType
) -> pa.Array:
    if isinstance(encoding, General):
        buffers = decompress_chunks(encoding, buffers, counts, bits_per_value=_bits_of_list(data_type))
        return _decode_fixed_size_list(encoding.values, buffers, counts, data_type)
    if encoding == Constant(None):
        return null_array(data_type, int(counts.sum()))
    (outer, *_), _ = list_sizes(encoding, data_type)
    size, total = outer.items_per_value, int(counts.sum())
    if size and int(counts.max(initial=0)) > (1 << 62) // size:
        raise CorruptDataError(
            f"the size of a chunk is out of range: {int(counts.max())} lists of {size} items"
        )
    valid = None
    if outer.has_validity:
        if not buffers:
            raise CorruptDataError("the validity buffer of list items is missing")
        first, *rest = buffers
        valid, buffers = _decode_valid(first, counts * size), tuple(rest)
    items = decode_values(outer.values, buffers, counts * size, data_type.value_type)
    return fixed_size_lists(data_type, total, with_validity(items, valid))


def _bits_of_list(data_type: pa.DataType) -> int:
    num_items = 1
    while pa.types.is_fixed_size_list(data_type):
        num_items *= data_type.list_size
        data_type = data_type.value_type
    return num_items * bits_per_value(data_type)


def _decode_valid(buffer: Chunked, counts: Counts) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    checked_sizes(buffer, counts, 1, "the validity of list items")
    bits = [np.unpackbits(buffer.chunk(i), count=n, bitorder="little") for i, n in enumerate(counts.tolist())]
    return np.concatenate(bits).view(np.bool_)


def _decode_packed_struct(
    encoding: Encoding, buffers: tuple[Chunked, ...], counts: Counts, data_type: pa.DataType
) -> pa.Array:
    widths = [bits_per_value(child.type) for child in data_type]
    if isinstance(encoding, General):
        buffers = decompress_chunks(encoding, buffers, counts, bits_per_value=sum(widths))
        return _decode_packed_struct(encoding.values, buffers, counts, data_type)
    if not isinstance(encoding, PackedStruct):
        raise UnsupportedFeatureError(f"encoding {_summary(encoding)} is not supported for packed structs")
    if tuple(widths) != encoding.bits_per_value or any(width % 8 for width in widths):
        raise CorruptDataError(
            f"packed values of {encoding.bits_per_value} bits do not match type {data_type}"
        )
    rows = decode_fixed_width(encoding.values, buffers, counts, bits_per_value=sum(widths))
    return split_rows(rows, int(counts.sum()), data_type)


def split_rows(rows: Bytes, count: int, data_type: pa.DataType) -> pa.Array:
    """Split rows of concatenated fixed-width values into a struct array of ``count`` rows."""
    widths = [bits_per_value(child.type) // 8 for child in data_type]
    table = rows[: count * sum(widths)].reshape(count, sum(widths))
    stops = np.cumsum(widths)
    children = [
        fixed_width_array(np.ascontiguousarray(table[:, stop - width : stop]).reshape(-1), count, child.type)
        for child, width, stop in zip(data_type, widths, stops.tolist(), strict=True)
    ]
    return struct_array(data_type, count, children)


def _summary(encoding: Encoding) -> str:
    return type(encoding).__name__
