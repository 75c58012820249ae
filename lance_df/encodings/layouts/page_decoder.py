"""The interface of decoders of 2.1 and 2.2 pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from lance_df.encodings.layouts.leveled_page import LeveledPage
    from lance_df.encodings.plan import IoPlan, Rows


class PageDecoder(Protocol):
    """Loads rows of one page; caches what concerns the whole page."""

    def load(self, rows: Rows) -> IoPlan[tuple[LeveledPage, Rows]]:
        """Plan to load the bytes that ``rows`` need; rows are relative to the page and lie within it.

        Returns
        -------
        A reader of the loaded rows, and ``rows`` as the reader numbers them.
        """
        ...

    def whole(self) -> IoPlan[LeveledPage | None]:
        """Plan to load a page of a plain column of a file in memory; None if only rows can be loaded."""
        ...
