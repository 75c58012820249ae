"""Decode `PackedStruct`: one buffer of rows, each the concatenation of its children's values.

::

    row 0: child 0 | child 1 | ...      row 1: child 0 | child 1 | ...

Children have a fixed width of whole bytes, and are never null.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_df.encodings.arrays import fixed_array, struct_array
from lance_df.encodings.decoder import Decoder
from lance_df.encodings.fetch import check_size, fetch_fixed
from lance_df.encodings.flat.page import bits_of
from lance_df.errors import CorruptDataError
from lance_df.records import dataclass

if TYPE_CHECKING:
    from lance_df.encodings.plan import IoPlan, Rows
    from lance_df.storage import ByteRange


@dataclass(frozen=True, slots=True)
class PackedStructDecoder(Decoder):
    """Decodes structs of the children in stored order. ``data_type`` has all children that are stored."""

    data_type: pa.DataType
    num_values: int
    buffer: ByteRange

    def __post_init__(self) -> None:
        check_size(self.buffer, self.num_values, 8 * sum(self._widths()), "packed structs")

    def read(self, rows: Rows) -> IoPlan[pa.Array]:
        """Plan to read rows. See `Decoder`."""
        widths = self._widths()
        data = yield from fetch_fixed(self.buffer, sum(widths), rows)
        table = np.frombuffer(data, np.uint8).reshape(len(rows), sum(widths))
        children, offset = [], 0
        for child, width in zip(self.data_type, widths, strict=True):
            values = np.ascontiguousarray(table[:, offset : offset + width])
            children.append(fixed_array(child.type, len(rows), pa.py_buffer(values)))
            offset += width
        return struct_array(self.data_type, len(rows), children)

    def _widths(self) -> list[int]:
        bits = [bits_of(child.type) for child in self.data_type]
        if not sum(bits) or any(width % 8 for width in bits):
            raise CorruptDataError(f"type {self.data_type} cannot be stored as a packed struct")
        return [width // 8 for width in bits]
