"""The contract of the decoder of a 2.1 or 2.2 page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from lance_df.encodings.layouts.leveled_page import LeveledPage
    from lance_df.encodings.plan import IoPlan, Rows


class PageDecoder(Protocol):
    """Loads rows of one page; keeps what it learns of the page as a whole."""

    def load(self, rows: Rows) -> IoPlan[tuple[LeveledPage, Rows]]:
        """Plan the bytes that ``rows`` need, which are relative to the page and lie within it.

        Returns
        -------
        What reads them, and the same rows as that numbers them.
        """
        ...

    def whole(self) -> IoPlan[LeveledPage | None]:
        """Plan the page of a plain column of a file in memory; None where rows have to be loaded."""
        ...
