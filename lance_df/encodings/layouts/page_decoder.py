"""The contract of the decoder of a 2.1 or 2.2 page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from lance_df.encodings.levels.decode import Slots
    from lance_df.encodings.plan import IoPlan, Rows


class PageDecoder(Protocol):
    """Decodes rows of one page; keeps what it learns of the page as a whole."""

    def decode(self, rows: Rows) -> IoPlan[Slots]:
        """Plan the slots of ``rows``, which are relative to the page and lie within it."""
        ...
