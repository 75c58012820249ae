"""Read FSST-encoded strings of chunks in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa

from lance_df.encodings.buffers import allocate
from lance_df.encodings.chunks import check
from lance_df.encodings.gather import take
from lance_df.encodings.kernels import fsst
from lance_df.encodings.loaded_page import Form, is_text, viewed
from lance_df.encodings.text import check_utf8
from lance_df.encodings.variable.decode import check_total_bytes
from lance_df.encodings.variable.values import find_strings, string_array
from lance_df.errors import CorruptDataError

if TYPE_CHECKING:
    from lance_df.encodings.chunks import Chunks
    from lance_df.encodings.fsst.symbol_table import SymbolTable
    from lance_df.encodings.loaded_page import RowReader
    from lance_df.encodings.plan import RowPositions

# the positions of expanded bytes within a chunk have 32 bits
MAX_CODED_CHUNK = 1 << 27
_MAX_SYMBOL_BYTES = 8
# the limit of 32-bit offsets
_MAX_VIEWED = (1 << 31) - 1


class CodedStrings:
    """Offsets and FSST codes in each chunk."""

    __slots__ = (
        "_bytes_per_row",
        "_chunks",
        "_data_type",
        "_is_ascii",
        "_longest",
        "_page",
        "_width",
    )

    dense: ClassVar[int] = 4

    def __init__(self, chunks: Chunks, data_type: pa.DataType, width: int, symbols: SymbolTable) -> None:
        self._chunks = chunks
        self._data_type = data_type
        self._width = width
        self._page = chunks.page(width, table=symbols.table())
        self._longest = int(np.diff(chunks.positions).max(initial=0))
        symbol_bytes = symbols.symbols.view(np.uint8).reshape(-1, _MAX_SYMBOL_BYTES)
        counted = np.arange(_MAX_SYMBOL_BYTES) < symbols.lengths[:, None]
        self._is_ascii = not (symbol_bytes[counted] >= 0x80).any()
        self._bytes_per_row = 3 * len(chunks.data) / max(int(chunks.items[-1]), 1)  # learned while reading

    def reader(self, form: Form) -> RowReader:
        """See `Values`."""
        return viewed(self._read, form)

    def _read(self, start: int, stop: int) -> pa.Array:
        count, width = stop - start, self._width
        check(0 if count > len(self._chunks.data) else -1)
        offsets, placed = allocate((count + 1) * width)
        reserve = _MAX_SYMBOL_BYTES * self._longest
        data = pa.allocate_buffer(int(count * self._bytes_per_row * 1.05) + reserve, resizable=True)
        state = np.array([start, 0, 0], np.int64)
        while True:
            broken = fsst.read_codes(self._page, start, stop, placed, np.frombuffer(data, np.uint8), state)
            if broken >= 0:
                raise CorruptDataError(
                    f"the offsets of chunk {broken} do not ascend, are out of range, or lie within an "
                    "escape sequence"
                )
            done, total, literals = state.tolist()
            if done == stop:
                break
            wanted = int(1.3 * total * count / max(done - start, 1)) + 2 * reserve
            data.resize(max(wanted, total + reserve))
        check_total_bytes(total, width)
        self._bytes_per_row = max(self._bytes_per_row * 0.99, total / count)
        data = data.slice(0, total)
        if is_text(self._data_type) and not (self._is_ascii and literals < 0x80):
            check_utf8(data, placed.view(f"<i{width}"))
        return string_array(self._data_type, count, offsets, data)

    def take(self, rows: RowPositions) -> pa.Array:
        """See `Values`."""
        starts, ends = find_strings(self._page, rows)
        num_codes = int((ends - starts).sum())
        if num_codes > min(len(self._chunks.data), _MAX_VIEWED // _MAX_SYMBOL_BYTES):  # many, or they overlap
            first, last = rows[[0, -1]].tolist()
            return take(self.reader(Form.PLAIN)(first, last + 1), rows - first)
        bounds = np.empty(len(rows) + 1, np.int64)
        data, out = allocate(_MAX_SYMBOL_BYTES * num_codes)
        literals = fsst.expand_strings(self._page, starts, ends, bounds, out)
        if literals < 0:
            raise CorruptDataError(
                "an FSST-encoded string ends within an escape sequence, or its offsets are out of range"
            )
        data = data.slice(0, int(bounds[-1]))
        if is_text(self._data_type) and not (self._is_ascii and literals < 0x80):
            check_utf8(data, bounds)
        offsets = pa.py_buffer(bounds.astype(f"<i{self._width}", copy=False))
        return string_array(self._data_type, len(rows), offsets, data)
