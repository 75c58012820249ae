"""Unpack FastLanes blocks. Spec: file format 2.x, 4.7.3."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lance_df.encodings.kernels.jit import kernel
from lance_df.encodings.kernels.vectors import join_lines, shift_line

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

_ORDER = (0, 4, 2, 6, 1, 5, 3, 7)
_BLOCK = 1024
# numba must see unsigned positions: signed ones may be negative, and then loops are not vectorised
_U = np.uintp
_LINE_BYTES = _U(128)


def _unpacker(bits: int, word_type: Callable[[Any], Any]) -> Callable[..., Any]:
    word_bytes = _U(bits // 8)
    rows = _U(bits)
    row_offsets = np.array(
        [(_ORDER[row // 8] * 16 + (row % 8) * 128) * bits // 8 for row in range(bits)], np.uintp
    )

    @kernel
    def unpack(words, starts, widths, counts, out):  # type: ignore[no-untyped-def]
        source = _U(words.ctypes.data)
        position = _U(0)
        scratch = np.empty(_BLOCK, words.dtype)
        is_narrower = out.itemsize < words.itemsize
        for block in range(len(starts)):
            base = _U(starts[block])
            count = _U(counts[block])
            if widths[block] <= 0:
                for i in range(count):
                    out[position + _U(i)] = words[base + _U(i)] if widths[block] < 0 else word_type(0)
                position += count
                continue
            width = _U(widths[block])
            mask = word_type(word_type(~word_type(0)) >> word_type(rows - width))
            target = _U(scratch.ctypes.data) if is_narrower else _U(out.ctypes.data) + position * word_bytes
            bit = _U(0)
            for row in range(rows):
                at = source + base * word_bytes + bit // rows * _LINE_BYTES
                shift = bit % rows
                if shift + width <= rows:
                    shift_line(target + row_offsets[row], at, word_type(shift), mask)
                else:
                    up = word_type(rows - shift)
                    join_lines(target + row_offsets[row], at, word_type(shift), up, mask)
                bit += width
            if is_narrower:
                for i in range(count):
                    out[position + _U(i)] = scratch[_U(i)]
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
        Room for the sum of ``counts``, and 1024 words more, for a block is always written whole. Its words
        may be narrower, and then receive the low bits.
    """
    _UNPACKERS[words.itemsize](words, starts, widths, counts, out)
