"""Decode `Bitpacked` and `BitpackedForNonNeg`: integers in fewer bits than their type has.

::

    bitpacked               a dense stream, least significant bit first, sign-extended when signed
    bitpacked_for_non_neg   FastLanes blocks of 1024 values of one width, 128 * width bytes each

pylance reads both, but writes neither of them in 2.0 files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_df.encodings.arrays import fixed_array
from lance_df.encodings.decoder import Decoder
from lance_df.encodings.fetch import check_size
from lance_df.encodings.flat.page import bits_of, select
from lance_df.encodings.kernels import fastlanes
from lance_df.encodings.plan import RowRange
from lance_df.encodings.rows import shift_rows
from lance_df.errors import CorruptDataError
from lance_df.records import dataclass
from lance_df.storage import ByteRange

if TYPE_CHECKING:
    import numpy.typing as npt

    from lance_df.encodings.plan import IoPlan, Rows

_BLOCK = 1024
_WORDS = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}


@dataclass(frozen=True, slots=True)
class BitpackedDecoder(Decoder):
    """A dense bit stream."""

    data_type: pa.DataType
    num_values: int
    buffer: ByteRange
    packed_bits: int
    signed: bool

    def __post_init__(self) -> None:
        _check_widths(self.data_type, self.packed_bits)
        check_size(self.buffer, self.num_values, self.packed_bits, "bit-packed values")

    def read(self, rows: Rows) -> IoPlan[pa.Array]:
        """Plan to read rows. See `Decoder`."""
        around = _enclosing(rows)
        first_bit, stop_bit = around.start * self.packed_bits, around.stop * self.packed_bits
        first_byte = first_bit // 8
        (data,) = yield [ByteRange(self.buffer.start + first_byte, self.buffer.start + (stop_bit + 7) // 8)]
        words = self._unpack(np.frombuffer(data, np.uint8), first_bit - first_byte * 8, len(around))
        values = fixed_array(self.data_type, len(around), pa.py_buffer(words))
        return select(values, shift_rows(rows, -around.start))

    def _unpack(self, data: npt.NDArray[np.uint8], skip_bits: int, num_values: int) -> npt.NDArray[np.uint8]:
        bits = np.unpackbits(data, bitorder="little")[skip_bits : skip_bits + num_values * self.packed_bits]
        wide = np.zeros((num_values, bits_of(self.data_type)), np.uint8)
        if self.packed_bits:
            wide[:, : self.packed_bits] = bits.reshape(num_values, self.packed_bits)
            if self.signed:
                wide[:, self.packed_bits :] = wide[:, self.packed_bits - 1 : self.packed_bits]
        return np.packbits(wide, bitorder="little")


@dataclass(frozen=True, slots=True)
class BitpackedForNonNegDecoder(Decoder):
    """FastLanes blocks."""

    data_type: pa.DataType
    num_values: int
    buffer: ByteRange
    packed_bits: int

    def __post_init__(self) -> None:
        _check_widths(self.data_type, self.packed_bits)
        whole = -(-self.num_values // _BLOCK) * _BLOCK
        check_size(self.buffer, whole, self.packed_bits, "blocks of bit-packed values")

    def read(self, rows: Rows) -> IoPlan[pa.Array]:
        """Plan to read rows. See `Decoder`."""
        around = _enclosing(rows)
        first, stop = around.start // _BLOCK, -(-around.stop // _BLOCK)
        block_bytes = _BLOCK // 8 * self.packed_bits
        (data,) = yield [
            ByteRange(self.buffer.start + first * block_bytes, self.buffer.start + stop * block_bytes)
        ]
        word = _WORDS[bits_of(self.data_type)]
        out = np.zeros((stop - first) * _BLOCK, word)
        if self.packed_bits:
            starts = np.arange(stop - first, dtype=np.int64) * block_bytes
            widths = np.full(stop - first, self.packed_bits, np.int64)
            counts = np.full(stop - first, _BLOCK, np.int64)
            blocks = np.frombuffer(data, np.uint8)
            fastlanes.unpack_blocks(
                blocks, starts, widths, counts, bits_of(self.data_type), out.view(np.uint8)
            )
        values = fixed_array(self.data_type, len(out), pa.py_buffer(out))
        return select(values, shift_rows(rows, -first * _BLOCK))


def _enclosing(rows: Rows) -> RowRange:
    if isinstance(rows, RowRange):
        return rows
    return RowRange(int(rows[0]), int(rows[-1]) + 1) if len(rows) else RowRange(0, 0)


def _check_widths(data_type: pa.DataType, packed_bits: int) -> None:
    bits = bits_of(data_type)
    if bits not in _WORDS or packed_bits > bits:
        raise CorruptDataError(f"values of type {data_type} cannot be bit-packed to {packed_bits} bits")
