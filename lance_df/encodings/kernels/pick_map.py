"""What the kernel that picks single rows is told of pages in memory, and what it tells."""

from __future__ import annotations

from typing import Final

# How values of a page are stored: back to back as a whole, and in chunks back to back, bit-packed, as runs.
CLOSED: Final = 0
WHOLE: Final = 1
FLAT: Final = 2
PACKED: Final = 3
RUNS: Final = 4

# What is known of each page: one of these; what is added to indices; the address of its entries (`page_map`).
KIND: Final = 0
BASE: Final = 1
MAP: Final = 2
NUM_ENTRIES: Final = 3

# What became of it: all is well; the row lies in a page that is closed; a chunk that does not hold its
# values; an index beyond those of the page.
DONE: Final = 0
IS_CLOSED: Final = 1
IS_BROKEN: Final = 2
IS_BEYOND: Final = 3
# where it stopped: the number of the row, and of the page, and what is wrong, a chunk or an index
ROW: Final = 0
PAGE: Final = 1
WRONG: Final = 2
NUM_STATES: Final = 3
