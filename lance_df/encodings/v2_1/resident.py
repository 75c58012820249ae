"""Which pages of 2.1 and 2.2 files are read in memory, without a plan. See `encodings.resident`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lance_df.encodings.layouts.constant.page import ConstantPage
from lance_df.encodings.layouts.constant.resident import ResidentConstant
from lance_df.encodings.layouts.full_zip.page import FullZipPage
from lance_df.encodings.layouts.full_zip.resident import ResidentValues
from lance_df.encodings.layouts.mini_block.page import MiniBlockPage
from lance_df.encodings.layouts.mini_block.resident import ResidentMiniBlock
from lance_df.encodings.resident import is_plain_type
from lance_df.format.encodings_v2_1 import RepDefLayer

if TYPE_CHECKING:
    from lance_df.encodings.layouts.page_decoder import PageDecoder
    from lance_df.encodings.resident import ResidentPage, Run
    from lance_df.format.encodings_v2_1 import MiniBlockLayout


def open_resident(decoder: PageDecoder, data_type: pa.DataType, run: Run) -> ResidentPage | None:
    """Return the reader of a page in memory; None for one that only its decoder reads.

    Parameters
    ----------
    run
        Runs the plans of decoders.
    """
    if not is_plain_type(data_type):
        return None
    if isinstance(decoder, ConstantPage):
        return ResidentConstant(decoder, data_type, run)
    if isinstance(decoder, FullZipPage):
        values = run(decoder.whole_values())
        return None if values is None else ResidentValues(values)
    if isinstance(decoder, MiniBlockPage) and _is_plain(decoder.layout):
        return ResidentMiniBlock(decoder, data_type, run)
    return None


def _is_plain(layout: MiniBlockLayout) -> bool:
    nullable = layout.layers == (RepDefLayer.NULLABLE_ITEM,)
    return (
        layout.repetition is None
        and (nullable or (layout.definition is None and layout.layers == (RepDefLayer.ALL_VALID_ITEM,)))
        and layout.num_buffers in (1, 2)
    )
