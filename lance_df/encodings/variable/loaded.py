"""Read strings and binaries in memory from their ends and bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_df.encodings.arrays import variable_array
from lance_df.encodings.buffers import bitmap
from lance_df.encodings.fetch import take_spans
from lance_df.encodings.kernels import strings
from lance_df.encodings.loaded_page import Form, is_large, is_text, viewed
from lance_df.encodings.plan import RowRange
from lance_df.encodings.string_views import as_views
from lance_df.encodings.text import check_utf8
from lance_df.encodings.variable.ends import find_spans, needed_ends
from lance_df.records import dataclass

if TYPE_CHECKING:
    from typing import Self

    from lance_df.encodings.loaded_page import RowReader
    from lance_df.encodings.plan import RowPositions, Rows
    from lance_df.encodings.variable.ends import Adjustment, Spans


_INT32_MAX = 2**31 - 1
_VIEW_BYTES = 16
_MOST_CHECKED = 4096


@dataclass(frozen=True, slots=True)
class VariableValues:
    """The bounds of values in ``data`` (0, then the end of each), and a bitmap of valid ones (None: all)."""

    ends: npt.NDArray[np.int64]
    data: pa.Buffer
    valid: pa.Buffer | None

    @classmethod
    def of(cls, data: pa.Buffer, spans: Spans) -> Self:
        """Return the values at spans of ``data``."""
        if spans.bounds is None:
            return cls(*take_spans(data, spans.starts, spans.ends), bitmap_of(spans))
        first, stop = int(spans.bounds[0]), int(spans.bounds[-1])
        return cls(spans.bounds - first, data.slice(first, stop - first), bitmap_of(spans))


def bitmap_of(spans: Spans) -> pa.Buffer | None:
    """Return the bitmap of the valid rows."""
    return None if spans.valid is None else bitmap(spans.valid)


class LoadedBinary:
    """Strings or binaries whose bytes are viewed.

    Parameters
    ----------
    words
        Ends as stored: of all rows of a page, or of some rows and the one before them, which is row 0 in this
        case.
    data
        The bytes that ends refer to.
    adjustment
        The adjustment that marks the ends of nulls.
    """

    __slots__ = ("_adjustment", "_bytes", "_checked", "_data", "_data_type", "_limit", "_words")

    def __init__(
        self, data_type: pa.DataType, words: npt.NDArray[np.uint64], data: pa.Buffer, adjustment: Adjustment
    ) -> None:
        self._data_type = data_type
        self._words = words
        self._bytes = data
        self._data = np.frombuffer(data, np.uint8) if data.size else np.empty(0, np.uint8)
        self._adjustment = adjustment
        self._limit = min(data.size, adjustment.lowest - 1)
        # ranges of rows known to be UTF-8; stored bytes do not change
        self._checked: set[tuple[int, int]] = set()

    def reader(self, form: Form) -> RowReader:
        """Return a reader of rows. See `LoadedPage`."""
        if self._limit < 0:
            return viewed(self._read_generally, form)
        if Form.VIEWS in form and self._data_type == pa.string() and self._limit <= _INT32_MAX:
            return self._read_views
        return viewed(self._read, form)

    def _read_generally(self, start: int, stop: int) -> pa.Array:
        return self._generally(RowRange(start, stop))

    def _generally(self, rows: Rows) -> pa.Array:
        """Return rows that may be null or broken."""
        needed = needed_ends(rows)
        index = slice(needed.start, needed.stop) if isinstance(needed, RowRange) else needed
        spans = find_spans(self._words[index], rows, self._adjustment, self._bytes.size)
        values = VariableValues.of(self._bytes, spans)
        return variable_array(self._data_type, values.ends, values.data, values.valid)

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
        # engines count all bytes that arrays point to as used
        data = data.slice(first := self._end(start), self._end(stop) - first)
        if not is_checked:
            self._note_checked(start, stop)
        return pa.Array.from_buffers(pa.string_view(), count, [None, views, data], 0)

    def _end(self, row: int) -> int:
        """Return the end of the value before a row."""
        return int(self._words[row - 1]) if row else 0

    def _note_checked(self, start: int, stop: int) -> None:
        if len(self._checked) < _MOST_CHECKED:
            self._checked.add((start, stop))

    def take(self, rows: RowPositions, form: Form) -> pa.Array:
        """Return single rows. See `LoadedPage`."""
        del form
        stored = self._words
        ends = stored.take(rows)
        starts = stored.take(rows - 1, mode="clip")
        if len(rows) and not rows[0]:
            starts[0] = 0
        if not len(rows) or int(ends.max()) > self._limit or (starts > ends).any():
            return self._generally(rows)
        bounds, data = take_spans(self._bytes, starts.view(np.int64), ends.view(np.int64))
        return variable_array(self._data_type, bounds, data, None)

    def page_take(self) -> None:
        """Return None, since values have no fixed width. See `LoadedPage`."""
