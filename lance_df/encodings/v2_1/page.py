"""Open a page, to decode rows from only the bytes that they need. Format: docs/format/index.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_df.encodings.layouts.blob.page import BlobPage
from lance_df.encodings.layouts.constant.page import ConstantPage
from lance_df.encodings.layouts.full_zip.page import FullZipPage
from lance_df.encodings.layouts.mini_block.page import MiniBlockPage
from lance_df.format.encodings_v2_1 import BlobLayout, ConstantLayout, FullZipLayout, MiniBlockLayout

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from lance_df.encodings.layouts.page_decoder import PageDecoder
    from lance_df.format.encodings_v2_1 import PageLayout
    from lance_df.storage import ByteRange


def open_page(
    layout: PageLayout,
    buffers: Sequence[ByteRange],
    num_rows: int,
    data_type: pa.DataType,
    *,
    mapped: bool,
) -> PageDecoder:
    """Return the decoder of a page; nothing is read yet.

    Parameters
    ----------
    buffers
        The ranges of the page's buffers in the file.
    num_rows
        ``Page.length``.
    data_type
        The Arrow type of the leaf values.
    mapped
        Whether the file is memory-mapped, so that requesting more than needed costs nothing.

    Raises
    ------
    CorruptDataError
        The layout contradicts itself or the buffers.
    """
    match layout:
        case MiniBlockLayout():
            return MiniBlockPage(layout, buffers, num_rows, data_type, mapped=mapped)
        case FullZipLayout():
            return FullZipPage(layout, buffers, num_rows, data_type, mapped=mapped)
        case ConstantLayout():
            return ConstantPage(layout, buffers, num_rows, data_type)
        case BlobLayout(inner=inner, layers=layers):
            return BlobPage(open_page(inner, buffers, num_rows, data_type, mapped=mapped), layers)
