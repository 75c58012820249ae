"""Values of mini-block pages that are decoded by whole chunks, whatever they are stored as."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from lance_df.encodings.arrays import concat_arrays
from lance_df.encodings.buffers import Chunked
from lance_df.encodings.codecs.values import decode_codes, decode_indices, decode_values, expand_codes
from lance_df.encodings.gather import take
from lance_df.format.encodings_v2_1 import Fsst
from lance_df.records import dataclass

if TYPE_CHECKING:
    import pyarrow as pa

    from lance_df.encodings.chunks import Chunks
    from lance_df.encodings.loaded_page import Form, RowReader
    from lance_df.encodings.plan import RowPositions


@dataclass(frozen=True, slots=True)
class GeneralValues:
    """Values of any type and encoding, or indices of any width."""

    chunks: Chunks
    data_type: pa.DataType
    is_coded: bool

    dense: ClassVar[int] = 4

    def reader(self, form: Form) -> RowReader:
        """See `Values`."""
        del form
        read_stored = self.chunks.by_chunk(self._decode)
        return lambda start, stop: self._finish(read_stored(start, stop))

    def take(self, rows: RowPositions) -> pa.Array:
        """Decode whole chunks, each run of neighbours by itself."""
        items = self.chunks.items
        chunk_of_row = self.chunks.chunks_of(rows)
        cuts = np.flatnonzero(np.diff(chunk_of_row) > 1) + 1
        parts = []
        for part in np.split(np.arange(len(rows)), cuts):
            first, last = int(chunk_of_row[part[0]]), int(chunk_of_row[part[-1]])
            stored = self._decode(first, last + 1)
            parts.append(take(stored, rows[part] - int(items[first])))
        return self._finish(concat_arrays(parts, parts[0].type))

    def _decode(self, first: int, last: int) -> pa.Array:
        """Decode as far as values depend on each other: the rest is left until rows have been selected."""
        encoding, chunks = self.chunks.layout.values, self.chunks
        parts = zip(*chunks.values(first, last), strict=True)
        buffers = tuple(Chunked(chunks.data, starts, sizes) for starts, sizes in parts)
        counts = chunks.counts(first, last)
        if self.is_coded:
            return decode_indices(encoding, buffers, counts)
        if isinstance(encoding, Fsst):
            return decode_codes(encoding, buffers, counts, self.data_type)
        return decode_values(encoding, buffers, counts, self.data_type)

    def _finish(self, stored: pa.Array) -> pa.Array:
        encoding = self.chunks.layout.values
        if self.is_coded or not isinstance(encoding, Fsst):
            return stored
        return expand_codes(encoding, stored, self.data_type)
