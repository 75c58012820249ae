"""Read strings and binaries of chunks in memory."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa

from lance_df.encodings.arrays import variable_array
from lance_df.encodings.buffers import allocate
from lance_df.encodings.chunks import check
from lance_df.encodings.fetch import take_spans
from lance_df.encodings.kernels import strings
from lance_df.encodings.loaded_page import Form, is_text
from lance_df.encodings.string_views import as_views
from lance_df.encodings.text import check_utf8
from lance_df.encodings.variable.decode import check_total_bytes
from lance_df.errors import CorruptDataError
from lance_df.records import dataclass

if TYPE_CHECKING:
    from lance_df.encodings.buffers import Counts
    from lance_df.encodings.chunks import Chunks
    from lance_df.encodings.kernels.pages import Page
    from lance_df.encodings.loaded_page import RowReader
    from lance_df.encodings.plan import RowPositions

_VIEW_BYTES = 16
# the largest position that views and 32-bit offsets can have
_MAX_VIEWED = (1 << 31) - 1
# result of kernels of views if bytes that are not ASCII must be checked
_HAS_OTHER_BYTES = -2


@dataclass(frozen=True, slots=True)
class PlainStrings:
    """Offsets and bytes in each chunk."""

    chunks: Chunks
    data_type: pa.DataType
    width: int

    dense: ClassVar[int] = 4

    def reader(self, form: Form) -> RowReader:
        """See `Values`. Views point to the bytes in the chunks."""
        if Form.VIEWS in form and self.data_type == pa.string() and len(self.chunks.data) <= _MAX_VIEWED:
            return self._view_reader()
        return self._string_reader()

    def _string_reader(self) -> RowReader:
        page, width, data_type = self.chunks.page(self.width), self.width, self.data_type
        is_checked = is_text(data_type)

        def read(start: int, stop: int) -> pa.Array:
            room = strings.room_for_strings(page, start, stop)
            check(-1 - room if room < 0 else -1)
            check_total_bytes(room, width)
            count = stop - start
            (offsets, placed), (data, out) = allocate((count + 1) * width), allocate(room)
            check_offsets(strings.read_strings(page, start, stop, placed, out))
            ends = placed.view(f"<i{width}")
            if is_checked:
                check_utf8(data, ends)
            return string_array(data_type, count, offsets, data.slice(0, int(ends[-1])))

        return read

    def _view_reader(self) -> RowReader:
        page, shared = self.chunks.page(self.width), pa.py_buffer(self.chunks.data)
        items, positions = self.chunks.items.data, self.chunks.positions.data
        read_others = self._string_reader()

        def read(start: int, stop: int) -> pa.Array:
            count = stop - start
            check(0 if count > shared.size else -1)
            views, out = allocate(count * _VIEW_BYTES)
            result = strings.read_views(page, start, stop, out)
            if result == _HAS_OTHER_BYTES:
                return as_views(read_others(start, stop))
            check_offsets(result)
            # engines count all bytes that arrays point to as used, so pass only the chunks of the rows
            first = positions[bisect_right(items, start) - 1]
            data = shared.slice(first, positions[bisect_left(items, stop)] - first)
            return string_array(pa.string_view(), count, views, data)

        return read

    def take(self, rows: RowPositions) -> pa.Array:
        """See `Values`."""
        starts, ends = find_strings(self.chunks.page(self.width), rows)
        bounds, data = take_spans(pa.py_buffer(self.chunks.data), starts, ends)
        return variable_array(self.data_type, bounds, data, None)


def find_strings(page: Page, rows: RowPositions) -> tuple[Counts, Counts]:
    """Return where the bytes of values start and end in the chunks."""
    starts, ends = np.empty((2, len(rows)), np.int64)
    check(strings.find_strings(page, np.ascontiguousarray(rows, np.int64), starts, ends))
    return starts, ends


def check_offsets(broken: int) -> None:
    """Raise `CorruptDataError` if a kernel has found broken offsets in a chunk."""
    if broken >= 0:
        raise CorruptDataError(f"the offsets of chunk {broken} do not ascend or are out of range")


def string_array(data_type: pa.DataType, count: int, placed: pa.Buffer, data: pa.Buffer) -> pa.Array:
    """Return an array without nulls from its offsets (or views) and bytes."""
    return pa.Array.from_buffers(data_type, count, [None, placed, data], 0)
