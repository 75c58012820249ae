"""List pages: offsets into the items of the same batch. There are no null lists.

::

    offset 0 = 0 | offset 1 | ... | offset n        i32 for list, i64 for large_list

Spec: file format 0.1, 5.6. The page table counts the offsets: one more than lists.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_df.encodings.legacy.offsets import read_bounds
from lance_df.errors import CorruptDataError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from lance_df.encodings.legacy.page import Stretch
    from lance_df.encodings.plan import IoPlan


def read_list_bounds(
    stretch: Stretch, *, large: bool, num_items: int
) -> IoPlan[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
    """Plan to read where lists start and end among the ``num_items`` of their batch."""
    starts, ends = yield from read_bounds(stretch, 8 if large else 4)
    if len(starts) and (starts[0] < 0 or ends[-1] > num_items):
        raise CorruptDataError(f"lists lie in items {starts[0]} to {ends[-1]}, the batch has {num_items}")
    return starts, ends
