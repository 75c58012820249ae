"""The answer of an index to a predicate on its column."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_df.expr.nodes import Predicate
from lance_df.records import dataclass
from lance_df.table.reading.selection import RowRanges

FRAGMENT_BITS = 32
"""A row address is ``fragment id << 32 | offset``."""

FragmentIds = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Answer:
    """Rows that may match, by address or by row id, as the index stores them.

    ``is_exact`` says that all of them match, except for deleted rows.
    """

    rows: RowRanges
    is_exact: bool


class ScalarIndex(Protocol):
    """One open segment of an index over one column."""

    @property
    def key_type(self) -> pa.DataType | None:
        """Type of the values in the index; ``None`` if it has no values that can be compared."""
        ...

    def search(self, predicate: Predicate, fragment_ids: FragmentIds) -> Answer | None:
        """Return the rows that may match, or ``None`` if the index cannot answer, or not cheaply.

        ``predicate`` is simplified, reads only the indexed column, and has no `Unknown`. Rows outside
        ``fragment_ids``, which ascend, do not matter.
        """
        ...


def fragment_starts(fragment_ids: FragmentIds) -> npt.NDArray[np.int64]:
    """Return the address of the first row of each fragment."""
    return fragment_ids << FRAGMENT_BITS
