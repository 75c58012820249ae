"""Prune fragments and rows of a scan with indices and page statistics."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lance_df.expr.nodes import And
from lance_df.expr.walk import columns, conjuncts
from lance_df.records import dataclass
from lance_df.table.scan.page_statistics import matching_pages

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from lance_df.expr.nodes import Predicate
    from lance_df.format.schema import Schema
    from lance_df.scan.report import IndexQuery, Reason
    from lance_df.table.indices import PruneResult
    from lance_df.table.reading.fragment_reader import FragmentReader
    from lance_df.table.reading.selection import RowRanges
    from lance_df.table.table import Table


@dataclass(frozen=True, slots=True)
class Pruning:
    """The rows that may match.

    Attributes
    ----------
    schema
        The schema of the table.
    conditions
        The conditions that rows must fulfil; each is compared with the page statistics.
    by_index
        The results of the indices for the conditions.
    is_exact
        Whether the indices decide alone, so that the predicate need not be applied.
    """

    schema: Schema
    conditions: tuple[Predicate, ...] = ()
    by_index: tuple[PruneResult, ...] = ()
    is_exact: bool = False
    reasons: tuple[Reason, ...] = ()

    @property
    def index_queries(self) -> tuple[IndexQuery, ...]:
        """The queries that indices have answered."""
        return tuple(dict.fromkeys(query for result in self.by_index for query in result.queries))

    def keeps(self, fragment_ids: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return which of the fragments may have matching rows, according to the indices."""
        selected = np.ones(len(fragment_ids), np.bool_)
        for result in self.by_index:
            selected &= result.selected[np.searchsorted(result.fragment_ids, fragment_ids)]
        return selected

    def rows(self, reader: FragmentReader) -> RowRanges | None:
        """Return the physical rows of a fragment that may match; ``None`` for all of them."""
        matching = [matching_pages(reader, self.schema, condition) for condition in self.conditions]
        return _intersection([self.rows_by_index(reader.fragment.id), *matching])

    def rows_by_index(self, fragment_id: int) -> RowRanges | None:
        """Return the rows of a fragment that indices alone select; ``None`` for all of them."""
        return _intersection([result.rows(fragment_id) for result in self.by_index])


def _intersection(row_ranges: Sequence[RowRanges | None]) -> RowRanges | None:
    selected: RowRanges | None = None
    for rows in row_ranges:
        if rows is not None:
            selected = rows if selected is None else selected.intersect(rows)
    return selected


def plan_pruning(
    table: Table,
    predicate: Predicate | None,
    pruning_predicate: Predicate | None,
    fragment_ids: Sequence[int],
    *,
    keeps_answers: bool = False,
) -> Pruning:
    """Ask the indices of a table about the conditions of a scan of some fragments.

    Parameters
    ----------
    predicate
        Applied to each row, unless the indices show that this is not needed.
    pruning_predicate
        Used for pruning only; may contain `Unknown`.
    keeps_answers
        Whether index answers about all fragments are cached for later plans of the version.
    """
    conditions = tuple(condition for condition in (predicate, pruning_predicate) if condition is not None)
    if not conditions or not table.indices or not len(fragment_ids):
        return Pruning(table.schema, conditions)
    from lance_df.table.indices import prune

    conditions = _without_repetition(predicate, pruning_predicate)
    results = tuple(prune(table, each, fragment_ids, keeps_answers=keeps_answers) for each in conditions)
    return Pruning(
        table.schema,
        conditions,
        results,
        is_exact=predicate is not None and results[0].is_exact,
        reasons=tuple(reason for result in results for reason in result.reasons),
    )


def _without_repetition(
    predicate: Predicate | None, pruning_predicate: Predicate | None
) -> tuple[Predicate, ...]:
    """Return the predicate, and the conjuncts of the pruning predicate that it does not have."""
    if predicate is None:
        return () if pruning_predicate is None else (pruning_predicate,)
    if pruning_predicate is None:
        return (predicate,)
    known = conjuncts(predicate)
    more = tuple(part for part in conjuncts(pruning_predicate) if part not in known and columns(part))
    return (predicate, And(more)) if more else (predicate,)
