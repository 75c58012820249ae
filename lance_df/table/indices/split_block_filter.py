"""Split block Bloom filters over xxHash64, as in Bloom filter indices and transactions of merges.

A filter has blocks of eight little-endian u32. The high half of a hash selects a block, the low half one bit
of each word. Spec: table format, 14.4.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import pyarrow as pa

from lance_df.encodings.arrays import fixed_width_bits
from lance_df.encodings.kernels.hashing import xxhash64_bytes
from lance_df.expr.floats import float_values

if TYPE_CHECKING:
    import numpy.typing as npt

    Hashes: TypeAlias = npt.NDArray[np.uint64]

BLOCK_BYTES = 32
_HALF = np.uint64(32)
_BITS_OF_BLOCK = 256
_MAX_BYTES = 128 * 1024 * 1024
# the multipliers that select a bit in each of the eight words of a block
_SALTS: Final = np.array(
    [0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31],
    dtype=np.uint32,
)


def filter_bytes(num_values: int, probability: float) -> int:
    """Return the size of a filter, given its number of distinct values and its false positive rate."""
    bits = -8 * num_values / math.log(1 - probability ** (1 / 8))
    size = 1 << max(0, math.ceil(bits / 8) - 1).bit_length()
    return min(max(size, BLOCK_BYTES), _MAX_BYTES)


def split_block_filter(hashes: Hashes, num_bytes: int) -> bytes:
    """Return the filter of some hashes."""
    num_blocks = num_bytes // BLOCK_BYTES
    blocks, bits = blocks_and_bits(hashes, num_blocks)
    flags = np.zeros(num_blocks * _BITS_OF_BLOCK, np.bool_)
    flags[blocks[:, None] * _BITS_OF_BLOCK + np.arange(8) * 32 + bits] = True
    return np.packbits(flags, bitorder="little").tobytes()


def blocks_and_bits(
    hashes: Hashes, num_blocks: int | npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint32]]:
    """Return the block of each hash, and its bit in each of the block's eight words.

    Parameters
    ----------
    num_blocks
        The block count of one filter, or of one filter for each hash, or of many filters for one hash.
    """
    blocks = ((hashes >> _HALF) * np.asarray(num_blocks, np.uint64)) >> _HALF
    return blocks.astype(np.int64), (hashes.astype(np.uint32)[:, None] * _SALTS) >> np.uint32(27)


def hash_values(values: pa.Array) -> Hashes:
    """Return the hashes of the non-null values, computed from their bytes in the width of their type."""
    plain = values.drop_null()
    bits = fixed_width_bits(plain.type)
    if bits is None:
        wide = plain.cast(pa.large_binary())
        _, offsets, data = wide.buffers()
        ends = np.frombuffer(offsets, np.int64, len(wide) + 1, 8 * wide.offset)
    else:
        _, data = plain.buffers()
        ends = (np.arange(len(plain) + 1, dtype=np.int64) + plain.offset) * (bits // 8)
    hashes = np.empty(len(plain), np.uint64)
    if len(plain):
        xxhash64_bytes(ends, np.frombuffer(data or b"", np.uint8), hashes)
    return hashes


def both_zeros(values: pa.Array) -> list[pa.Array]:
    """Return values, with zeros of both signs if one is a zero: these are equal, but their bytes differ."""
    if not pa.types.is_floating(values.type):
        return [values]
    floats = float_values(values.drop_null())
    if not (floats == 0).any():
        return [values]
    return [values, pa.array(np.array([0.0, -0.0], floats.dtype))]
