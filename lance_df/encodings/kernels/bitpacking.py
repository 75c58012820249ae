"""Unpack FastLanes blocks. Spec: file format 2.x, 4.7.3."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lance_df.encodings.kernels.jit import kernel

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

_ORDER = (0, 4, 2, 6, 1, 5, 3, 7)
# numba must see unsigned positions: signed ones may be negative, and then loops are not vectorised
_U = np.uintp


def _unpacker(bits: int, word_type: Callable[[Any], Any]) -> Callable[..., Any]:
    lanes = _U(1024 // bits)
    rows = _U(bits)
    row_offsets = np.array([_ORDER[row // 8] * 16 + (row % 8) * 128 for row in range(bits)], np.uintp)

    @kernel
    def unpack(words, starts, widths, counts, out):  # type: ignore[no-untyped-def]
        position = _U(0)
        for block in range(len(starts)):
            base = _U(starts[block])
            count = _U(counts[block])
            if widths[block] < 0:
                for i in range(count):
                    out[position + _U(i)] = words[base + _U(i)]
                position += count
                continue
            width = _U(widths[block])
            mask = word_type(0)
            if width > _U(0):
                mask = word_type(~word_type(0)) >> word_type(rows - width)
            bit = _U(0)
            for row in range(rows):
                word = base + bit // rows * lanes
                shift = bit % rows
                at = position + row_offsets[row]
                down = word_type(shift)
                if width == _U(0):
                    for lane in range(lanes):
                        out[at + _U(lane)] = mask
                elif shift + width <= rows:
                    for lane in range(lanes):
                        out[at + _U(lane)] = (words[word + _U(lane)] >> down) & mask
                else:
                    up = word_type(rows - shift)
                    second = word + lanes
                    for lane in range(lanes):
                        joined = (words[word + _U(lane)] >> down) | (words[second + _U(lane)] << up)
                        out[at + _U(lane)] = joined & mask
                bit += width
            position += count

    return unpack


_UNPACKERS = {
    1: _unpacker(8, np.uint8),
    2: _unpacker(16, np.uint16),
    4: _unpacker(32, np.uint32),
    8: _unpacker(64, np.uint64),
}


def unpack_blocks(
    words: npt.NDArray[Any],
    starts: npt.NDArray[np.int64],
    widths: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64],
    out: npt.NDArray[Any],
) -> None:
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
    _UNPACKERS[words.itemsize](words, starts, widths, counts, out)
