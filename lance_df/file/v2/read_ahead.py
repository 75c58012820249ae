"""Read in one step the bytes that plans request in several steps."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from lance_df.encodings.plan import RowRange
from lance_df.storage import ByteSource

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa

    from lance_df.file.v2.page_groups import Part
    from lance_df.format.column_metadata import PageInfo
    from lance_df.storage import ByteRange

# A store answers a request for this many bytes about as fast as one for a few bytes.
_SMALL_BYTES = 256 * 1024


def pages_ahead(parts: Iterable[Part], pages: Sequence[PageInfo]) -> Iterator[ByteRange]:
    """Yield the buffers of pages of which all rows are wanted, or a range of rows if the page is small.

    Decoders request one buffer after the other, since the first decides which part of the next is needed.
    """
    for number, rows in parts:
        buffers = pages[number].buffers
        if len(buffers) > 1 and isinstance(rows, RowRange):
            is_whole = len(rows) == pages[number].num_rows
            if is_whole or sum(buffer.num_bytes for buffer in buffers) <= _SMALL_BYTES:
                yield from buffers


def read_ahead(source: ByteSource, ranges: Iterable[ByteRange]) -> ByteSource:
    """Return a source that has ``ranges`` in memory; a memory map is returned unchanged."""
    if source.is_memory_mapped:
        return source
    wanted = sorted({wanted for wanted in ranges if wanted.num_bytes})
    return _ReadAhead(source, wanted) if wanted else source


class _ReadAhead(ByteSource):
    """A file of which some ascending ranges are in memory."""

    def __init__(self, source: ByteSource, ranges: Sequence[ByteRange]) -> None:
        self.path = source.path
        self.size = source.size
        self._source = source
        self._ranges = ranges
        self._buffers = source.read_ranges(ranges)

    @property
    def is_memory_mapped(self) -> bool:
        return False

    def _read_ranges(self, ranges: Sequence[ByteRange]) -> list[pa.Buffer]:
        buffers = [self._in_memory(wanted) for wanted in ranges]
        missing = [wanted for wanted, known in zip(ranges, buffers, strict=True) if known is None]
        rest = iter(self._source.read_ranges(missing) if missing else ())
        return [next(rest) if known is None else known for known in buffers]

    def _in_memory(self, wanted: ByteRange) -> pa.Buffer | None:
        index = bisect_right(self._ranges, wanted.start, key=lambda known: known.start) - 1
        if index < 0 or self._ranges[index].stop < wanted.stop:
            return None
        return self._buffers[index].slice(wanted.start - self._ranges[index].start, wanted.num_bytes)
