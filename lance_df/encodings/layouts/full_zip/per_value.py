"""Decode the values of full-zip records, each compressed by itself. Format: docs/format/full_zip.md."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lance_df.encodings.arrays import fixed_size_lists, struct_array
from lance_df.encodings.buffers import Bytes, Counts, allocate, with_validity
from lance_df.encodings.codecs.values import (
    bits_per_offset,
    bits_per_value,
    checked_text,
    fixed_width_array,
    list_sizes,
)
from lance_df.encodings.fsst.symbol_table import SymbolTable
from lance_df.encodings.general.decode import decompress
from lance_df.encodings.kernels import full_zip, variable
from lance_df.encodings.variable.decode import Strings, check_offset_width, check_total_bytes
from lance_df.errors import CorruptDataError, UnsupportedFeatureError
from lance_df.format.encodings_v2_1 import (
    Constant,
    Encoding,
    Flat,
    Fsst,
    General,
    Variable,
    VariablePackedStruct,
)


def decode_fixed_records(
    encoding: Encoding, data: Bytes, starts: Counts, value_bytes: int, data_type: pa.DataType
) -> pa.Array:
    """Decode values of ``value_bytes`` bytes at ``starts``, all within ``data``.

    Contiguous values are not copied.

    Raises
    ------
    CorruptDataError
        The width is not the width of the type.
    UnsupportedFeatureError
        The encoding is not one for values of fixed width.
    """
    if isinstance(encoding, Constant):
        return _decode_constant(encoding, len(starts), data_type)
    if pa.types.is_fixed_size_list(data_type):
        return _decode_lists(encoding, _records(data, starts, value_bytes), value_bytes, data_type)
    is_bool = pa.types.is_boolean(data_type)
    expected = 8 if is_bool else bits_per_value(data_type)
    if not isinstance(encoding, Flat):
        raise UnsupportedFeatureError(
            f"encoding {type(encoding).__name__} is not supported for full-zip values"
        )
    if encoding.bits_per_value != expected or value_bytes * 8 != expected:
        raise CorruptDataError(
            f"full-zip values of {encoding.bits_per_value} bits in {value_bytes} bytes do not match type "
            f"{data_type}"
        )
    records = _records(data, starts, value_bytes)
    if is_bool:
        records = np.packbits(records != 0, bitorder="little")
    return fixed_width_array(records, len(starts), data_type)


def decode_variable_records(
    encoding: Encoding, data: Bytes, starts: Counts, lengths: Counts, data_type: pa.DataType
) -> pa.Array:
    """Decode values of ``lengths[i]`` bytes at ``starts[i]``, all within ``data``.

    Raises as :func:`decode_fixed_records`.
    """
    if isinstance(encoding, VariablePackedStruct):
        return _decode_packed_rows(encoding, data, starts, lengths, data_type)
    offset_bits = bits_per_offset(data_type)
    if offset_bits is None:
        raise CorruptDataError(f"expected values of type {data_type}, found values of variable width")
    return checked_text(_strings(encoding, data, starts, lengths, offset_bits).to_arrow(data_type))


def _strings(encoding: Encoding, data: Bytes, starts: Counts, lengths: Counts, offset_bits: int) -> Strings:
    match encoding:
        case Variable(bits):
            check_offset_width(bits, offset_bits)
            total = int(lengths.sum())
            check_total_bytes(total, offset_bits // 8)
            _, offsets = allocate((len(starts) + 1) * offset_bits // 8)
            _, out = allocate(total)
            typed = offsets.view(f"<i{offset_bits // 8}")
            variable.join_variable(data, starts, lengths, offset_bits // 8, typed.view(np.uint8), out)
            return Strings(typed, out)
        case Fsst(table, values):
            codes = _strings(values, data, starts, lengths, offset_bits)
            return Strings(*SymbolTable.parse(table).expand(codes.offsets, codes.data))
        case General(scheme, _, values):
            parts, total = [], 0
            for start, length in zip(starts.tolist(), lengths.tolist(), strict=True):
                parts.append(decompress(data[start : start + length], scheme))
                total += len(parts[-1])
                check_total_bytes(total, offset_bits // 8)
            sizes = np.array([len(part) for part in parts], np.int64)
            joined = np.concatenate(parts) if parts else data[:0]
            return _strings(values, joined, np.cumsum(sizes) - sizes, sizes, offset_bits)
        case _:
            raise UnsupportedFeatureError(
                f"encoding {type(encoding).__name__} is not supported for full-zip values"
            )


def _records(data: Bytes, starts: Counts, value_bytes: int) -> Bytes:
    count = len(starts)
    if count == 0 or value_bytes == 0:
        return data[:0]
    if int(starts[-1]) - int(starts[0]) == (count - 1) * value_bytes:
        return data[starts[0] : int(starts[-1]) + value_bytes]
    _, out = allocate(count * value_bytes)
    variable.copy_spans(
        data,
        starts,
        np.full(count, value_bytes, np.int64),
        out,
        np.arange(count, dtype=np.int64) * value_bytes,
    )
    return out


def _decode_constant(encoding: Constant, count: int, data_type: pa.DataType) -> pa.Array:
    """Decode values without bytes, which early writers stored for lists that are all null."""
    if encoding.value is not None:
        raise UnsupportedFeatureError(
            "a constant in a full-zip page must be null, other constants are not supported"
        )
    return pa.nulls(count, data_type)


def _decode_lists(encoding: Encoding, records: Bytes, value_bytes: int, data_type: pa.DataType) -> pa.Array:
    """Decode ``bitmaps of item validity, outer first | items`` for each value."""
    lists, items = list_sizes(encoding, data_type)
    item_type = data_type
    num_items, bitmaps, position = 1, [], 0
    for level in lists:
        num_items *= level.items_per_value
        item_type = item_type.value_type
        if level.has_validity:
            bitmaps.append((position, num_items))
            position += (num_items + 7) // 8
        else:
            bitmaps.append((position, 0))
    # of the null type, or a list without any valid item
    is_null = items == Constant(None)
    item_bits = 0 if is_null else bits_per_value(item_type)
    if not (is_null or items == Flat(item_bits)) or position + -(-num_items * item_bits // 8) != value_bytes:
        raise CorruptDataError(f"lists of {value_bytes} bytes do not match type {data_type}")
    count = len(records) // value_bytes if value_bytes else 0
    table = records.reshape(count, value_bytes)
    if is_null:
        array = pa.nulls(count * num_items, item_type)
    else:
        array = _list_items(table[:, position:], count * num_items, num_items, item_type)
    for depth in reversed(range(len(lists))):
        start, bits = bitmaps[depth]
        if bits and not pa.types.is_null(array.type):
            packed = np.ascontiguousarray(table[:, start : start + (bits + 7) // 8])
            valid = np.unpackbits(packed, axis=1, count=bits, bitorder="little").reshape(-1)
            array = with_validity(array, valid.view(np.bool_))
        list_type = data_type
        for _ in range(depth):
            list_type = list_type.value_type
        array = fixed_size_lists(list_type, len(array) // list_type.list_size, array)
    return array


def _list_items(table: Bytes, count: int, per_value: int, item_type: pa.DataType) -> pa.Array:
    if pa.types.is_boolean(item_type):
        bits = np.unpackbits(np.ascontiguousarray(table), axis=1, count=per_value, bitorder="little")
        return fixed_width_array(np.packbits(bits.reshape(-1), bitorder="little"), count, item_type)
    return fixed_width_array(np.ascontiguousarray(table).reshape(-1), count, item_type)


def _decode_packed_rows(
    encoding: VariablePackedStruct, data: Bytes, starts: Counts, lengths: Counts, data_type: pa.DataType
) -> pa.Array:
    """Decode rows of concatenated children. A null row has no bytes; its children are empty or zero."""
    fields = encoding.fields
    if not pa.types.is_struct(data_type) or data_type.num_fields != len(fields):
        raise CorruptDataError(f"a packed struct of {len(fields)} children does not match type {data_type}")
    for field in fields:
        if (field.bits_per_value or field.bits_per_length or 0) % 8 or field.bits_per_length not in (
            None,
            32,
            64,
        ):
            raise CorruptDataError(
                f"a packed child has {field.bits_per_value or field.bits_per_length} bits, expected whole "
                "bytes, or a length of 32 or 64 bits"
            )
    fixed = np.array([-1 if f.bits_per_value is None else f.bits_per_value // 8 for f in fields], np.int64)
    prefixes = np.array([(f.bits_per_length or 0) // 8 for f in fields], np.int64)
    shape = (len(fields), len(starts))
    child_starts, child_lengths = np.empty(shape, np.int64), np.empty(shape, np.int64)
    broken = full_zip.parse_packed_rows(data, starts, lengths, fixed, prefixes, child_starts, child_lengths)
    if broken >= 0:
        raise CorruptDataError(
            f"row {broken} of the requested rows does not match the size of its packed values"
        )
    children = []
    for number, (field, child) in enumerate(zip(fields, data_type, strict=True)):
        at, sizes = child_starts[number], child_lengths[number]
        if field.bits_per_value is None:
            children.append(decode_variable_records(field.values, data, at, sizes, child.type))
            continue
        width = field.bits_per_value // 8
        _, out = allocate(len(at) * width)
        out[:] = 0
        packed = np.arange(len(at), dtype=np.int64) * width
        variable.copy_spans(data, at, sizes, out, packed)
        children.append(decode_fixed_records(field.values, out, packed, width, child.type))
    return struct_array(data_type, len(starts), children)
