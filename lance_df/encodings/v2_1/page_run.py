"""Decode many small pages of one layout as one page.

This covers mini-block pages without lists and dictionaries, whose chunks can be concatenated; full-zip pages
that consist only of fixed-width values; and constant pages without levels. `mini_block`, `full_zip` and
`constant` describe these pages.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from lance_df.encodings.buffers import as_bytes
from lance_df.encodings.chunks import Chunks
from lance_df.encodings.layouts.constant.loaded import repeated
from lance_df.encodings.layouts.constant.page import ConstantPage, scalar
from lance_df.encodings.layouts.full_zip.per_value import decode_fixed_records
from lance_df.encodings.layouts.mini_block.chunk_table import check_counts, starts_of
from lance_df.encodings.layouts.mini_block.loaded import LoadedChunks
from lance_df.encodings.levels.decode import LevelScheme, Slots
from lance_df.encodings.plan import RowRange
from lance_df.errors import CorruptDataError
from lance_df.format.encodings_v2_1 import ConstantLayout, FullZipLayout, MiniBlockLayout
from lance_df.storage import ByteRange

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from lance_df.encodings.buffers import Bytes, Counts
    from lance_df.encodings.plan import IoPlan, Rows
    from lance_df.format.encodings_v2_1 import PageLayout


class PageRun(NamedTuple):
    """The pages of a run: their common layout, and what differs between them.

    Attributes
    ----------
    spans
        (start, stop) of the buffers, page by page.
    num_rows
        The number of rows of each page.
    values
        The value of each constant page, if its layout holds it.
    """

    layout: PageLayout
    spans: npt.NDArray[np.int64]
    num_rows: Counts
    values: Sequence[bytes | None]

    def read(self, *, mapped: bool) -> IoPlan[Sequence[Any]]:
        """Plan to read the bytes of each span; ``mapped`` says that ranges cost nothing."""
        if not mapped or not len(self.spans):
            return (yield [ByteRange(start, stop) for start, stop in self.spans.tolist()])
        start = int(self.spans.min())
        (data,) = yield [ByteRange(start, int(self.spans.max()))]
        view = memoryview(data)
        return [view[low:high] for low, high in (self.spans - start).tolist()]


class CommonLayout(NamedTuple):
    """The layout that a page shares with others of its run, and the value that it does not share."""

    layout: PageLayout
    value: bytes | None = None


def common_layout(
    layout: PageLayout, value: bytes | None, num_buffers: int, num_rows: int
) -> CommonLayout | None:
    """Return the layout that a page shares with others of a run; None if it cannot be part of a run.

    Parameters
    ----------
    layout, value
        See `split_page_layout`.
    """
    match layout:
        case ConstantLayout() if value is None and not num_buffers:
            return CommonLayout(layout)
        case ConstantLayout():
            is_alone = num_buffers == (value is None) and not any(layer.is_list for layer in layout.layers)
            if not is_alone:
                return None
            # the value may also be in a buffer
            return CommonLayout(layout if value is not None else replace(layout, inline_value=b""), value)
        case MiniBlockLayout(dictionary=None, repetition=None, repetition_index_depth=0):
            is_plain = num_buffers == 2 and layout.num_items == num_rows
            return CommonLayout(replace(layout, num_items=0)) if is_plain else None
        case FullZipLayout(bits_per_offset=None, bits_per_repetition=0, bits_per_definition=0):
            is_plain = num_buffers == 1 and not any(layer.is_list for layer in layout.layers)
            if not is_plain or not layout.bits_per_value or layout.bits_per_value % 8:
                return None
            return CommonLayout(replace(layout, num_slots=0, num_visible_items=0))
    return None


def decode_run(run: PageRun, rows: Rows, data_type: pa.DataType, *, mapped: bool) -> IoPlan[Slots]:
    """Plan to decode slots of rows; the pages are read whole.

    Parameters
    ----------
    run
        A run whose layout is the :func:`common_layout` of each page.
    rows
        The rows, counted from the first row of the first page.

    Raises
    ------
    CorruptDataError
        When the plan runs: a page is damaged.
    """
    layout, num_rows = run.layout, run.num_rows
    match layout:
        case ConstantLayout(inline_value=None):
            constant, rows = yield from ConstantPage(layout, (), int(num_rows.sum()), data_type).load(rows)
            return constant.slots(rows)
        case ConstantLayout():
            stored = iter((yield from run.read(mapped=mapped)))
            values = [
                scalar(as_bytes(pa.py_buffer(next(stored))), data_type) if value is None else value
                for value in run.values
            ]
            array = repeated(values, _rows_of_each(rows, num_rows), data_type)
            return Slots(LevelScheme.of(layout.layers), None, None, array)
        case FullZipLayout():
            buffers = yield from run.read(mapped=mapped)
            return _records(layout, buffers, num_rows, data_type).select(rows, None)
        case MiniBlockLayout():
            buffers = yield from run.read(mapped=mapped)
            return LoadedChunks(_chunks(layout, buffers, num_rows), data_type).slots(rows)
    raise CorruptDataError(f"pages with layout {type(layout).__name__} cannot be read together")


def _rows_of_each(rows: Rows, num_rows: Counts) -> Counts:
    """Return how many of the rows are in each page."""
    bounds = np.append(0, np.cumsum(num_rows))
    if isinstance(rows, RowRange):
        return np.diff(np.clip(bounds, rows.start, rows.stop))
    return np.diff(np.searchsorted(rows, bounds))


def _records(
    layout: FullZipLayout, buffers: Sequence[Any], num_rows: Counts, data_type: pa.DataType
) -> Slots:
    """Return the values of all pages."""
    value_bytes = (layout.bits_per_value or 0) // 8
    used = num_rows * value_bytes
    available = np.fromiter(map(len, buffers), np.int64, len(num_rows))
    if (num_rows > available // value_bytes).any():
        raise CorruptDataError(f"records of {value_bytes} bytes do not fit into the buffer of their page")
    data = _joined(buffers, used)
    starts = np.arange(int(num_rows.sum()), dtype=np.int64) * value_bytes
    values = decode_fixed_records(layout.values, data, starts, value_bytes, data_type)
    return Slots(LevelScheme.of(layout.layers), None, None, values).checked()


def _chunks(layout: MiniBlockLayout, buffers: Sequence[Any], num_rows: Counts) -> Chunks:
    """Return the chunks of all pages."""
    width = 4 if layout.has_large_chunk else 2
    num_bytes = np.fromiter(map(len, buffers[::2]), np.int64, len(num_rows))
    if (num_bytes % width).any() or not num_bytes.all():
        raise CorruptDataError(f"the size of the chunk metadata must be a positive multiple of {width} bytes")
    words = np.frombuffer(b"".join(buffers[::2]), f"<u{width}").astype(np.int64)
    stops = np.cumsum(num_bytes // width)
    starts = stops - num_bytes // width
    counts = np.left_shift(1, words & 15)
    counts[stops - 1] = 0
    counts[stops - 1] = num_rows - np.add.reduceat(counts, starts)
    sizes = ((words >> 4) + 1) * 8
    used = np.add.reduceat(sizes, starts)
    available = np.fromiter(map(len, buffers[1::2]), np.int64, len(num_rows))
    if (counts < 0).any() or (used > available).any():
        raise CorruptDataError("the chunks of a page do not match its number of rows, or its size")
    check_counts(int(counts.max()))
    return Chunks(_joined(buffers[1::2], used), starts_of(sizes), starts_of(counts), layout)


def _joined(buffers: Sequence[Any], sizes: Counts) -> Bytes:
    """Return the first ``sizes[i]`` bytes of every buffer."""
    parts = [buffer[:size] for buffer, size in zip(buffers, sizes.tolist(), strict=True)]
    return as_bytes(pa.py_buffer(b"".join(parts)))
