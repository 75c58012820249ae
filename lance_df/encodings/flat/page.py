"""Decode `Flat`: values of equal width back to back, one bit each for booleans.

::

    value 0 | value 1 | ...                          bits_per_value / 8 bytes each
    lz4 or zstd frame of the above                   with compression, see `encodings.general.codecs`
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lance_df.encodings.arrays import fixed_array, fixed_width_bits, is_aligned
from lance_df.encodings.decoder import Decoder
from lance_df.encodings.fetch import check_size, fetch_bits, fetch_fixed
from lance_df.encodings.flat.loaded import LoadedFlat
from lance_df.encodings.general.codecs import decompress
from lance_df.encodings.loaded_page import is_plain_type
from lance_df.encodings.plan import RowRange, read_whole
from lance_df.encodings.rows import item_rows
from lance_df.errors import CorruptDataError
from lance_df.records import dataclass
from lance_df.sliced_lists import unsliced

if TYPE_CHECKING:
    from lance_df.encodings.plan import IoPlan, Rows
    from lance_df.storage import ByteRange


@dataclass(frozen=True, slots=True)
class FlatDecoder(Decoder):
    """Decodes values that can be read row by row."""

    data_type: pa.DataType
    num_values: int
    buffer: ByteRange

    def __post_init__(self) -> None:
        check_size(self.buffer, self.num_values, bits_of(self.data_type), "flat values")

    def read(self, rows: Rows) -> IoPlan[pa.Array]:
        """Plan to read rows. See `Decoder`."""
        bits = bits_of(self.data_type)
        if bits == 0:
            data = pa.py_buffer(b"")
        elif bits % 8 == 0:
            data = yield from fetch_fixed(self.buffer, bits // 8, rows)
        else:  # booleans, and fixed-size lists of them
            data = yield from fetch_bits(self.buffer, item_rows(rows, bits))
        return fixed_array(self.data_type, len(rows), data)

    def whole(self) -> IoPlan[LoadedFlat | None]:
        """Plan to load the page; None if Arrow cannot view it. See `Decoder`."""
        data_type = self.data_type
        if not is_plain_type(data_type) or not (width := bits_of(data_type) // 8):  # strings of no bytes
            return None
        data = yield from read_whole(self.buffer)
        if data.size < self.num_values * width:
            raise CorruptDataError(
                f"{self.num_values} values of {width} bytes do not fit into a buffer of {data.size} bytes"
            )
        return LoadedFlat(data_type, width, data) if is_aligned(data, data_type) else None


@dataclass(frozen=True, slots=True)
class CompressedFlatDecoder(Decoder):
    """Decodes values that can only be read all together."""

    data_type: pa.DataType
    num_values: int
    buffer: ByteRange
    scheme: str

    def read(self, rows: Rows) -> IoPlan[pa.Array]:
        """Plan to read rows. See `Decoder`."""
        num_bytes = (self.num_values * bits_of(self.data_type) + 7) // 8
        (packed,) = yield [self.buffer]
        data = decompress(self.scheme, packed, max_bytes=num_bytes)
        if data.size != num_bytes:
            raise CorruptDataError(
                f"{self.num_values} values of {self.data_type} take {num_bytes} bytes, but the decompressed "
                f"buffer has {data.size}"
            )
        values = fixed_array(self.data_type, self.num_values, data)
        return select(values, rows)


def select(values: pa.Array, rows: Rows) -> pa.Array:
    """Return some rows of an array of all rows, as an array at offset 0."""
    if isinstance(rows, RowRange):
        if len(rows) == len(values):
            return values
        part = values.slice(rows.start, len(rows))
        return pa.concat_arrays([part]) if part.offset else part
    return unsliced(values).take(pa.array(rows))


def bits_of(data_type: pa.DataType) -> int:
    """Return the bits of a value; raises CorruptDataError for types of variable width."""
    bits = fixed_width_bits(data_type)
    if bits is None:
        raise CorruptDataError(f"expected values of type {data_type}, found values of fixed width")
    return bits
