"""Keep the last bytes of a file in memory, so that most files are opened with one request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_df.storage import ByteSource

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from lance_df.storage import ByteRange

TAIL_BYTES = 64 * 1024


class TailSource(ByteSource):
    """Serves ranges within the last `TAIL_BYTES` from memory, and all others from the file."""

    def __init__(self, source: ByteSource) -> None:
        self.path = source.path
        self.size = source.size
        self._source = source
        self._tail = source.read_tail(TAIL_BYTES)
        self._start = source.size - self._tail.size
        self.held_bytes = self._tail.size

    @property
    def is_memory_mapped(self) -> bool:
        return False

    def _read_ranges(self, ranges: Sequence[ByteRange]) -> list[pa.Buffer]:
        outside = [wanted for wanted in ranges if wanted.start < self._start]
        read = iter(self._source.read_ranges(outside) if outside else ())
        return [
            next(read)
            if wanted.start < self._start
            else self._tail.slice(wanted.start - self._start, wanted.num_bytes)
            for wanted in ranges
        ]


def with_tail(source: ByteSource) -> ByteSource:
    """Return a source whose tail is in memory; a memory map is returned unchanged."""
    if source.is_memory_mapped or isinstance(source, TailSource):
        return source
    return TailSource(source)
