"""One page: decode some of its rows, reading only the bytes that they need. Spec: file format 2.x, 4 and
7."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from lance_df.encodings.v2_1.blob import BlobPage
from lance_df.encodings.v2_1.constant import ConstantPage
from lance_df.encodings.v2_1.full_zip import FullZipPage
from lance_df.encodings.v2_1.mini_block import MiniBlockPage
from lance_df.format.encodings_v2_1 import BlobLayout, ConstantLayout, FullZipLayout, MiniBlockLayout

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from lance_df.encodings.plan import IoPlan, Rows
    from lance_df.encodings.v2_1.levels import Slots
    from lance_df.format.encodings_v2_1 import PageLayout
    from lance_df.storage import ByteRange


class PageDecoder(Protocol):
    """Decodes rows of one page; keeps what it learns of the page as a whole."""

    def decode(self, rows: Rows) -> IoPlan[Slots]:
        """Plan the slots of ``rows``, which are relative to the page and lie within it."""
        ...


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
        Where the buffers of the page lie in the file.
    num_rows
        ``Page.length``.
    data_type
        Arrow type of the leaf values.
    mapped
        The file is memory-mapped, so that asking for more than is needed costs nothing.

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
