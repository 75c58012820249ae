"""Read offsets: a page has one more number than rows, and row k is between offset k and offset k + 1."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from lance_df.encodings.fetch import fetch_fixed
from lance_df.encodings.legacy.page import fetch_anywhere
from lance_df.encodings.plan import RowRange
from lance_df.errors import CorruptDataError

if TYPE_CHECKING:
    from lance_df.encodings.legacy.page import Points, RowSlice
    from lance_df.encodings.plan import IoPlan

Bounds: TypeAlias = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
"""The starts and the ends of rows."""


def read_bounds(row_slice: RowSlice, width: int) -> IoPlan[Bounds]:
    """Plan to read the bounds of a range of rows from offsets of ``width`` bytes.

    Raises
    ------
    CorruptDataError
        When the plan runs: the offsets do not ascend.
    """
    buffer = row_slice.bytes_of(row_slice.num_values + 1, 8 * width)
    data = yield from fetch_fixed(buffer, width, RowRange(row_slice.rows.start, row_slice.rows.stop + 1))
    offsets = np.frombuffer(data, f"<i{width}").astype(np.int64, copy=False)
    return _checked(offsets[:-1], offsets[1:])


def read_point_bounds(points: Points, width: int) -> IoPlan[Bounds]:
    """Plan to read the bounds of single rows of many pages."""
    starts = points.offsets(8 * width) // 8
    wanted = np.union1d(starts, starts + width)
    data = yield from fetch_anywhere(points.stop, wanted, wanted + width)
    offsets = np.frombuffer(data, f"<i{width}").astype(np.int64, copy=False)
    index = np.searchsorted(wanted, starts)
    return _checked(offsets[index], offsets[np.searchsorted(wanted, starts + width)])


def _checked(starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> Bounds:
    if (starts > ends).any():
        raise CorruptDataError("the offsets of a page do not ascend")
    return starts, ends
