"""Unpack FastLanes blocks. Spec: file format 2.x, 4.7.3."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lance_df.encodings.kernels.jit import copy_bytes, kernel, store_item
from lance_df.encodings.kernels.vectors import join_lines, shift_line

if TYPE_CHECKING:
    from collections.abc import Callable

# where the eighths of a block lie, which is its own inverse
_ORDER = np.array((0, 4, 2, 6, 1, 5, 3, 7), np.uintp)
_BLOCK = 1024
# numba must see unsigned positions: signed ones may be negative, and then loops are not vectorised
_U = np.uintp
_LINE_BYTES = _U(128)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


@kernel
def unpack_block(source, width, target, bits, like):  # type: ignore[no-untyped-def]
    """Unpack the block of 1024 words of ``bits`` bits, those of ``like``, from one address to another.

    ``width`` bits of each are stored, at most ``bits``.
    """
    rows = _U(bits)
    if width == 0:
        for i in range(_U(_BLOCK)):
            store_item(target, i, like)
        return
    mask = _ALL >> np.uint64(64 - width)
    at = source
    shift = _U(0)
    for row in range(rows):
        place = (_ORDER[row >> _U(3)] * _U(16) + (row & _U(7)) * _U(128)) * rows >> _U(3)
        if shift + _U(width) <= rows:
            shift_line(target + place, at, shift, mask, like)
        else:
            join_lines(target + place, at, shift, rows - shift, mask, like)
        shift += _U(width)
        if shift >= rows:
            shift -= rows
            at += _LINE_BYTES


def _unpacker(bits: int, word_type: Callable[[Any], Any]) -> Callable[..., Any]:
    word_bytes = _U(bits // 8)

    @kernel
    def unpack_blocks(words, starts, widths, counts, out):  # type: ignore[no-untyped-def]
        """Unpack blocks of at most 1024 values, one after another, into ``out``.

        Parameters
        ----------
        words
            Unsigned words as wide as the values.
        starts, widths, counts
            First word, packed width and number of values of each block. A width of -1 marks values that are
            stored as they are. The caller has checked that no width exceeds the word, that counts lie in
            0..1024, and that the words of each block exist.
        out
            Room for the sum of ``counts``, and 1024 words more, for a block is always written whole.
        """
        source = _U(words.ctypes.data)
        target = _U(out.ctypes.data)
        for block in range(len(starts)):
            base = source + _U(starts[block]) * word_bytes
            count = _U(counts[block])
            if widths[block] < 0:
                copy_bytes(target, base, count * word_bytes)
            else:
                unpack_block(base, widths[block], target, bits, word_type(0))
            target += count * word_bytes

    return unpack_blocks


unpack_blocks_8 = _unpacker(8, np.uint8)
unpack_blocks_16 = _unpacker(16, np.uint16)
unpack_blocks_32 = _unpacker(32, np.uint32)
unpack_blocks_64 = _unpacker(64, np.uint64)
