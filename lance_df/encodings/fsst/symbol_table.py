"""Parse FSST symbol tables, and expand strings encoded with symbols of up to 8 bytes.

The table: ``u64 header | n symbols of 8 bytes | n lengths``; code 255 is an escape: the next byte is a
literal. Format: docs/format/fsst.md.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_df.encodings.kernels import fsst
from lance_df.errors import CorruptDataError, InvalidInputError
from lance_df.records import dataclass

MAGIC = 0x46535354
MAX_SYMBOLS = 255
_MAX_SYMBOL_BYTES = 8
# kernels expand this many codes at a time, if there is room for all bytes that they may stand for
_SLACK_BYTES = 8 * 4096
_SAMPLE_CODES = 1024

Offsets: TypeAlias = npt.NDArray[np.int32] | npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SymbolTable:
    """256 symbols as little-endian words, and their lengths.

    If ``is_compressed`` is false, the data are stored verbatim.
    """

    symbols: npt.NDArray[np.uint64]
    lengths: npt.NDArray[np.uint8]
    is_compressed: bool

    @classmethod
    def parse(cls, table: bytes) -> SymbolTable:
        """Parse a stored table.

        Raises
        ------
        CorruptDataError
            The magic is wrong, the table is too short, or a symbol is longer than 8 bytes.
        """
        header = int.from_bytes(table[:8], "little")
        count = header & 0xFF
        if len(table) < 8 + 9 * count or header >> 32 != MAGIC or count > MAX_SYMBOLS:
            raise CorruptDataError(
                f"an FSST symbol table of {len(table)} bytes has the invalid header {header:#x}"
            )
        symbols, lengths = np.zeros(256, "<u8"), np.zeros(256, np.uint8)
        symbols[:count] = np.frombuffer(table, "<u8", count, 8)
        lengths[:count] = np.frombuffer(table, np.uint8, count, 8 + 8 * count)
        if lengths.max() > _MAX_SYMBOL_BYTES:
            raise CorruptDataError(
                f"an FSST symbol has {lengths.max()} bytes, expected at most {_MAX_SYMBOL_BYTES}"
            )
        return cls(symbols, lengths, bool(header >> 24 & 0xFF))

    def expand(self, offsets: Offsets, codes: npt.NDArray[np.uint8]) -> tuple[Offsets, npt.NDArray[np.uint8]]:
        """Expand ``codes``; return the offsets (of the same width) and the bytes of the values.

        Parameters
        ----------
        offsets
            Value i is ``codes[offsets[i]:offsets[i + 1]]``; offsets ascend within ``codes``.

        Raises
        ------
        CorruptDataError
            A value ends within an escape.
        InvalidInputError
            There are too many bytes for 32-bit offsets.
        """
        if not self.is_compressed:
            return offsets, codes
        table, bounds = self.table(), offsets.view(np.uint8)
        ends = np.empty_like(offsets)
        ends[0] = 0
        state = np.array([0, offsets[0], 0], np.int64)
        buffer = pa.allocate_buffer(
            self._likely_bytes(codes[offsets[0] : offsets[-1]]) + _SLACK_BYTES, resizable=True
        )
        while True:
            out = np.frombuffer(buffer, np.uint8)
            if not fsst.expand_fsst(
                codes, bounds, offsets.itemsize, table, ends[1:].view(np.uint8), out, state
            ):
                raise CorruptDataError(
                    "an FSST-encoded string ends within an escape sequence, or its offsets are out of range"
                )
            num_values, done, total = state.tolist()
            if num_values == len(offsets) - 1:
                break
            del out
            buffer.resize(total + (int(offsets[-1]) - done) * _MAX_SYMBOL_BYTES)
        if total > np.iinfo(offsets.dtype).max:
            raise InvalidInputError(f"{total} bytes do not fit into one array of strings; read fewer rows")
        return ends, out[:total]

    def table(self) -> npt.NDArray[np.uint8]:
        """Return the table in the form that kernels take."""
        return np.concatenate((self.symbols.view(np.uint8), self.lengths))

    def _likely_bytes(self, codes: npt.NDArray[np.uint8]) -> int:
        """Return a generous estimate of the expanded size; too low an estimate costs a second pass."""
        sample = codes[:: max(len(codes) // _SAMPLE_CODES, 1)]
        sampled = int(self.lengths[sample].sum()) * len(codes) // max(len(sample), 1)
        return sampled * 6 // 5


def expand(
    table: bytes, codes: pa.Buffer, ends: npt.NDArray[np.int64]
) -> tuple[pa.Buffer, npt.NDArray[np.int64]]:
    """Expand the codes of values with the given ends (0 first); return their bytes and ends.

    Raises as :meth:`SymbolTable.parse` and :meth:`SymbolTable.expand`.
    """
    data = np.frombuffer(codes, np.uint8) if codes.size else np.empty(0, np.uint8)
    offsets, expanded = SymbolTable.parse(table).expand(ends, data)
    return pa.py_buffer(expanded), offsets.astype(np.int64, copy=False)
