"""Read nullable values in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_df.encodings.arrays import with_validity_bitmap
from lance_df.encodings.buffers import bitmap
from lance_df.encodings.flat.loaded import LoadedFlat
from lance_df.encodings.loaded_page import Form
from lance_df.records import dataclass

if TYPE_CHECKING:
    from lance_df.encodings.loaded_page import RowReader
    from lance_df.encodings.plan import RowPositions


@dataclass(frozen=True, slots=True)
class LoadedNullable:
    """Values, and the bitmap of the valid ones."""

    values: LoadedFlat
    validity: pa.Buffer

    def reader(self, form: Form) -> RowReader:
        """Return a reader of rows. See `LoadedPage`."""
        del form
        values, data_type, bits = self.values, self.values.data_type, self.validity

        def read(start: int, stop: int) -> pa.Array:
            # arrays may start at any bit of a byte
            whole, count = start & ~7, stop - start
            valid = bits.slice(whole >> 3, ((stop + 7) >> 3) - (whole >> 3))
            return pa.Array.from_buffers(
                data_type, count, [valid, values.bytes(whole, stop)], -1, start - whole
            )

        return read

    def take(self, rows: RowPositions, form: Form) -> pa.Array:
        """Return single rows. See `LoadedPage`."""
        del form
        valid = np.frombuffer(self.validity, np.uint8)
        bits = valid[rows >> 3] >> (rows & 7).astype(np.uint8) & np.uint8(1)
        return with_validity_bitmap(self.values.take(rows), bitmap(bits))

    def page_take(self) -> None:
        """Return None, since nulls are stored apart. See `LoadedPage`."""
