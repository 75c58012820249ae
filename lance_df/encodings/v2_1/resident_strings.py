"""Strings and binaries of mini-block pages in memory."""

from __future__ import annotations

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

        def read(start: int, stop: int, _keep: Counts = page) -> pa.Array:
            room = kernels.room_for_strings(address, start, stop)
            check(-1 - room if room < 0 else -1)
            _check_total(room, width)
            count = stop - start
            offsets, data = allocate((count + 1) * width), allocate(room)
            _check_offsets(kernel(address, start, stop, offsets.address, data.address, room))
            ends = np.frombuffer(offsets, f"<i{width}")
            if is_checked:
                check_utf8(data, ends)
            buffers = [None, offsets, data.slice(0, int(ends[-1]))]
            return pa.Array.from_buffers(data_type, count, buffers, 0)

        return read

    def _view_reader(self) -> RowReader:
        page, most, allocate = self.chunks.map(self.width), len(self.chunks.data), pa.allocate_buffer
        address, shared = page.ctypes.data, pa.py_buffer(self.chunks.data)
        read_others = self._string_reader()

        def read(start: int, stop: int, _keep: Counts = page) -> pa.Array:
            count = stop - start
            check(0 if count > most else -1)
            views = allocate(count * _VIEW_BYTES)
            found = kernels.read_views(address, start, stop, views.address)
            if found == _HAS_OTHER_BYTES:
                return as_views(read_others(start, stop))
            _check_offsets(found)
            return pa.Array.from_buffers(pa.string_view(), count, [None, views, shared], 0)

        return read

    def take(self, rows: RowPositions) -> pa.Array:
        """See `Values`."""
        starts, ends = _find(self.chunks, self.width, rows)
        bounds, data = take_spans(pa.py_buffer(self.chunks.data), starts, ends)
        return variable_array(self.data_type, bounds, data, None)


class CodedStrings:
    """Offsets and FSST codes in each chunk."""

    __slots__ = ("_bytes_per_code", "_chunks", "_data_type", "_is_ascii", "_longest", "_table", "_width")

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
        self._bytes_per_code = 3.0  # learned while reading

    def reader(self, form: Form) -> RowReader:
        """See `Values`."""
        return self._chunks.by_chunk(lambda first, last: self._read(first, last, form))

    def _read(self, first: int, last: int, form: Form) -> pa.Array:
        chunks, width = self._chunks, self._width
        as_views = Form.VIEWS in form and self._data_type == pa.string() and self._is_ascii
        (starts,), (sizes,) = chunks.values(first, last)
        count = chunks.count(first, last)
        num_codes = int(sizes.sum()) - (count + last - first) * width
        _check_room(first, last, num_codes)
        reserve = _MAX_SYMBOL_BYTES * self._longest + _SLACK_BYTES
        placed = pa.allocate_buffer(count * _VIEW_BYTES if as_views else (count + 1) * width)
        if as_views:
            ends, views = np.empty(0, "<i4"), np.frombuffer(placed, "<u8").reshape(-1, 2)
        else:
            ends, views = np.frombuffer(placed, f"<i{width}"), np.empty((0, 2), np.uint64)
            ends[0] = 0
        state, places = np.zeros(3, np.int64), np.empty(self._longest + 1, np.int32)
        capacity = int(num_codes * self._bytes_per_code * 1.05) + reserve
        data = pa.allocate_buffer(capacity, resizable=True)
        while True:
            broken = kernels.expand_fsst_chunks(
                chunks.data,
                chunks.words(f"<i{width}"),
                starts,
                sizes,
                chunks.items,
                first,
                state,
                self._table,
                places,
                ends,
                views,
                np.frombuffer(data, np.uint8),
            )
            if broken >= 0:
                raise CorruptDataError(
                    f"offsets of chunk {first + broken} do not ascend, lie outside of it or within an escape"
                )
            done, total, has_other_bytes = state.tolist()
            if done == last - first:
                break
            capacity = int(1.3 * total * len(starts) / max(done, 1)) + 2 * reserve
            data.resize(max(capacity, total + reserve))
        _check_total(total, width)
        if num_codes > 0:
            self._bytes_per_code = max(self._bytes_per_code * 0.99, total / num_codes)
        self._is_ascii = self._is_ascii and not has_other_bytes
        if as_views and not self._is_ascii:
            return self._read(first, last, Form.PLAIN)
        if is_text(self._data_type) and not self._is_ascii:
            check_utf8(data, ends)
        data_type = pa.string_view() if as_views else self._data_type
        return pa.Array.from_buffers(data_type, count, [None, placed, data.slice(0, total)], 0)

    def take(self, rows: RowPositions) -> pa.Array:
        """See `Values`."""
        chunks, width = self._chunks, self._width
        starts, ends = _find(chunks, width, rows)
        num_codes = int((ends - starts).sum())
        if num_codes > min(len(chunks.data), _MAX_VIEWED // _MAX_SYMBOL_BYTES):  # many, or they overlap
            first, last = chunks.chunks_of(rows[[0, -1]]).tolist()
            return take(self._read(first, last + 1, Form.PLAIN), rows - chunks.items[first])
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


def _check_room(first: int, last: int, num_bytes: int) -> None:
    if num_bytes < 0:
        raise CorruptDataError(f"chunks {first} to {last - 1} have no room for their offsets")


def _check_offsets(broken: int) -> None:
    if broken >= 0:
        raise CorruptDataError(f"offsets of chunk {broken} do not ascend, or lie outside of it")


def _check_total(total: int, width: int) -> None:
    if width == 4 and total >= 1 << 31:
        raise InvalidInputError(f"{total} bytes do not fit into one array of 32-bit offsets: read fewer rows")
