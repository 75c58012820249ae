"""Read the validity of values without lists above them from their definition levels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lance_df.encodings.buffers import Chunked
from lance_df.encodings.chunks import check
from lance_df.encodings.kernels import fastlanes
from lance_df.encodings.levels.decode import decode_levels
from lance_df.encodings.plan import RowRange
from lance_df.errors import CorruptDataError
from lance_df.format.encodings_v2_1 import OutOfLineBitpacking

if TYPE_CHECKING:
    import numpy.typing as npt

    from lance_df.encodings.buffers import Counts
    from lance_df.encodings.chunks import Chunks
    from lance_df.encodings.kernels.pages import Page
    from lance_df.encodings.levels.decode import Levels
    from lance_df.encodings.plan import RowPositions, Rows
    from lance_df.format.encodings_v2_1 import MiniBlockLayout

    Mask = npt.NDArray[np.bool_]

_LEVEL_BITS = 16


class Validity:
    """Which values of chunks with definition levels are not null."""

    __slots__ = ("_chunks", "_header", "_page")

    def __init__(self, chunks: Chunks) -> None:
        self._chunks = chunks
        layout = chunks.layout
        self._header = _header_bytes(layout)
        self._page: Page | None = None
        match layout.definition:
            case OutOfLineBitpacking(bits_per_value=16, packed_bits=bits) if bits <= _LEVEL_BITS:
                self._page = chunks.page(bits)

    def read(self, start: int, stop: int) -> Mask:
        """Return the mask of the values from a first to a last (exclusive); their chunks are decoded."""
        if self._page is not None:
            valid = np.empty(stop - start, np.bool_)
            status = fastlanes.read_valid(self._page, start, stop, self._header, valid.view(np.uint8))
            if status < -1:
                raise _beyond(-2 - status)
            check(status)
            return valid
        return self._are_valid(RowRange(start, stop))

    def take(self, rows: RowPositions) -> Mask:
        """Return the mask of single values; their chunks are decoded."""
        return self._are_valid(rows)

    def _are_valid(self, rows: Rows) -> Mask:
        levels = definition_levels(self._chunks, rows)
        if int(levels.max(initial=0)) > 1:
            raise _beyond(int(levels.max()))
        return levels == 0


def definition_levels(chunks: Chunks, rows: Rows) -> Levels:
    """Return the definition levels of rows; each row is one value."""
    if not len(rows):
        return np.empty(0, np.uint16)
    if isinstance(rows, RowRange):
        first, last = chunks.span(rows.start, rows.stop)
        start = rows.start - int(chunks.items[first])
        return _levels_of(chunks, np.arange(first, last))[start : start + len(rows)]
    numbers, positions = chunks.locate(rows)
    return _levels_of(chunks, numbers)[positions]


def _levels_of(chunks: Chunks, numbers: Counts) -> Levels:
    encoding = chunks.layout.definition
    assert encoding is not None
    starts, sizes = chunks.find(numbers)
    last = chunks.levels - 1
    return decode_levels(encoding, Chunked(chunks.data, starts[last], sizes[last]), chunks.counts(numbers))


def _header_bytes(layout: MiniBlockLayout) -> int:
    """Return the number of bytes before the first buffer of chunks with definition levels."""
    size_bytes = 4 if layout.has_large_chunk else 2
    return (4 + size_bytes * layout.num_buffers + 7) & ~7


def _beyond(level: int) -> CorruptDataError:
    return CorruptDataError(f"definition level {level} is out of range, expected at most 1")
