"""Encode compressed blocks: the levels of each chunk, and dictionaries. Format: docs/format/index.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from lance_df.encodings.bitpacked.encode import BLOCK_VALUES, pack_blocks
from lance_df.encodings.buffers import Chunked
from lance_df.encodings.encode_chunks import ChunkBuffer
from lance_df.encodings.general import codecs as compression
from lance_df.encodings.leaf_values import BooleanValues, FixedValues, VariableValues
from lance_df.encodings.rle.encode import count_runs, rle_blocks
from lance_df.format.encodings_v2_1 import Encoding, Flat, General, OutOfLineBitpacking, Variable

if TYPE_CHECKING:
    from lance_df.encodings.buffers import Counts
    from lance_df.encodings.codecs.encode_options import Compression
    from lance_df.encodings.levels.encode import Levels

DictionaryValues: TypeAlias = BooleanValues | FixedValues | VariableValues

_LEVEL_BITS = 16
_WORDS_PER_BIT = BLOCK_VALUES // _LEVEL_BITS
_RUN_BYTES = 3
_RUN_HEAD_BYTES = 8


def encode_levels(
    levels: Levels, ends: Counts, *, max_level: int, allow_runs: bool
) -> tuple[Encoding, ChunkBuffer]:
    """Encode levels, one block for each chunk.

    Parameters
    ----------
    levels
        All levels of a page.
    ends
        The end (exclusive) of each chunk's levels; the last one is ``len(levels)``.
    max_level
        The highest level the page can hold.
    allow_runs
        Whether readers support runs of levels (from 2.2 on).

    Returns
    -------
    The encoding, which all chunks share, and the block of each chunk.
    """
    width = max(1, max_level.bit_length())
    if allow_runs:
        run_bytes = (count_runs(levels) + len(levels) // 255) * _RUN_BYTES + len(ends) * _RUN_HEAD_BYTES
        if run_bytes < len(levels) * width // 8:
            return rle_blocks(levels.astype("<u2", copy=False), ends)
    return OutOfLineBitpacking(_LEVEL_BITS, width), _pack(levels.astype("<u2", copy=False), ends, width)


def _pack(levels: Levels, ends: Counts, width: int) -> ChunkBuffer:
    counts = np.diff(ends, prepend=0)
    num_blocks = -(-counts // BLOCK_VALUES)
    first_blocks = np.cumsum(num_blocks) - num_blocks
    padded = np.zeros(int(num_blocks.sum()) * BLOCK_VALUES, np.uint16)
    if (counts[:-1] % BLOCK_VALUES).any():
        shift = first_blocks * BLOCK_VALUES - (ends - counts)
        padded[np.repeat(shift, counts) + np.arange(len(levels))] = levels
    else:
        padded[: len(levels)] = levels
    packed = pack_blocks(padded.reshape(-1, BLOCK_VALUES), width).reshape(-1).view(np.uint8)
    # a short tail is smaller unpacked; the decoder distinguishes the two by the size
    tails = counts % BLOCK_VALUES
    stored = np.where(tails > width * _WORDS_PER_BIT, 0, tails)
    block_bytes = width * BLOCK_VALUES // 8
    blocks = np.where(stored > 0, num_blocks - 1, num_blocks)
    return ChunkBuffer.of(
        Chunked(packed, first_blocks * block_bytes, blocks * block_bytes),
        Chunked(levels.view(np.uint8), (ends - stored) * 2, stored * 2),
    )


def encode_dictionary(values: DictionaryValues, wanted: Compression | None) -> tuple[Encoding, bytes]:
    """Encode the values of a dictionary as one block, compressed if requested and worthwhile."""
    encoding, block = _encode_block(values)
    if wanted is not None:
        compressed = compression.compress(wanted.scheme, block, level=wanted.level)
        if len(compressed) < len(block):
            return General(wanted.scheme, wanted.level, encoding), compressed
    return encoding, block


def _encode_block(values: DictionaryValues) -> tuple[Encoding, bytes]:
    if isinstance(values, BooleanValues):
        return Flat(1), values.bitmap.tobytes()
    if isinstance(values, FixedValues):
        return Flat(values.width_bytes * 8), values.data.tobytes()
    word = np.dtype(f"<u{values.offset_bits // 8}")
    header = np.array([values.offset_bits, (2 + len(values.offsets)) * word.itemsize], word)
    block = header.tobytes() + values.offsets.astype(word).tobytes() + values.data.tobytes()
    return Variable(values.offset_bits), block
