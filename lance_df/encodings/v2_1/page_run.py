"""Many small pages of one layout, decoded as one page.

For mini-block pages without lists and dictionaries, whose chunks then follow each other, and for constant
pages that have nothing but their layout. What these are, `mini_block` and `constant` say.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from lance_df.encodings.v2_1.buffers import Chunked, as_bytes
from lance_df.encodings.v2_1.constant import ConstantPage
from lance_df.encodings.v2_1.mini_block import MiniBlockPage
from lance_df.errors import CorruptDataError
from lance_df.format.encodings_v2_1 import ConstantLayout, MiniBlockLayout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance_df.encodings.plan import IoPlan, Rows
    from lance_df.encodings.v2_1.buffers import Bytes, Counts
    from lance_df.encodings.v2_1.levels import Slots
    from lance_df.format.encodings_v2_1 import PageLayout
    from lance_df.storage import ByteRange


class StoredPage(NamedTuple):
    """A page of a run."""

    buffers: Sequence[ByteRange]
    num_rows: int


def common_layout(layout: PageLayout, num_buffers: int, num_rows: int) -> PageLayout | None:
    """Return what a page has in common with others of its run; None for a page that cannot be part of one."""
    match layout:
        case ConstantLayout():
            return None if num_buffers else layout
        case MiniBlockLayout(dictionary=None, repetition=None, repetition_index_depth=0):
            is_plain = num_buffers == 2 and layout.num_items == num_rows
            return replace(layout, num_items=0) if is_plain else None
    return None


def decode_run(
    layout: PageLayout, pages: Sequence[StoredPage], rows: Rows, data_type: pa.DataType
) -> IoPlan[Slots]:
    """Plan the slots of rows of pages, which are read whole.

    Parameters
    ----------
    layout
        What :func:`common_layout` returned for each of them.
    rows
        Counted from the first row of the first page.

    Raises
    ------
    CorruptDataError
        While it runs: a page is damaged.
    """
    if isinstance(layout, ConstantLayout):
        total = sum(page.num_rows for page in pages)
        return (yield from ConstantPage(layout, (), total, data_type).decode(rows))
    if not isinstance(layout, MiniBlockLayout):
        raise CorruptDataError(f"a run of pages of {type(layout).__name__}")
    decoder = MiniBlockPage(layout, pages[0].buffers, 0, data_type, mapped=True)
    buffers = yield [buffer for page in pages for buffer in page.buffers]
    num_rows = np.fromiter((page.num_rows for page in pages), np.int64, len(pages))
    chunks, counts = _chunks(layout, buffers, num_rows)
    slots, _ = decoder.decode_chunks(chunks, counts)
    return decoder.finish(slots.select(rows, None))


def _chunks(
    layout: MiniBlockLayout, buffers: Sequence[pa.Buffer], num_rows: Counts
) -> tuple[Chunked, Counts]:
    """Return the chunks of all pages, and how many items each holds."""
    width = 4 if layout.has_large_chunk else 2
    num_bytes = np.fromiter((words.size for words in buffers[::2]), np.int64, len(num_rows))
    if (num_bytes % width).any() or not num_bytes.all():
        raise CorruptDataError(f"chunk metadata that is no positive multiple of {width} bytes")
    words = np.frombuffer(b"".join(buffers[::2]), f"<u{width}").astype(np.int64)
    stops = np.cumsum(num_bytes // width)
    starts = stops - num_bytes // width
    counts = np.left_shift(1, words & 15)
    counts[stops - 1] = 0
    counts[stops - 1] = num_rows - np.add.reduceat(counts, starts)
    sizes = ((words >> 4) + 1) * 8
    used = np.add.reduceat(sizes, starts)
    available = np.fromiter((chunks.size for chunks in buffers[1::2]), np.int64, len(num_rows))
    if (counts < 0).any() or (used > available).any():
        raise CorruptDataError("the chunks of a page do not hold its rows")
    return Chunked(_joined(buffers[1::2], used), np.cumsum(sizes) - sizes, sizes), counts


def _joined(buffers: Sequence[pa.Buffer], sizes: Counts) -> Bytes:
    """Return the first ``sizes[i]`` bytes of every buffer."""
    parts = [buffer[:size] for buffer, size in zip(buffers, sizes.tolist(), strict=True)]
    return as_bytes(pa.py_buffer(b"".join(parts)))
