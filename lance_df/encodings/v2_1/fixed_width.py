"""Values of fixed width, whatever compresses them, as plain bytes.

Spec: file format 2.x, 4.7; flat values are stored back to back, single bits restart on a byte in each chunk.
"""

from __future__ import annotations

import numpy as np

from lance_df.encodings import kernels
from lance_df.encodings.v2_1 import bitpacking, rle
from lance_df.encodings.v2_1.buffers import Bytes, Chunked, Counts, allocate
from lance_df.encodings.v2_1.general import decompress_chunks
from lance_df.errors import CorruptDataError, UnsupportedFeatureError
from lance_df.format.encodings_v2_1 import (
    ByteStreamSplit,
    Constant,
    Encoding,
    Flat,
    General,
    InlineBitpacking,
    OutOfLineBitpacking,
    Rle,
)


def decode_fixed_width(
    encoding: Encoding, buffers: tuple[Chunked, ...], counts: Counts, *, bits_per_value: int
) -> Bytes:
    """Decode ``counts[i]`` values of each chunk.

    Parameters
    ----------
    buffers
        The value buffers of the chunks.
    bits_per_value
        1 or a multiple of 8: what the type of the values asks for.

    Returns
    -------
    All values back to back. A view of the first buffer where it is flat and of one chunk.

    Raises
    ------
    CorruptDataError
        Buffers are missing or too short, or hold values of another width.
    UnsupportedFeatureError
        The encoding is none for values of fixed width.
    """
    if isinstance(encoding, General):
        return decode_fixed_width(
            encoding.values, decompress_chunks(encoding, buffers), counts, bits_per_value=bits_per_value
        )
    if stored_bits(encoding) != bits_per_value:
        raise CorruptDataError(
            f"values of {stored_bits(encoding)} bits, the column's type takes {bits_per_value}"
        )
    if len(buffers) != (2 if isinstance(encoding, Rle) else 1):
        raise CorruptDataError(f"{len(buffers)} buffers of {type(encoding).__name__} values")
    match encoding:
        case Flat(1):
            return _decode_bits(buffers[0], counts)
        case Flat():
            sizes = checked_sizes(buffers[0], counts, bits_per_value, "flat values")
            return buffers[0].join(sizes)
        case InlineBitpacking():
            return bitpacking.decode_inline(encoding, buffers[0], counts)
        case OutOfLineBitpacking():
            return bitpacking.decode_out_of_line(encoding, buffers[0], counts)
        case Rle():
            return rle.decode_rle(encoding, buffers[0], buffers[1], counts)
        case _:
            return _decode_byte_streams(buffers[0], counts, bits_per_value)


def decode_fixed_width_block(
    encoding: Encoding, block: Chunked, counts: Counts, *, bits_per_value: int
) -> Bytes:
    """Decode blocks that stand for themselves: levels and dictionaries. See :func:`decode_fixed_width`."""
    match encoding:
        case General():
            (block,) = decompress_chunks(encoding, (block,))
            return decode_fixed_width_block(encoding.values, block, counts, bits_per_value=bits_per_value)
        case Rle():
            return decode_fixed_width(encoding, rle.split_block(block), counts, bits_per_value=bits_per_value)
        case Constant(value):
            width = bits_per_value // 8
            return np.frombuffer((value or bytes(width)).ljust(width, b"\0") * int(counts.sum()), np.uint8)
        case _:
            return decode_fixed_width(encoding, (block,), counts, bits_per_value=bits_per_value)


def stored_bits(encoding: Encoding) -> int:
    """Return the width of the values that ``encoding`` gives back."""
    match encoding:
        case Flat(bits) | InlineBitpacking(bits) | OutOfLineBitpacking(bits):
            return bits
        case Rle(values) | ByteStreamSplit(values) | General(values=values):
            return stored_bits(values)
        case _:
            raise UnsupportedFeatureError(f"{type(encoding).__name__} for values of fixed width")


def checked_sizes(buffer: Chunked, counts: Counts, bits_per_value: int, what: str) -> Counts:
    """Return the bytes that ``counts`` values take in each chunk, having checked that they are there."""
    if len(counts) and int(counts.max()) > (1 << 62) // max(bits_per_value, 1):
        raise CorruptDataError(f"{what}: a chunk claims {int(counts.max())} values")
    sizes = (counts * bits_per_value + 7) // 8
    buffer.require(sizes, what)
    return sizes


def _decode_bits(buffer: Chunked, counts: Counts) -> Bytes:
    sizes = checked_sizes(buffer, counts, 1, "bits")
    if not (counts[:-1] % 8).any():
        return buffer.join(sizes)
    bits = [
        np.unpackbits(buffer.chunk(i), count=count, bitorder="little")
        for i, count in enumerate(counts.tolist())
    ]
    return np.packbits(np.concatenate(bits), bitorder="little")


def _decode_byte_streams(buffer: Chunked, counts: Counts, bits_per_value: int) -> Bytes:
    checked_sizes(buffer, counts, bits_per_value, "split byte streams")
    _, out = allocate(int(counts.sum()) * bits_per_value // 8)
    kernels.split_byte_streams(buffer.data, buffer.starts, counts, bits_per_value // 8, out)
    return out
