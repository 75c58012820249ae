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
        Decode values of columns that are already in memory directly, without planning reads.
    small_columns
        Cache the decoded columns of small fragments.
    prefetched_windows
        Read the next windows of rows while one window is processed.
    partial_aggregate, string_views, decided_filters, scalar_subqueries, join_side, join_keys, join_mode
        Apply the rules with these names in `lance_df.engine.optimizer.rules`. The rule for joins by partition
        has its own switch, ``partitioned_joins``.
    """

    statistics: bool = True
    observed_statistics: bool = True
    pattern_words: bool = True
    joined_fragments: bool = True
    joined_members: bool = True
    cached_plans: bool = True
    filter_steps: bool = True
    resident_columns: bool = True
    small_columns: bool = True
    prefetched_windows: bool = True
    partial_aggregate: bool = True
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
        """Return whether an optimizer rule may apply. Rules without a switch here always may."""
        allowed: bool = getattr(self, name, True)
        return allowed


ALL: Final = ScanOptions()
NO_STATISTICS: Final = ScanOptions(statistics=False, observed_statistics=False, pattern_words=False)
"""Prune with partition values only."""
