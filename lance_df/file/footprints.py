"""The memory that open data files need, as measured with CPython 3.11 and rounded up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lance_df.cache import Footprint

if TYPE_CHECKING:
    from lance_df.storage import ByteSource

FILE_BYTES: Final = 4 * 1024
COLUMN_BYTES: Final = 6 * 1024
# of a page with known position and encoding, and of a page of which rows were read
PAGE_BYTES: Final = 384
OPEN_PAGE_BYTES: Final = 2 * 1024


def footprint_of(source: ByteSource) -> Footprint:
    """Return the footprint of a file before any column is read."""
    return Footprint(FILE_BYTES + source.held_bytes)
