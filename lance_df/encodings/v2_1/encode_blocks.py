"""Compressed blocks: runs of levels, and dictionaries. Spec: file format, 4.7.1."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from lance_df.encodings.v2_1.encode_bitpack import BLOCK_VALUES, pack_blocks
from lance_df.encodings.v2_1.encode_values import BooleanValues, FixedValues, VariableValues
from lance_df.format.encodings_v2_1 import Encoding, Flat, OutOfLineBitpacking, Variable

if TYPE_CHECKING:
    import numpy.typing as npt

    from lance_df.encodings.v2_1.encode_levels import Levels

DictionaryValues: TypeAlias = BooleanValues | FixedValues | VariableValues

_LEVEL_BITS = 16
_WORDS_PER_BIT = BLOCK_VALUES // _LEVEL_BITS


def encode_levels(
    levels: Levels, ends: npt.NDArray[np.int64], *, max_level: int
) -> tuple[Encoding, list[memoryview]]:
    """Bit-pack levels, one block for each chunk.

    Parameters
    ----------
    levels
        All levels of a page.
    ends
        Where each chunk's levels stop (exclusive); the last one is ``len(levels)``.
    max_level
        The highest level the page can hold.

    Returns
    -------
    The encoding, common to all chunks, and the bytes of each chunk's block.
    """
    width = max(1, max_level.bit_length())
    counts = np.diff(ends, prepend=0)
    num_blocks = -(-counts // BLOCK_VALUES)
    first_blocks = np.cumsum(num_blocks) - num_blocks
    padded = np.zeros(int(num_blocks.sum()) * BLOCK_VALUES, np.uint16)
    shift = first_blocks * BLOCK_VALUES - (ends - counts)
    padded[np.repeat(shift, counts) + np.arange(len(levels))] = levels
    packed = memoryview(pack_blocks(padded.reshape(-1, BLOCK_VALUES), width).tobytes())
    raw = memoryview(levels.astype("<u2", copy=False).tobytes())

    block_bytes = width * BLOCK_VALUES // 8
    blocks = []
    for count, end, first in zip(counts.tolist(), ends.tolist(), first_blocks.tolist(), strict=True):
        full, tail = divmod(count, BLOCK_VALUES)
        if tail > width * _WORDS_PER_BIT:
            blocks.append(packed[first * block_bytes : (first + full + 1) * block_bytes])
        else:  # a short tail is smaller as it is; the decoder tells the two apart by the size
            block = packed[first * block_bytes : (first + full) * block_bytes]
            rest = raw[(end - tail) * 2 : end * 2]
            blocks.append(memoryview(bytes(block) + bytes(rest)) if full else rest)
    return OutOfLineBitpacking(_LEVEL_BITS, width), blocks


def encode_block(values: DictionaryValues) -> tuple[Encoding, bytes]:
    """Encode the values of a dictionary as one block."""
    if isinstance(values, BooleanValues):
        return Flat(1), values.bitmap.tobytes()
    if isinstance(values, FixedValues):
        return Flat(values.width_bytes * 8), values.data.tobytes()
    word = np.dtype(f"<u{values.offset_bits // 8}")
    header = np.array([values.offset_bits, (2 + len(values.offsets)) * word.itemsize], word)
    block = header.tobytes() + values.offsets.astype(word).tobytes() + values.data.tobytes()
    return Variable(values.offset_bits), block
