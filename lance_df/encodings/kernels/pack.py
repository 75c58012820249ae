"""Pack FastLanes blocks, the reverse of `bitpacking`. Spec: file format 2.x, 4.7.3."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lance_df.encodings.kernels.jit import kernel

if TYPE_CHECKING:
    from collections.abc import Callable

_ORDER = (0, 4, 2, 6, 1, 5, 3, 7)
_U = np.uintp


def _packer(bits: int, word_type: Callable[[Any], Any]) -> Callable[..., Any]:
    lanes = _U(1024 // bits)
    rows = _U(bits)
    row_offsets = np.array([_ORDER[row // 8] * 16 + (row % 8) * 128 for row in range(bits)], np.uintp)

    @kernel
    def pack_blocks(words, widths, out, starts):  # type: ignore[no-untyped-def]
        """Pack each 1024 unsigned words into ``widths[i]`` bits a word.

        Parameters
        ----------
        words
            1024 words for each width; none of them needs more bits.
        out, starts
            Words of the same size, and where the first of the ``widths[i] * 1024 // bits`` words of each
            block goes.
        """
        for block in range(len(widths)):
            width = _U(widths[block])
            source = _U(block) * _U(1024)
            target = _U(starts[block])
            bit = _U(0)
            for row in range(rows):
                if width == _U(0):
                    break
                at = source + row_offsets[row]
                word = target + bit // rows * lanes
                shift = bit % rows
                up = word_type(shift)
                if shift == _U(0):
                    for lane in range(lanes):
                        out[word + _U(lane)] = words[at + _U(lane)]
                else:
                    for lane in range(lanes):
                        out[word + _U(lane)] |= words[at + _U(lane)] << up
                if shift + width > rows:
                    down = word_type(rows - shift)
                    second = word + lanes
                    for lane in range(lanes):
                        out[second + _U(lane)] = words[at + _U(lane)] >> down
                bit += width

    return pack_blocks


pack_blocks_8 = _packer(8, np.uint8)
pack_blocks_16 = _packer(16, np.uint16)
pack_blocks_32 = _packer(32, np.uint32)
pack_blocks_64 = _packer(64, np.uint64)
