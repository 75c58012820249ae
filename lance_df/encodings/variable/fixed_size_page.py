"""Decode `FixedSizeBinary`: strings or binaries of one length, back to back, without stored ends.

pylance reads it, but writes it in no 2.0 file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lance_df.encodings.arrays import variable_array
from lance_df.encodings.decoder import Decoder
from lance_df.records import dataclass

if TYPE_CHECKING:
    import pyarrow as pa

    from lance_df.encodings.plan import IoPlan, Rows


@dataclass(frozen=True, slots=True)
class FixedSizeBinaryDecoder(Decoder):
    """Decodes strings or binaries; ``values`` decodes the fixed-size binary type of the same width."""

    data_type: pa.DataType
    num_values: int
    values: Decoder

    def read(self, rows: Rows) -> IoPlan[pa.Array]:
        """Plan to read rows. See `Decoder`."""
        values = yield from self.values.read(rows)
        ends = np.arange(len(rows) + 1, dtype=np.int64) * values.type.byte_width
        return variable_array(self.data_type, ends, values.buffers()[1], None)
