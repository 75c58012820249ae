"""`Nullable`: which values are valid.

::

    no_nulls    values
    some_nulls  bitmap of valid values | values for every row, the null ones too
    all_nulls   nothing
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_df.encodings.arrays import null_array, with_validity
from lance_df.encodings.plan import together
from lance_df.records import dataclass

if TYPE_CHECKING:
    import pyarrow as pa

    from lance_df.encodings.decoder import Decoder
    from lance_df.encodings.plan import IoPlan, Rows


@dataclass(frozen=True, slots=True)
class SomeNullsDecoder:
    """Values beside a bitmap. ``validity`` decodes booleans."""

    data_type: pa.DataType
    num_values: int
    validity: Decoder
    values: Decoder

    def read(self, rows: Rows) -> IoPlan[pa.Array]:
        valid, values = yield from together([self.validity.read(rows), self.values.read(rows)])
        return with_validity(values, valid.buffers()[1])


@dataclass(frozen=True, slots=True)
class AllNullsDecoder:
    """Nothing but nulls."""

    data_type: pa.DataType
    num_values: int

    def read(self, rows: Rows) -> IoPlan[pa.Array]:
        yield from ()
        return null_array(self.data_type, len(rows))
