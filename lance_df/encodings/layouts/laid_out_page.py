"""An encoded page of 2.1 or 2.2: its layout and its bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_df.records import dataclass

if TYPE_CHECKING:
    from lance_df.encodings.encoded_page import Buffer
    from lance_df.format.encodings_v2_1 import PageLayout


@dataclass(frozen=True, slots=True)
class LaidOutPage:
    """The layout of a page, its buffers in order, and its ``Page.length``."""

    layout: PageLayout
    buffers: tuple[Buffer, ...]
    num_rows: int
