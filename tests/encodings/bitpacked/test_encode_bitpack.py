"""FastLanes packing, against the formula of the format, value by value."""

from __future__ import annotations

import numpy as np
import pytest

from lance_df.encodings.bitpacked.encode import BLOCK_VALUES, bit_widths, pack_blocks, pad_to_blocks

ROW_ORDER = [0, 4, 2, 6, 1, 5, 3, 7]


def unpack(words: np.ndarray, width: int) -> list[int]:
    """Return the values of one block, bit by bit: lane after lane, rows in the order of the format."""
    bits = words.dtype.itemsize * 8
    lanes = BLOCK_VALUES // bits
    values = [0] * BLOCK_VALUES
    for lane in range(lanes):
        stream = 0
        for row, word in enumerate(words[lane::lanes].tolist()):
            stream |= word << (row * bits)
        for row in range(bits):
            index = ROW_ORDER[row // 8] * 16 + (row % 8) * 128 + lane
            values[index] = stream >> (row * width) & (1 << width) - 1
    return values


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_every_width_of_every_word(bits: int) -> None:
    rng = np.random.default_rng(bits)
    for width in range(bits + 1):
        blocks = (
            rng.integers(0, 1 << width, (1, BLOCK_VALUES), np.uint64, endpoint=False).astype(f"u{bits // 8}")
            if (width)
            else np.zeros((1, BLOCK_VALUES), f"u{bits // 8}")
        )
        packed = pack_blocks(blocks, width)
        assert packed.nbytes == BLOCK_VALUES * width // 8
        assert unpack(packed[0], width) == blocks[0].tolist()


def test_several_blocks_are_packed_alone() -> None:
    blocks = np.arange(3 * BLOCK_VALUES, dtype=np.uint32).reshape(3, -1)
    packed = pack_blocks(blocks, 12)
    for block, words in zip(blocks, packed, strict=True):
        assert unpack(words, 12) == block.tolist()


def test_widths_are_those_of_the_largest_value() -> None:
    blocks = np.zeros((5, BLOCK_VALUES), np.uint64)
    blocks[1, 5], blocks[2, 0], blocks[3, 1023], blocks[4, 7] = 1, 255, 256, 2**64 - 1
    assert bit_widths(blocks).tolist() == [0, 1, 8, 9, 64]


@pytest.mark.parametrize(("count", "blocks"), [(0, 0), (1, 1), (1024, 1), (1025, 2)])
def test_padding_with_zeros(count: int, blocks: int) -> None:
    padded = pad_to_blocks(np.ones(count, np.uint16))
    assert padded.shape == (blocks, BLOCK_VALUES)
    assert padded.sum() == count
