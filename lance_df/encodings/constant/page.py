"""Decode `Constant`: one value of fixed width, stored in the encoding itself, for all rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_df.encodings.arrays import fixed_array
from lance_df.encodings.decoder import Decoder
from lance_df.encodings.flat.page import bits_of
from lance_df.errors import CorruptDataError, InvalidInputError
from lance_df.records import dataclass

if TYPE_CHECKING:
    from lance_df.encodings.plan import IoPlan, Rows


@dataclass(frozen=True, slots=True)
class ConstantDecoder(Decoder):
    """Repeats ``value``, which is little-endian, as in a flat buffer."""

    data_type: pa.DataType
    num_values: int
    value: bytes

    def __post_init__(self) -> None:
        bits = bits_of(self.data_type)
        if (bits + 7) // 8 != len(self.value) or (bits % 8 and bits != 1):
            raise CorruptDataError(
                f"a constant of type {self.data_type} cannot be stored in {len(self.value)} bytes"
            )

    def read(self, rows: Rows) -> IoPlan[pa.Array]:
        """Plan to read rows. See `Decoder`."""
        yield from ()
        if bits_of(self.data_type) == 1:
            data = np.full((len(rows) + 7) // 8, 0xFF if self.value[0] & 1 else 0, np.uint8)
        else:
            try:
                data = np.tile(np.frombuffer(self.value, np.uint8), len(rows))
            except (MemoryError, ValueError) as err:
                raise InvalidInputError(f"{len(rows)} rows are too many for one array") from err
        return fixed_array(self.data_type, len(rows), pa.py_buffer(data))
