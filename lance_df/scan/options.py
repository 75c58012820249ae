"""Optimizations that scans, and statements over them, may use.

Each optimization has one switch. Rows, types and names are the same with and without it. The order of the
rows may differ if the statement does not order them.
"""

from __future__ import annotations

from typing import Final

from lance_df.errors import InvalidInputError
from lance_df.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanOptions:
    """Switches for optimizations. All are on by default. Turn one off to measure its effect.

    Attributes
    ----------
    statistics
        Prune with page statistics and indices.
    observed_statistics
        Also prune with statistics that earlier scans collected from pages: bounds and extremes.
    pattern_words
        Skip rows whose strings do not contain the words of a pattern.
    joined_fragments
        Read small fragments together.
    joined_members
        Read small members of a namespace as one table.
    cached_plans
        Reuse the plan of an equal request, and its rows if they are few.
    filter_steps
        Apply the conditions of a filter one by one, cheapest first. The columns of later conditions are read
        only where rows remain.
    resident_columns
        Decode values of columns that are already in memory directly, without planning reads. Small pages are
        left to plans, whether or not ``page_runs`` is on.
    page_runs
        Decode small pages of a column together, instead of page by page.
    small_columns
        Cache the decoded columns of small fragments.
    prefetched_windows
        Read the next windows of rows while one window is processed.
    sparse_reads
        Read the remaining columns only for the rows that match, where these are few.
    dictionary_filters
        Apply a condition once to each value of a dictionary, instead of to each row.
    metadata_counts
        Count rows without reading fragments, with the numbers of rows in the manifest.
    proven_conjuncts
        Do not apply conditions to rows of a member of a namespace if its partition values prove them.
    partial_aggregate, partitioned_join, string_views, decided_filters, scalar_subqueries
        Apply the rules with these names in `lance_df.engine.optimizer.rules`. The setting
        ``partitioned_joins`` of a session says when joins by partition pay; without the rule, there are none.
    join_side, join_keys, join_mode
        Also rules.
    """

    statistics: bool = True
    observed_statistics: bool = True
    pattern_words: bool = True
    joined_fragments: bool = True
    joined_members: bool = True
    cached_plans: bool = True
    filter_steps: bool = True
    resident_columns: bool = True
    page_runs: bool = True
    small_columns: bool = True
    prefetched_windows: bool = True
    sparse_reads: bool = True
    dictionary_filters: bool = True
    metadata_counts: bool = True
    proven_conjuncts: bool = True
    partial_aggregate: bool = True
    partitioned_join: bool = True
    string_views: bool = True
    decided_filters: bool = True
    scalar_subqueries: bool = True
    join_side: bool = True
    join_keys: bool = True
    join_mode: bool = True

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if not isinstance(value, bool):
                raise InvalidInputError(f"ScanOptions.{name} must be True or False, got {value!r:.60}")

    def allows(self, name: str) -> bool:
        """Return whether an optimizer rule may apply."""
        allowed: bool = getattr(self, name)
        return allowed


def checked_options(value: object) -> ScanOptions:
    """Return an argument ``scan_options``.

    Raises
    ------
    InvalidInputError
        It is no `ScanOptions`.
    """
    if not isinstance(value, ScanOptions):
        raise InvalidInputError(f"scan_options must be a lance_df.ScanOptions, got {value!r}")
    return value


ALL: Final = ScanOptions()
NO_STATISTICS: Final = ScanOptions(statistics=False, observed_statistics=False, pattern_words=False)
"""Prune with partition values only."""
