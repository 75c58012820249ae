"""Offsets: a page of one number more than it has rows. Row k lies between offset k and offset k + 1."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from lance_df.encodings.fetch import fetch_fixed
from lance_df.encodings.rows import adjoining
from lance_df.errors import CorruptDataError

if TYPE_CHECKING:
    from lance_df.encodings.legacy.page import Stretch
    from lance_df.encodings.plan import IoPlan


def read_bounds(stretch: Stretch, width: int) -> IoPlan[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
    """Plan to read where the wanted rows of a page start and end, from offsets of ``width`` bytes.

    Raises
    ------
    CorruptDataError
        While it runs: they do not ascend.
    """
    buffer = stretch.bytes_of(stretch.num_values + 1, 8 * width)
    wanted, first = adjoining(stretch.rows)
    data = yield from fetch_fixed(buffer, width, wanted)
    offsets = np.frombuffer(data, f"<i{width}").astype(np.int64, copy=False)
    starts, ends = offsets[first], offsets[1:] if isinstance(first, slice) else offsets[first + 1]
    if (starts > ends).any() or (starts[1:] < ends[:-1]).any():
        raise CorruptDataError("the offsets of a page do not ascend")
    return starts, ends
