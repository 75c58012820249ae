"""What kernels know of a page in memory: entries of 8 bytes each, which they are given the address of."""

from __future__ import annotations

from typing import Final

# addresses of the chunks; of where each starts, and the last one ends; of the first value of each, and of
# what follows the last: ascending, the caller has checked that they lie within
DATA: Final = 0
POSITIONS: Final = 1
ITEMS: Final = 2
NUM_CHUNKS: Final = 3
# how many level buffers come before the values of a chunk, 0 or 1
LEVELS: Final = 4
# whether sizes of value buffers have 32 bits, not 16
WIDE: Final = 5
# bytes of a value, or of an offset, as it is stored
WIDTH: Final = 6
# address of the values that indices are looked up in, 0 where they are wanted themselves
TABLE: Final = 7
# how many there are, -1 where the values are no indices
TABLE_SIZE: Final = 8
# bytes of what is written for each value
OUT_WIDTH: Final = 9
# bytes of all chunks
DATA_BYTES: Final = 10
NUM_ENTRIES: Final = 11
