"""Decode `Binary`: strings and binaries as end positions and bytes.

::

    u64 end 0 | u64 end 1 | ...         nulls included, see `ends`
    bytes of value 0, value 1, ...      perhaps compressed as a whole
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_df.encodings.arrays import variable_array
from lance_df.encodings.decoder import Decoder
from lance_df.encodings.fetch import fetch_spans
from lance_df.encodings.flat.page import FlatDecoder
from lance_df.encodings.general.codecs import decompress
from lance_df.encodings.loaded_page import is_bytes, is_text
from lance_df.encodings.plan import RowRange, read_whole
from lance_df.encodings.variable.ends import Adjustment, needed_ends, resolve_ends
from lance_df.encodings.variable.loaded import LoadedBinary, VariableValues, bitmap_of
from lance_df.errors import CorruptDataError
from lance_df.records import dataclass
from lance_df.storage import ByteRange

if TYPE_CHECKING:
    from lance_df.encodings.loaded_page import LoadedPage
    from lance_df.encodings.plan import IoPlan, Rows
    from lance_df.encodings.variable.ends import EndPositions


@dataclass(frozen=True, slots=True)
class BinaryDecoder(Decoder):
    """Decodes values of variable width. For a range of rows, uncompressed bytes are viewed."""

    data_type: pa.DataType
    num_values: int
    positions: EndPositions
    data: ByteRange
    scheme: str | None = None

    def read(self, rows: Rows) -> IoPlan[pa.Array]:
        """Plan to read rows. See `Decoder`."""
        values = yield from self.read_values(rows)
        return variable_array(self.data_type, values.ends, values.data, values.valid)

    def load(self, rows: Rows) -> IoPlan[tuple[LoadedPage, Rows]]:
        """Plan to load the ends and the bytes of a range; single rows are decoded. See `Decoder`."""
        if not isinstance(rows, RowRange) or not len(rows) or not self._is_plain:
            return (yield from Decoder.load(self, rows))
        stored = yield from self.positions.ends.read(needed_ends(rows))
        words, adjustment = stored.to_numpy(), Adjustment(self.positions.adjustment)
        edges, _ = resolve_ends(words[[0, -1]], adjustment, self.data.num_bytes)
        first, stop = int(rows.start > 0), int(edges[1])
        base = int(edges[0]) if first else 0
        if base > stop:
            raise CorruptDataError(f"values end at {stop}, before their start at {base}")
        (data,) = yield [ByteRange(self.data.start + base, self.data.start + stop)]
        words = words - np.uint64(base) if base else words
        within = RowRange(first, first + len(rows))
        return LoadedBinary(self.data_type, words, data, Adjustment(adjustment.added, base)), within

    def whole(self) -> IoPlan[LoadedPage | None]:
        """Plan to load the page. See `Decoder`."""
        ends = self.positions.ends
        if not self._is_plain or not isinstance(ends, FlatDecoder):
            return None
        stored = yield from ends.whole()
        if stored is None:
            return None
        words = np.frombuffer(stored.data, np.uint64, stored.data.size // 8)
        data = yield from read_whole(self.data)
        return LoadedBinary(self.data_type, words, data, Adjustment(self.positions.adjustment))

    @property
    def _is_plain(self) -> bool:
        is_plain = is_text(self.data_type) or is_bytes(self.data_type)
        return is_plain and self.scheme is None and self.positions.ends.data_type == pa.uint64()

    def read_values(self, rows: Rows) -> IoPlan[VariableValues]:
        """Plan to read the bytes of values of any type."""
        if self.scheme is not None:
            return (yield from self._read_compressed(rows, self.scheme))
        spans = yield from self.positions.read(rows, limit=self.data.num_bytes)
        if spans.bounds is None:
            ends, data = yield from fetch_spans(self.data, spans.starts, spans.ends)
            return VariableValues(ends, data, bitmap_of(spans))
        first, stop = int(spans.bounds[0]), int(spans.bounds[-1])
        (data,) = yield [ByteRange(self.data.start + first, self.data.start + stop)]
        return VariableValues(spans.bounds - first if first else spans.bounds, data, bitmap_of(spans))

    def _read_compressed(self, rows: Rows, scheme: str) -> IoPlan[VariableValues]:
        (packed,) = yield [self.data]
        data = decompress(scheme, packed, max_bytes=max(self.positions.adjustment - 1, 0))
        spans = yield from self.positions.read(rows, limit=data.size)
        return VariableValues.of(data, spans)
