"""Decode values of variable width into Arrow offsets and bytes.

In a chunk: ``offsets | bytes``, with offsets counted from the start of the buffer. In a block:
``width | start of the bytes | offsets | bytes``, with offsets counted from the start of the bytes.
Format: docs/format/variable.md.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lance_df.encodings.buffers import Bytes, Chunked, Counts, allocate, as_bytes
from lance_df.encodings.fsst.symbol_table import Offsets, SymbolTable
from lance_df.encodings.general.decode import decompress, decompress_chunks, most_plain_bytes
from lance_df.encodings.kernels import variable
from lance_df.errors import CorruptDataError, InvalidInputError, UnsupportedFeatureError
from lance_df.format.encodings_v2_1 import Encoding, Fsst, General, Variable


class Strings(NamedTuple):
    """Arrow's layout: value i is ``data[offsets[i]:offsets[i + 1]]``. Offsets need not start at 0."""

    offsets: Offsets
    data: Bytes

    @classmethod
    def of(cls, array: pa.Array) -> Strings:
        """Return the values of an array of strings or binaries, sharing memory."""
        wide = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
        _, offsets, data = array.buffers()
        width = 8 if wide else 4
        ends = np.frombuffer(offsets, f"<i{width}", len(array) + 1, array.offset * width)
        return cls(ends, as_bytes(data) if data is not None else np.empty(0, np.uint8))

    def to_arrow(self, data_type: pa.DataType) -> pa.Array:
        """Return the array, sharing memory."""
        buffers = [None, pa.py_buffer(self.offsets), pa.py_buffer(self.data)]
        return pa.Array.from_buffers(data_type, len(self.offsets) - 1, buffers, null_count=0)


def decode_variable(
    encoding: Encoding, buffers: tuple[Chunked, ...], counts: Counts, *, bits_per_offset: int
) -> Strings:
    """Decode ``counts[i]`` values of each chunk; a single chunk is viewed.

    Raises
    ------
    CorruptDataError
        Buffers are missing or too short, offsets do not ascend, or codes are broken.
    UnsupportedFeatureError
        The encoding is not one for values of variable width.
    """
    match encoding:
        case General():
            buffers = decompress_chunks(encoding, buffers, counts, bits_per_value=None)
            return decode_variable(encoding.values, buffers, counts, bits_per_offset=bits_per_offset)
        case Fsst(table, values):
            codes = decode_variable(values, buffers, counts, bits_per_offset=bits_per_offset)
            return Strings(*SymbolTable.parse(table).expand(codes.offsets, codes.data))
        case Variable(bits):
            check_offset_width(bits, bits_per_offset)
            if len(buffers) != 1:
                raise CorruptDataError(f"variable-width values have {len(buffers)} buffers, expected 1")
            return _decode_chunks(buffers[0], counts, bits // 8)
        case _:
            raise UnsupportedFeatureError(
                f"encoding {type(encoding).__name__} is not supported for variable-width values"
            )


def _decode_chunks(buffer: Chunked, counts: Counts, width: int) -> Strings:
    if len(counts) and int(counts.max()) > len(buffer.data):
        raise CorruptDataError(
            f"a chunk declares {int(counts.max())} values of variable width, more than its bytes can hold"
        )
    buffer.require((counts + 1) * width, "offsets")
    offset_type = np.dtype(f"<i{width}")
    words = buffer.words(width).view(offset_type)
    if len(counts) == 1:
        first = int(buffer.starts[0]) // width
        return _checked(words[first : first + int(counts[0]) + 1], buffer.chunk(0))
    starts = buffer.starts // width
    sizes = words[starts + counts].astype(np.int64) - words[starts]
    if (sizes < 0).any() or (sizes > buffer.sizes).any():
        raise CorruptDataError("the offsets of a chunk do not ascend or are out of range")
    total = int(sizes.sum())
    check_total_bytes(total, width)
    _, offsets = allocate((int(counts.sum()) + 1) * width)
    _, out = allocate(total)
    typed = offsets.view(offset_type)
    broken = variable.gather_variable(buffer.data, width, buffer.starts, buffer.sizes, counts, offsets, out)
    if broken >= 0:
        raise CorruptDataError(f"the offsets of chunk {broken} do not ascend or are out of range")
    return Strings(typed, out)


def decode_variable_block(encoding: Encoding, data: Bytes, count: int, *, bits_per_offset: int) -> Strings:
    """Decode a standalone block: the values of a dictionary. See :func:`decode_variable`."""
    match encoding:
        case General():
            plain = decompress(data, encoding.scheme, max_bytes=most_plain_bytes(len(data)))
            return decode_variable_block(encoding.values, plain, count, bits_per_offset=bits_per_offset)
        case Fsst(table, values):
            codes = decode_variable_block(values, data, count, bits_per_offset=bits_per_offset)
            return Strings(*SymbolTable.parse(table).expand(codes.offsets, codes.data))
        case Variable(bits):
            check_offset_width(bits, bits_per_offset)
            return _decode_block(data, count, bits)
        case _:
            raise UnsupportedFeatureError(
                f"encoding {type(encoding).__name__} is not supported for a block of variable-width values"
            )


def _decode_block(data: Bytes, count: int, bits: int) -> Strings:
    width = bits // 8
    offsets_start, data_start = _block_header(data, width)
    if offsets_start + (count + 1) * width > min(data_start, len(data)) or data_start > len(data):
        raise CorruptDataError(
            f"a block of {len(data)} bytes with values from byte {data_start} cannot hold {count} values"
        )
    offsets = np.frombuffer(data, f"<i{width}", count + 1, offsets_start)
    return _checked(np.ascontiguousarray(offsets), data[data_start:])


def _block_header(data: Bytes, width: int) -> tuple[int, int]:
    """Return the start of the offsets and the start of the bytes."""
    if len(data) < 1 + 2 * width:
        raise CorruptDataError(
            f"a block of variable-width values has {len(data)} bytes, too few for its header"
        )
    if data[1:4].any():
        # layout of the first 2.1 writers: a byte of width, the number of values, the start of the bytes
        start = 1 + width
        return 1 + 2 * width, int.from_bytes(data[start : start + width].tobytes(), "little")
    return 2 * width, int.from_bytes(data[width : 2 * width].tobytes(), "little")


def _checked(offsets: Offsets, data: Bytes) -> Strings:
    if offsets[0] < 0 or offsets[-1] > len(data) or (offsets[1:] < offsets[:-1]).any():
        raise CorruptDataError("the offsets of a buffer do not ascend or are out of range")
    return Strings(offsets, data)


def check_offset_width(stored: int, expected: int) -> None:
    """Raise `CorruptDataError` if offsets do not have the width that the type requires."""
    if stored not in (32, 64):
        raise CorruptDataError(f"offsets have {stored} bits, expected 32 or 64")
    if stored != expected:
        raise CorruptDataError(f"offsets have {stored} bits, expected {expected} for the column's type")


def check_total_bytes(total: int, width: int) -> None:
    """Raise `InvalidInputError` if an array with 32-bit offsets cannot hold ``total`` bytes."""
    if width == 4 and total >= 1 << 31:
        raise InvalidInputError(f"{total} bytes do not fit into one array of 32-bit offsets; read fewer rows")
