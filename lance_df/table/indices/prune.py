"""Which rows of a table a predicate can match, as far as its scalar indices tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from lance_df.expr.nodes import Predicate
from lance_df.table.scan_plan import Reason
from lance_df.table.selection import RowRanges

if TYPE_CHECKING:
    from lance_df.table.table import Table


@dataclass(frozen=True, slots=True)
class PruneResult:
    """Rows that may match; rows outside of it do not.

    Attributes
    ----------
    fragment_ids
        The fragments that were asked about, ascending.
    kept
        For each of them, whether any row may match.
    is_exact
        Whether every live row of the result matches, so that the predicate need not be applied again.
    reasons
        What each conjunct did that an index could answer.
    """

    fragment_ids: npt.NDArray[np.int64]
    kept: npt.NDArray[np.bool_]
    is_exact: bool
    reasons: tuple[Reason, ...]

    def rows(self, fragment_id: int) -> RowRanges | None:
        """Return the physical rows of one fragment that may match; ``None`` for all of them."""
        raise NotImplementedError


def prune(table: Table, predicate: Predicate, fragment_ids: Sequence[int]) -> PruneResult:
    """Ask the table's indices which rows of ``fragment_ids`` may match ``predicate``.

    ``predicate`` may hold `Unknown`. Fragments that no usable index covers are kept whole.

    Raises
    ------
    CorruptDataError
        An index file contradicts the format. Names the file.
    """
    raise NotImplementedError
