"""Decode values of fixed width, in any encoding, into plain bytes.

Format: docs/format/index.md.
"""

from __future__ import annotations

import numpy as np

from lance_df.encodings.bitpacked import decode as bitpacked
from lance_df.encodings.buffers import Bytes, Chunked, Counts
from lance_df.encodings.byte_stream_split.decode import decode_byte_streams
from lance_df.encodings.flat.decode import checked_sizes, decode_bits
from lance_df.encodings.general.decode import decompress_chunks
from lance_df.encodings.rle import decode as rle
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
        The width that the type of the values requires: 1 or a multiple of 8.

    Returns
    -------
    All values back to back; a view of the first buffer if it is flat and has one chunk.

    Raises
    ------
    CorruptDataError
        Buffers are missing or too short, or hold values of another width.
    UnsupportedFeatureError
        The encoding is not one for values of fixed width.
    """
    if isinstance(encoding, General):
        buffers = decompress_chunks(encoding, buffers, counts, bits_per_value=bits_per_value)
        return decode_fixed_width(encoding.values, buffers, counts, bits_per_value=bits_per_value)
    if stored_bits(encoding) != bits_per_value:
        raise CorruptDataError(
            f"expected values of {bits_per_value} bits, found values of {stored_bits(encoding)} bits"
        )
    if len(buffers) != (2 if isinstance(encoding, Rle) else 1):
        raise CorruptDataError(
            f"{type(encoding).__name__} values have {len(buffers)} buffers, expected "
            f"{2 if isinstance(encoding, Rle) else 1}"
        )
    match encoding:
        case Flat(1):
            return decode_bits(buffers[0], counts)
        case Flat():
            sizes = checked_sizes(buffers[0], counts, bits_per_value, "flat values")
            return buffers[0].join(sizes)
        case InlineBitpacking():
            return bitpacked.decode_inline(encoding, buffers[0], counts)
        case OutOfLineBitpacking():
            return bitpacked.decode_out_of_line(encoding, buffers[0], counts)
        case Rle():
            return rle.decode_rle(encoding, buffers[0], buffers[1], counts)
        case _:
            return decode_byte_streams(buffers[0], counts, bits_per_value)


def decode_fixed_width_block(
    encoding: Encoding, block: Chunked, counts: Counts, *, bits_per_value: int
) -> Bytes:
    """Decode standalone blocks: levels and dictionaries. See :func:`decode_fixed_width`."""
    match encoding:
        case General():
            (block,) = decompress_chunks(encoding, (block,), counts, bits_per_value=bits_per_value)
            return decode_fixed_width_block(encoding.values, block, counts, bits_per_value=bits_per_value)
        case Rle():
            return decode_fixed_width(encoding, rle.split_block(block), counts, bits_per_value=bits_per_value)
        case Constant(value):
            width = bits_per_value // 8
            return np.frombuffer((value or bytes(width)).ljust(width, b"\0") * int(counts.sum()), np.uint8)
        case _:
            return decode_fixed_width(encoding, (block,), counts, bits_per_value=bits_per_value)


def stored_bits(encoding: Encoding) -> int:
    """Return the width of the values that ``encoding`` decodes to."""
    match encoding:
        case Flat(bits) | InlineBitpacking(bits) | OutOfLineBitpacking(bits):
            return bits
        case Rle(values) | ByteStreamSplit(values) | General(values=values):
            return stored_bits(values)
        case _:
            raise UnsupportedFeatureError(
                f"encoding {type(encoding).__name__} is not supported for fixed-width values"
            )
