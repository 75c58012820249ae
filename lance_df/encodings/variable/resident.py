"""Ends and bytes of strings and binaries of a page in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_df.encodings.arrays import variable_array
from lance_df.encodings.fetch import take_spans
from lance_df.encodings.flat.resident import ResidentFlat
from lance_df.encodings.kernels import strings
from lance_df.encodings.plan import RowRange, read_whole
from lance_df.encodings.resident import Form, is_large, is_text, viewed
from lance_df.encodings.string_views import as_views
from lance_df.encodings.text import check_utf8
from lance_df.encodings.variable.page import BinaryDecoder

if TYPE_CHECKING:
    from lance_df.encodings.plan import RowPositions
    from lance_df.encodings.resident import RowReader, Run


_INT32_MAX = 2**31 - 1
_VIEW_BYTES = 16
_MOST_CHECKED = 4096


class ResidentBinary:
    """Ends of values, none of them null, and their bytes, which are viewed."""

    __slots__ = ("_bytes", "_checked", "_data", "_data_type", "_decoder", "_limit", "_run", "_words")

    def __init__(self, decoder: BinaryDecoder, ends: ResidentFlat, run: Run) -> None:
        self._decoder = decoder
        self._data_type = decoder.data_type
        self._words = np.frombuffer(ends.data, np.uint64, ends.data.size // 8)
        self._bytes = run(read_whole(decoder.data))
        self._data = np.frombuffer(self._bytes, np.uint8) if self._bytes.size else np.empty(0, np.uint8)
        self._limit = min(self._bytes.size, decoder.positions.adjustment - 1)
        self._run = run
        # ranges of rows that are UTF-8; what is written stays as it is
        self._checked: set[tuple[int, int]] = set()

    def reader(self, form: Form) -> RowReader:
        """Return what reads rows. See `ResidentPage`."""
        if self._limit < 0:
            return viewed(self._read_generally, self._data_type, form)
        if Form.VIEWS in form and self._data_type == pa.string() and self._limit <= _INT32_MAX:
            return self._read_views
        return viewed(self._read, self._data_type, form)

    def _read_generally(self, start: int, stop: int) -> pa.Array:
        return self._run(self._decoder.read(RowRange(start, stop)))

    def _read(self, start: int, stop: int) -> pa.Array:
        count, width = stop - start, 8 if is_large(self._data_type) else 4
        offsets = pa.allocate_buffer((count + 1) * width)
        ends, placed = self._words.view(np.uint8), np.frombuffer(offsets, np.uint8)
        num_bytes = strings.read_ends(ends, start, stop, self._limit, width, placed)
        if num_bytes < 0 or (width == 4 and num_bytes > _INT32_MAX):  # broken, or some are null
            return self._read_generally(start, stop)
        data = self._bytes.slice(self._end(start), num_bytes)
        if is_text(self._data_type) and (start, stop) not in self._checked:
            check_utf8(data, placed.view(f"<i{width}"))
            self._note_checked(start, stop)
        return pa.Array.from_buffers(self._data_type, count, [None, offsets, data], 0)

    def _read_views(self, start: int, stop: int) -> pa.Array:
        count, is_checked = stop - start, (start, stop) in self._checked
        views, data = pa.allocate_buffer(count * _VIEW_BYTES), self._bytes
        out = np.frombuffer(views, np.uint8)
        ends = self._words.view(np.uint8)
        if strings.view_ends(ends, start, stop, self._limit, self._data, is_checked, out) != -1:
            return as_views(self._read(start, stop))  # not ASCII, or broken, or some are null
        # engines count the bytes that arrays point to as taken
        data = data.slice(first := self._end(start), self._end(stop) - first)
        if not is_checked:
            self._note_checked(start, stop)
        return pa.Array.from_buffers(pa.string_view(), count, [None, views, data], 0)

    def _end(self, row: int) -> int:
        """Return where the value before a row ends."""
        return int(self._words[row - 1]) if row else 0

    def _note_checked(self, start: int, stop: int) -> None:
        if len(self._checked) < _MOST_CHECKED:
            self._checked.add((start, stop))

    def take(self, rows: RowPositions, form: Form) -> pa.Array:
        """Return single rows. See `ResidentPage`."""
        del form
        stored = self._words
        ends = stored.take(rows)
        starts = stored.take(rows - 1, mode="clip")
        if len(rows) and not rows[0]:
            starts[0] = 0
        if not len(rows) or int(ends.max()) > self._limit or (starts > ends).any():
            return self._run(self._decoder.read(rows))  # some are null, or broken
        bounds, data = take_spans(self._bytes, starts.view(np.int64), ends.view(np.int64))
        return variable_array(self._data_type, bounds, data, None)

    def page_take(self) -> None:
        """Return None: values have no width. See `ResidentPage`."""
