"""Read list pages: offsets into the items of the same batch. There are no null lists.

::

    offset 0 = 0 | offset 1 | ... | offset n        i32 for list, i64 for large_list

Spec: file format 0.1, 5.6. The page table counts the offsets, which are one more than the lists.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lance_df.encodings.legacy.offsets import read_bounds, read_point_bounds
from lance_df.encodings.legacy.page import Points
from lance_df.encodings.plan import together
from lance_df.errors import CorruptDataError

if TYPE_CHECKING:
    import numpy.typing as npt

    from lance_df.encodings.legacy.offsets import Bounds
    from lance_df.encodings.legacy.page import Wanted
    from lance_df.encodings.plan import IoPlan


def read_list_bounds(
    wanted: Wanted, *, large: bool, num_items: npt.NDArray[np.int64]
) -> IoPlan[list[Bounds]]:
    """Plan to read the bounds of lists in the items of their batch.

    Parameters
    ----------
    wanted, large
        The lists, and whether their offsets have 64 bits.
    num_items
        The number of items of the batch, for each row slice or point.

    Returns
    -------
    The bounds of each row slice, or those of all points.
    """
    width = 8 if large else 4
    if isinstance(wanted, Points):
        bounds = yield from read_point_bounds(wanted, width)
        _check(*bounds, num_items)
        return [bounds]
    parts = yield from together([read_bounds(row_slice, width) for row_slice in wanted])
    for (starts, ends), limit in zip(parts, num_items, strict=True):
        _check(starts, ends, limit)
    return parts


def _check(
    starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64], limit: npt.NDArray[np.int64] | np.int64
) -> None:
    if (starts < 0).any() or (ends > limit).any():
        raise CorruptDataError(f"lists refer to items {starts.min()} to {ends.max()}, but a batch has fewer")
