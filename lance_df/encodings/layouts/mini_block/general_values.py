"""Values of mini-block pages that are decoded by whole chunks, whatever they are stored as."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from lance_df.encodings.arrays import concat_arrays
from lance_df.encodings.buffers import Chunked
from lance_df.encodings.gather import take
from lance_df.records import dataclass

if TYPE_CHECKING:
    import pyarrow as pa

    from lance_df.encodings.chunks import Chunks
    from lance_df.encodings.layouts.mini_block.page import MiniBlockPage
    from lance_df.encodings.plan import RowPositions
    from lance_df.encodings.resident import Form, RowReader


@dataclass(frozen=True, slots=True)
class GeneralValues:
    """Whatever the decoder of the page can do."""

    chunks: Chunks
    decoder: MiniBlockPage
    is_coded: bool

    dense: ClassVar[int] = 4

    def reader(self, form: Form) -> RowReader:
        """See `Values`."""
        del form
        return self.chunks.by_chunk(self._read)

    def _read(self, first: int, last: int) -> pa.Array:
        chunks = self.chunks
        buffers = zip(*chunks.values(first, last), strict=True)
        stored = self.decoder.decode_stored(
            tuple(Chunked(chunks.data, starts, sizes) for starts, sizes in buffers),
            chunks.counts(first, last),
        )
        return stored if self.is_coded else self.decoder.finish_values(stored)

    def take(self, rows: RowPositions) -> pa.Array:
        """Decode whole chunks, each run of neighbours by itself."""
        items = self.chunks.items
        chunk_of_row = self.chunks.chunks_of(rows)
        cuts = np.flatnonzero(np.diff(chunk_of_row) > 1) + 1
        parts = []
        for part in np.split(np.arange(len(rows)), cuts):
            first, last = int(chunk_of_row[part[0]]), int(chunk_of_row[part[-1]])
            result = self._read(first, last + 1)
            parts.append(take(result, rows[part] - int(items[first])))
        return concat_arrays(parts, parts[0].type)
