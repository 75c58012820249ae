"""The chunks of a mini-block page in memory: where their buffers are, and which of their values are null."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from lance_df.encodings import kernels
from lance_df.encodings.kernels import page_map
from lance_df.encodings.v2_1.buffers import Bytes, Chunked, Counts
from lance_df.encodings.v2_1.levels import decode_levels
from lance_df.errors import CorruptDataError
from lance_df.format.encodings_v2_1 import OutOfLineBitpacking
from lance_df.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt
    import pyarrow as pa

    from lance_df.encodings.plan import RowPositions
    from lance_df.encodings.resident import Form, RowReader
    from lance_df.format.encodings_v2_1 import MiniBlockLayout

    Mask = npt.NDArray[np.bool_]


_LEVEL_BITS = 16


class Values(Protocol):
    """Decodes the values of a page as they are stored: dictionary indices remain, nulls have any value.

    Attributes
    ----------
    dense
        From one row of so many on, to decode all between them takes less time than to pick them.
    """

    dense: ClassVar[int]

    def reader(self, form: Form) -> RowReader:
        """Return what reads values from a first to a last (exclusive). Strings may be views in that form."""
        ...

    def take(self, rows: RowPositions) -> pa.Array:
        """Return single values."""
        ...


@dataclass(frozen=True, slots=True)
class Chunks:
    """Where chunks start, the first value of each, and where the last ends."""

    data: Bytes
    positions: Counts
    items: Counts
    layout: MiniBlockLayout

    @property
    def levels(self) -> int:
        """How many level buffers come before the values."""
        return int(self.layout.definition is not None)

    def find(self, chunks: Counts) -> tuple[Counts, Counts]:
        """Return a row for each buffer, levels first: where it starts in the chunks, and its bytes."""
        num_buffers = self.levels + self.layout.num_buffers
        starts, sizes = np.empty((2, num_buffers, len(chunks)), np.int64)
        wide = int(self.layout.has_large_chunk)
        check(
            kernels.chunk_buffers(
                self.data, self.positions, self.items, chunks, self.levels, wide, starts, sizes
            )
        )
        return starts, sizes

    def values(self, first: int, last: int) -> tuple[Counts, Counts]:
        """Do the same for the value buffers of chunks ``first`` to ``last`` (exclusive)."""
        starts, sizes = self.find(np.arange(first, last))
        return starts[self.levels :], sizes[self.levels :]

    def map(self, width: int, *, table: int = 0, table_size: int = -1, out_width: int = 0) -> Counts:
        """Return what kernels know of the page; see `page_map`. It does not keep these chunks."""
        entries = np.zeros(page_map.NUM_ENTRIES, np.int64)
        entries[page_map.DATA] = self.data.ctypes.data
        entries[page_map.POSITIONS] = self.positions.ctypes.data
        entries[page_map.ITEMS] = self.items.ctypes.data
        entries[page_map.NUM_CHUNKS] = len(self.items) - 1
        entries[page_map.LEVELS] = self.levels
        entries[page_map.WIDE] = self.layout.has_large_chunk
        entries[page_map.WIDTH] = width
        entries[page_map.TABLE] = table
        entries[page_map.TABLE_SIZE] = table_size
        entries[page_map.OUT_WIDTH] = out_width or width
        entries[page_map.DATA_BYTES] = len(self.data)
        return entries

    def span(self, start: int, stop: int) -> tuple[int, int]:
        """Return the first chunk of rows, and the one after their last."""
        return int(self.items.searchsorted(start, "right")) - 1, int(self.items.searchsorted(stop, "left"))

    def by_chunk(self, read: Callable[[int, int], pa.Array]) -> RowReader:
        """Return a reader of rows for one of all values of chunks from a first to a last (exclusive)."""

        def read_rows(start: int, stop: int) -> pa.Array:
            first, last = self.span(start, stop)
            return read(first, last).slice(start - int(self.items[first]), stop - start)

        return read_rows

    def counts(self, first: int, last: int) -> Counts:
        """Return how many values chunks ``first`` to ``last`` (exclusive) have."""
        return np.diff(self.items[first : last + 1])

    def chunks_of(self, rows: RowPositions) -> Counts:
        """Return the chunk of each row."""
        return self.items.searchsorted(rows, "right") - 1

    def words(self, word: str) -> np.ndarray[Any, np.dtype[Any]]:
        """Return the whole of ``data`` as words."""
        width = int(word[-1])
        return self.data[: len(self.data) // width * width].view(word)


class Validity:
    """Which values of chunks with definition levels are not null."""

    __slots__ = ("_chunks", "_header", "_map")

    def __init__(self, chunks: Chunks) -> None:
        self._chunks = chunks
        layout = chunks.layout
        self._header = _header_bytes(layout)
        self._map: Counts | None = None
        match layout.definition:
            case OutOfLineBitpacking(bits_per_value=16, packed_bits=bits) if bits <= _LEVEL_BITS:
                self._map = chunks.map(bits)

    def read(self, start: int, stop: int) -> Mask:
        """Return a mask of values from a first to a last (exclusive), whose chunks are decoded."""
        if self._map is not None:
            valid = np.empty(stop - start, np.bool_)
            page, out = self._map.ctypes.data, valid.ctypes.data
            found = kernels.read_valid(page, start, stop, self._header, out)
            if found < -1:
                raise _beyond(-2 - found)
            check(found)
            return valid
        first, last = self._chunks.span(start, stop)
        return self._decode(np.arange(first, last))[start - int(self._chunks.items[first]) :][: stop - start]

    def take(self, rows: RowPositions) -> Mask:
        """Return a mask of single values of chunks that are decoded."""
        items = self._chunks.items
        chunks, place = np.unique(self._chunks.chunks_of(rows), return_inverse=True)
        counts = items[chunks + 1] - items[chunks]
        shift = np.cumsum(counts) - counts - items[chunks]
        return self._decode(chunks)[rows + shift[place]]

    def _decode(self, chunks: Counts) -> Mask:
        page = self._chunks
        encoding = page.layout.definition
        assert encoding is not None
        starts, sizes = page.find(chunks)
        counts = page.items[chunks + 1] - page.items[chunks]
        levels = decode_levels(encoding, Chunked(page.data, starts[0], sizes[0]), counts)
        if int(levels.max(initial=0)) > 1:
            raise _beyond(int(levels.max()))
        return levels == 0


def _header_bytes(layout: MiniBlockLayout) -> int:
    """Return the bytes before the first buffer of chunks with definition levels."""
    size_bytes = 4 if layout.has_large_chunk else 2
    return (4 + size_bytes * layout.num_buffers + 7) & ~7


def _beyond(level: int) -> CorruptDataError:
    return CorruptDataError(f"definition level {level}, the layers have 1")


def check(broken: int) -> None:
    """Raise `CorruptDataError` where a kernel has found a broken chunk."""
    if broken >= 0:
        raise CorruptDataError(f"chunk {broken} does not hold its values")
