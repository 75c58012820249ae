"""Read values of mini-block pages in any encoding by decoding whole chunks."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from lance_df.encodings.buffers import Chunked
from lance_df.encodings.codecs.values import decode_codes, decode_indices, decode_values, expand_codes
from lance_df.encodings.gather import take
from lance_df.format.encodings_v2_1 import Fsst
from lance_df.records import dataclass

if TYPE_CHECKING:
    import pyarrow as pa

    from lance_df.encodings.buffers import Counts
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

        def read(start: int, stop: int) -> pa.Array:
            first, last = self.chunks.span(start, stop)
            stored = self._decode(np.arange(first, last))
            return self._finish(stored.slice(start - int(self.chunks.items[first]), stop - start))

        return read

    def take(self, rows: RowPositions) -> pa.Array:
        """Decode whole chunks."""
        numbers, positions = self.chunks.locate(rows)
        return self._finish(take(self._decode(numbers), positions))

    def _decode(self, numbers: Counts) -> pa.Array:
        """Decode chunks; FSST codes are expanded only after rows have been selected."""
        encoding, chunks = self.chunks.layout.values, self.chunks
        parts = zip(*chunks.find(numbers), strict=True)
        buffers = tuple(Chunked(chunks.data, starts, sizes) for starts, sizes in parts)[chunks.levels :]
        counts = chunks.counts(numbers)
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
