"""Decode `Nullable`: values and their validity.

::

    no_nulls    values
    some_nulls  bitmap of valid values | values for every row, the null ones too
    all_nulls   nothing
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_df.encodings.arrays import null_array, with_validity_bitmap
from lance_df.encodings.decoder import Decoder
from lance_df.encodings.flat.loaded import LoadedFlat
from lance_df.encodings.flat.page import FlatDecoder
from lance_df.encodings.loaded_page import is_plain_type
from lance_df.encodings.nullable.loaded import LoadedNullable
from lance_df.encodings.plan import RowRange, read_whole, together
from lance_df.records import dataclass

if TYPE_CHECKING:
    import pyarrow as pa

    from lance_df.encodings.loaded_page import LoadedPage
    from lance_df.encodings.plan import IoPlan, Rows


@dataclass(frozen=True, slots=True)
class SomeNullsDecoder(Decoder):
    """Decodes values beside a bitmap. ``validity`` decodes booleans."""

    data_type: pa.DataType
    num_values: int
    validity: Decoder
    values: Decoder

    def read(self, rows: Rows) -> IoPlan[pa.Array]:
        """Plan to read rows. See `Decoder`."""
        valid, values = yield from together([self.validity.read(rows), self.values.read(rows)])
        return with_validity_bitmap(values, valid.buffers()[1])

    def load(self, rows: Rows) -> IoPlan[tuple[LoadedPage, Rows]]:
        """Plan to load the bytes of rows. See `Decoder`."""
        if not isinstance(self.values, FlatDecoder) or not is_plain_type(self.data_type):
            return (yield from Decoder.load(self, rows))
        around = RowRange(rows.start & ~7, rows.stop) if isinstance(rows, RowRange) else rows
        valid, values = yield from together([self.validity.read(around), self.values.read(around)])
        within = RowRange(len(around) - len(rows), len(around))
        return LoadedNullable(LoadedFlat.of(values), valid.buffers()[1]), within

    def whole(self) -> IoPlan[LoadedPage | None]:
        """Plan to load the page. See `Decoder`."""
        if not isinstance(self.values, FlatDecoder) or not isinstance(self.validity, FlatDecoder):
            return None
        values = yield from self.values.whole()
        if values is None:
            return None
        return LoadedNullable(values, (yield from read_whole(self.validity.buffer)))


@dataclass(frozen=True, slots=True)
class AllNullsDecoder(Decoder):
    """Returns only nulls."""

    data_type: pa.DataType
    num_values: int

    def read(self, rows: Rows) -> IoPlan[pa.Array]:
        """Plan to read rows. See `Decoder`."""
        yield from ()
        return null_array(self.data_type, len(rows))
