"""What scans, and statements over them, may do to take less time.

Each has one switch. Rows, types and names are the same with and without; where a statement does not order
its rows, their order may differ.
"""

from __future__ import annotations

from typing import Final

from lance_df.errors import InvalidInputError
from lance_df.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanOptions:
    """Switches for what takes less time. All are on by default; to turn one off shows what it is good for.

    Attributes
    ----------
    statistics
        Page statistics and indices prune.
    observed_statistics
        What earlier scans have learned of pages prunes, too: bounds and extremes.
    pattern_words
        Rows are left out whose strings do not hold the words of a pattern.
    joined_fragments
        Small fragments are read together.
    joined_members
        Small members of a namespace are read as one table.
    cached_plans
        Equal requests share a plan, and the rows of a small one.
    filter_steps
        The conditions of a filter are applied one by one, the cheapest first, and columns of later ones are
        read only where rows are left.
    resident_columns
        Values of columns that are in memory are decoded in place, without a plan of what to read.
    small_columns
        Columns of small fragments are cached decoded.
    prefetched_windows
        While one window of rows is processed, the next ones are read.
    partial_aggregate, string_views, decided_filters, scalar_subqueries, join_side, join_keys, join_mode
        The rules of these names in `lance_df.engine.optimizer.rules` apply. The rule of joins by partition
        has a switch of its own, ``partitioned_joins``.
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
                raise InvalidInputError(f"ScanOptions.{name} is True or False, not {value!r:.60}")

    def allows(self, name: str) -> bool:
        """Return whether a rule of the optimizer may apply. Those without a switch here always may."""
        allowed: bool = getattr(self, name, True)
        return allowed


ALL: Final = ScanOptions()
NO_STATISTICS: Final = ScanOptions(statistics=False, observed_statistics=False, pattern_words=False)
"""Nothing but values of partitions prunes."""
