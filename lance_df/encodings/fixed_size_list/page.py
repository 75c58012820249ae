"""Decode `FixedSizeList`: ``dimension`` items for each row, back to back, with nulls among the items."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_df.encodings.arrays import fixed_size_lists
from lance_df.encodings.decoder import Decoder
from lance_df.encodings.rows import item_rows
from lance_df.records import dataclass

if TYPE_CHECKING:
    import pyarrow as pa

    from lance_df.encodings.plan import IoPlan, Rows


@dataclass(frozen=True, slots=True)
class FixedSizeListDecoder(Decoder):
    """Decodes lists with a decoder of their items. (Flat items are read as rows of a wide flat buffer.)"""

    data_type: pa.DataType
    num_values: int
    items: Decoder

    def read(self, rows: Rows) -> IoPlan[pa.Array]:
        """Plan to read rows. See `Decoder`."""
        items = yield from self.items.read(item_rows(rows, self.data_type.list_size))
        return fixed_size_lists(self.data_type, len(rows), items)
