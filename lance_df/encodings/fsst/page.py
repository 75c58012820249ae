"""Decode `Fsst`: binary values encoded as codes of a symbol table in the page's encoding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_df.encodings.arrays import variable_array
from lance_df.encodings.decoder import Decoder
from lance_df.encodings.fsst.symbol_table import expand
from lance_df.records import dataclass

if TYPE_CHECKING:
    import pyarrow as pa

    from lance_df.encodings.plan import IoPlan, Rows
    from lance_df.encodings.variable.page import BinaryDecoder


@dataclass(frozen=True, slots=True)
class FsstDecoder(Decoder):
    """Expands the codes that ``codes`` reads."""

    data_type: pa.DataType
    num_values: int
    codes: BinaryDecoder
    symbol_table: bytes

    def read(self, rows: Rows) -> IoPlan[pa.Array]:
        """Plan to read rows. See `Decoder`."""
        coded = yield from self.codes.read_values(rows)
        data, ends = expand(self.symbol_table, coded.data, coded.ends)
        return variable_array(self.data_type, ends, data, coded.valid)
