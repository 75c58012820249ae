"""FastLanes bit-packing: blocks of 1024 unsigned values, transposed so that every lane packs alone.

Spec: file format, 4.7.3. Packing is the mirror image of the decoder's unpacking.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

BLOCK_VALUES = 1024
_ROW_GROUPS = (0, 4, 2, 6, 1, 5, 3, 7)


def bit_widths(blocks: npt.NDArray[np.unsignedinteger]) -> npt.NDArray[np.int64]:
    """Return the bits that the largest value of each row of ``blocks`` needs; 0 for all zeros."""
    return _bit_length(blocks.max(axis=1))


def pack_blocks(blocks: npt.NDArray[np.unsignedinteger], width: int) -> npt.NDArray[np.unsignedinteger]:
    """Pack rows of 1024 values into ``width`` bits each.

    Parameters
    ----------
    blocks
        Shape ``(n, 1024)``; every value fits in ``width`` bits.
    width
        0 to the bits of the dtype.

    Returns
    -------
    Shape ``(n, width * 1024 // bits of the dtype)``: words in the order in which they are stored.
    """
    word_bits = blocks.dtype.itemsize * 8
    lanes = BLOCK_VALUES // word_bits
    packed = np.zeros((len(blocks), width, lanes), blocks.dtype)
    if width == 0:
        return packed.reshape(len(blocks), 0)
    for row in range(word_bits):
        first = _ROW_GROUPS[row // 8] * 16 + row % 8 * 128
        values = blocks[:, first : first + lanes]
        word, shift = divmod(row * width, word_bits)
        packed[:, word] |= values << blocks.dtype.type(shift)
        if shift + width > word_bits:
            packed[:, word + 1] |= values >> blocks.dtype.type(word_bits - shift)
    return packed.reshape(len(blocks), width * lanes)


def pad_to_blocks(values: npt.NDArray[np.unsignedinteger]) -> npt.NDArray[np.unsignedinteger]:
    """Return ``values`` as rows of 1024, the last one filled with zeros. A view when nothing is to fill."""
    rest = -len(values) % BLOCK_VALUES
    if rest:
        values = np.concatenate([values, np.zeros(rest, values.dtype)])
    return values.reshape(-1, BLOCK_VALUES)


def _bit_length(values: npt.NDArray[np.unsignedinteger]) -> npt.NDArray[np.int64]:
    wide = values.astype(np.uint64)
    length = np.zeros(len(wide), np.int64)
    for step in (32, 16, 8, 4, 2, 1):
        large = wide >= np.uint64(1 << step)
        length += large * step
        wide = np.where(large, wide >> np.uint64(step), wide)
    return length + (wide > 0)
