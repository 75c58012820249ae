"""`Binary`: strings and binaries as end positions and bytes.

::

    u64 end 0 | u64 end 1 | ...         nulls folded in, see `ends`
    bytes of value 0, value 1, ...      perhaps compressed as a whole
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lance_df.encodings.arrays import variable_array
from lance_df.encodings.fetch import fetch_spans, pack_bits, take_spans
from lance_df.encodings.general.codecs import decompress
from lance_df.records import dataclass
from lance_df.storage import ByteRange

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from lance_df.encodings.plan import IoPlan, Rows
    from lance_df.encodings.variable.ends import EndPositions, Spans


@dataclass(frozen=True, slots=True)
class VariableValues:
    """0 and the end of each value in ``data``, and a bitmap of the valid ones (None: all)."""

    ends: npt.NDArray[np.int64]
    data: pa.Buffer
    valid: pa.Buffer | None


@dataclass(frozen=True, slots=True)
class BinaryDecoder:
    """Values of any width. A range of rows views the bytes where they are not compressed."""

    data_type: pa.DataType
    num_values: int
    positions: EndPositions
    data: ByteRange
    scheme: str | None = None

    def read(self, rows: Rows) -> IoPlan[pa.Array]:
        values = yield from self.read_values(rows)
        return variable_array(self.data_type, values.ends, values.data, values.valid)

    def read_values(self, rows: Rows) -> IoPlan[VariableValues]:
        """Plan to read the bytes of the values, whatever they mean."""
        if self.scheme is not None:
            return (yield from self._read_compressed(rows, self.scheme))
        spans = yield from self.positions.read(rows, limit=self.data.num_bytes)
        if spans.bounds is None:
            ends, data = yield from fetch_spans(self.data, spans.starts, spans.ends)
            return VariableValues(ends, data, _bitmap(spans))
        first, stop = int(spans.bounds[0]), int(spans.bounds[-1])
        (data,) = yield [ByteRange(self.data.start + first, self.data.start + stop)]
        return VariableValues(_from_zero(spans.bounds), data, _bitmap(spans))

    def _read_compressed(self, rows: Rows, scheme: str) -> IoPlan[VariableValues]:
        (packed,) = yield [self.data]
        data = decompress(scheme, packed, max_bytes=max(self.positions.adjustment - 1, 0))
        spans = yield from self.positions.read(rows, limit=data.size)
        return _pick(data, spans)


def _pick(data: pa.Buffer, spans: Spans) -> VariableValues:
    if spans.bounds is not None:
        first, stop = int(spans.bounds[0]), int(spans.bounds[-1])
        return VariableValues(_from_zero(spans.bounds), data.slice(first, stop - first), _bitmap(spans))
    ends, taken = take_spans(data, spans.starts, spans.ends)
    return VariableValues(ends, taken, _bitmap(spans))


def _from_zero(bounds: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return bounds - bounds[0] if bounds[0] else bounds


def _bitmap(spans: Spans) -> pa.Buffer | None:
    return None if spans.valid is None else pack_bits(spans.valid)
