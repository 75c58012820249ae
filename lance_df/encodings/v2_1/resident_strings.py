"""Strings and binaries of mini-block pages in memory."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa

from lance_df.encodings import kernels
from lance_df.encodings.arrays import variable_array
from lance_df.encodings.fetch import take_spans
from lance_df.encodings.gather import take
from lance_df.encodings.resident import Form, is_text
from lance_df.encodings.string_views import as_views
from lance_df.encodings.text import check_utf8
from lance_df.encodings.v2_1.resident_chunks import check
from lance_df.errors import CorruptDataError, InvalidInputError
from lance_df.records import dataclass

if TYPE_CHECKING:
    from lance_df.encodings.fsst import SymbolTable
    from lance_df.encodings.plan import RowPositions
    from lance_df.encodings.resident import RowReader
    from lance_df.encodings.v2_1.buffers import Counts
    from lance_df.encodings.v2_1.resident_chunks import Chunks

# what the positions of expanded codes within a chunk are counted with has 32 bits
MAX_CODED_CHUNK = 1 << 27
_MAX_SYMBOL_BYTES = 8
_SLACK_BYTES = 64
_VIEW_BYTES = 16
# what views, and offsets of 32 bits, point with
_MAX_VIEWED = (1 << 31) - 1
# what kernels of views return of bytes that have to be looked at
_HAS_OTHER_BYTES = -2


@dataclass(frozen=True, slots=True)
class PlainStrings:
    """Offsets and bytes in each chunk."""

    chunks: Chunks
    data_type: pa.DataType
    width: int

    dense: ClassVar[int] = 4

    def reader(self, form: Form) -> RowReader:
        """See `Values`. Views point into the file."""
        if Form.VIEWS in form and self.data_type == pa.string() and len(self.chunks.data) <= _MAX_VIEWED:
            return self._view_reader()
        return self._string_reader()

    def _string_reader(self) -> RowReader:
        page, width, data_type = self.chunks.map(self.width), self.width, self.data_type
        address, kernel = page.ctypes.data, getattr(kernels, f"read_strings_{8 * width}")
        allocate, is_checked = pa.allocate_buffer, is_text(data_type)

        def read(start: int, stop: int, _keep: object = (page, self)) -> pa.Array:
            room = kernels.room_for_strings(address, start, stop)
            check(-1 - room if room < 0 else -1)
            _check_total(room, width)
            count = stop - start
            offsets, data = allocate((count + 1) * width), allocate(room)
            _check_offsets(kernel(address, start, stop, offsets.address, data.address, room))
            ends = np.frombuffer(offsets, f"<i{width}")
            if is_checked:
                check_utf8(data, ends)
            return _array(data_type, count, offsets, data.slice(0, int(ends[-1])))

        return read

    def _view_reader(self) -> RowReader:
        page, most, allocate = self.chunks.map(self.width), len(self.chunks.data), pa.allocate_buffer
        address, shared = page.ctypes.data, pa.py_buffer(self.chunks.data)
        items, positions = self.chunks.items.data, self.chunks.positions.data
        read_others = self._string_reader()

        def read(start: int, stop: int, _keep: object = (page, self)) -> pa.Array:
            count = stop - start
            check(0 if count > most else -1)
            views = allocate(count * _VIEW_BYTES)
            found = kernels.read_views(address, start, stop, views.address)
            if found == _HAS_OTHER_BYTES:
                return as_views(read_others(start, stop))
            _check_offsets(found)
            # engines count the bytes that arrays point to as taken: no more than the chunks of the rows
            first = positions[bisect_right(items, start) - 1]
            data = shared.slice(first, positions[bisect_left(items, stop)] - first)
            return _array(pa.string_view(), count, views, data)

        return read

    def take(self, rows: RowPositions) -> pa.Array:
        """See `Values`."""
        starts, ends = _find(self.chunks, self.width, rows)
        bounds, data = take_spans(pa.py_buffer(self.chunks.data), starts, ends)
        return variable_array(self.data_type, bounds, data, None)


class CodedStrings:
    """Offsets and FSST codes in each chunk."""

    __slots__ = ("_bytes_per_row", "_chunks", "_data_type", "_is_ascii", "_longest", "_table", "_width")

    dense: ClassVar[int] = 4

    def __init__(self, chunks: Chunks, data_type: pa.DataType, width: int, symbols: SymbolTable) -> None:
        self._chunks = chunks
        self._data_type = data_type
        self._width = width
        self._table = np.concatenate((symbols.symbols, symbols.lengths.astype(np.uint64)))
        self._longest = int(np.diff(chunks.positions).max(initial=0))
        symbol_bytes = symbols.symbols.view(np.uint8).reshape(-1, _MAX_SYMBOL_BYTES)
        counted = np.arange(_MAX_SYMBOL_BYTES) < symbols.lengths[:, None]
        self._is_ascii = not (symbol_bytes[counted] >= 0x80).any()
        self._bytes_per_row = 3 * len(chunks.data) / max(int(chunks.items[-1]), 1)  # learned while reading

    def reader(self, form: Form) -> RowReader:
        """See `Values`."""
        is_viewed = Form.VIEWS in form and self._data_type == pa.string()
        page = self._chunks.map(self._width, table=self._table.ctypes.data)

        def read(start: int, stop: int) -> pa.Array:
            if not is_viewed:
                return self._read(page, start, stop, as_views=False)
            found = self._read(page, start, stop, as_views=True) if self._is_ascii else None
            return as_views(self._read(page, start, stop, as_views=False)) if found is None else found

        return read

    def _read(self, page: Counts, start: int, stop: int, *, as_views: bool) -> pa.Array | None:
        """Return strings, or views unless it is to be looked whether they are UTF-8."""
        count, width = stop - start, self._width
        check(0 if count > len(self._chunks.data) else -1)
        placed = pa.allocate_buffer(count * _VIEW_BYTES if as_views else (count + 1) * width)
        reserve = _MAX_SYMBOL_BYTES * self._longest + _SLACK_BYTES
        data = pa.allocate_buffer(int(count * self._bytes_per_row * 1.05) + reserve, resizable=True)
        state = np.array([start, 0, data.size, 0], np.int64)
        places = np.empty(self._longest + 1, np.int32)
        kernel, address = getattr(kernels, f"read_codes_{8 * width}"), page.ctypes.data
        while True:
            broken = kernel(address, start, stop, places, as_views, placed.address, data.address, state)
            if broken >= 0:
                raise CorruptDataError(
                    f"offsets of chunk {broken} do not ascend, lie outside of it or within an escape"
                )
            done, total, _, has_other_bytes = state.tolist()
            if done == stop:
                break
            wanted = int(1.3 * total * count / max(done - start, 1)) + 2 * reserve
            data.resize(max(wanted, total + reserve))
            state[2] = data.size
        _check_total(total, width)
        self._bytes_per_row = max(self._bytes_per_row * 0.99, total / count)
        self._is_ascii = self._is_ascii and not has_other_bytes
        data = data.slice(0, total)
        if as_views:
            return _array(pa.string_view(), count, placed, data) if self._is_ascii else None
        ends = np.frombuffer(placed, f"<i{width}")
        ends[0] = 0
        if is_text(self._data_type) and not self._is_ascii:
            check_utf8(data, ends)
        return _array(self._data_type, count, placed, data)

    def take(self, rows: RowPositions) -> pa.Array:
        """See `Values`."""
        chunks, width = self._chunks, self._width
        starts, ends = _find(chunks, width, rows)
        num_codes = int((ends - starts).sum())
        if num_codes > min(len(chunks.data), _MAX_VIEWED // _MAX_SYMBOL_BYTES):  # many, or they overlap
            first, last = rows[[0, -1]].tolist()
            return take(self.reader(Form.PLAIN)(first, last + 1), rows - first)
        offsets = pa.allocate_buffer((len(rows) + 1) * width)
        bounds = np.frombuffer(offsets, f"<i{width}")
        bounds[0], state = 0, np.zeros(1, np.int64)
        data = pa.allocate_buffer(_MAX_SYMBOL_BYTES * (num_codes + 1))
        out = np.frombuffer(data, np.uint8)
        if kernels.expand_strings(chunks.data, starts, ends, self._table, state, bounds, out) >= 0:
            raise CorruptDataError("a coded string ends within an escape")
        data = data.slice(0, int(bounds[-1]))
        self._is_ascii = self._is_ascii and not state[0]
        if is_text(self._data_type) and not self._is_ascii:
            check_utf8(data, bounds)
        return pa.Array.from_buffers(self._data_type, len(rows), [None, offsets, data], 0)


def _find(chunks: Chunks, width: int, rows: RowPositions) -> tuple[Counts, Counts]:
    """Return where the bytes of values start and end in the chunks."""
    starts, ends = np.empty((2, len(rows)), np.int64)
    words, wide = chunks.words(f"<i{width}"), int(chunks.layout.has_large_chunk)
    check(
        kernels.find_strings(
            chunks.data, words, chunks.positions, chunks.items, chunks.levels, wide, rows, starts, ends
        )
    )
    return starts, ends


def _check_offsets(broken: int) -> None:
    if broken >= 0:
        raise CorruptDataError(f"offsets of chunk {broken} do not ascend, or lie outside of it")


def _check_total(total: int, width: int) -> None:
    if width == 4 and total >= 1 << 31:
        raise InvalidInputError(f"{total} bytes do not fit into one array of 32-bit offsets: read fewer rows")


def _array(data_type: pa.DataType, count: int, placed: pa.Buffer, data: pa.Buffer) -> pa.Array:
    return pa.Array.from_buffers(data_type, count, [None, placed, data], 0)
