"""Whether it takes less time to compute a part of a plan partition by partition: a guess, from little."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from lance_df.namespace.member_subset import MemberSubset
from lance_df.table.distinct_looks import expected_distinct

if TYPE_CHECKING:
    from lance_df.engine.partitioned_join_analysis import Part

# Fewer rows take longer by partition, because of the planning; groups gain more than joins do.
_WORTH_JOINED_ROWS: Final = 4_000_000
_WORTH_GROUPED_ROWS: Final = 800_000
# Fewer groups are merged so soon that nothing is left to be saved.
_WORTH_GROUPS: Final = 50_000
# Of more members some tell how many rows all have: to open them takes time.
_COUNTED_MEMBERS: Final = 16


def sooner_as_a_whole(part: Part, num_rows: int) -> str | None:
    """Return that so many rows take less time as a whole; None if they do not."""
    # an aggregation or a window
    groups_rows = "Aggr" in part.plan.display_indent()
    if num_rows >= (_WORTH_GROUPED_ROWS if groups_rows else _WORTH_JOINED_ROWS):
        return None
    return f"{num_rows:,} rows are {'grouped' if groups_rows else 'joined'} sooner as a whole"


def grouped_sooner_as_a_whole(part: Part) -> str | None:
    """Return why a part that groups the rows of one namespace takes less time as a whole; None if not so."""
    [scan] = part.scans
    members = np.flatnonzero(scan.needed)
    counted = np.zeros(len(scan.needed), bool)
    counted[members[:: -(-len(members) // _COUNTED_MEMBERS)]] = True
    rows = MemberSubset(scan.snapshot, counted).member_rows()
    why = sooner_as_a_whole(part, int(rows.sum()) * len(members) // int(counted.sum()))
    if why is not None or "WindowAggr" in part.plan.display_indent():
        return why
    if not scan.snapshot.root.is_local:
        return "to look how many groups there are takes as long as it may save"
    [largest] = scan.snapshot.open_members(np.array([rows.argmax()]))
    num_groups = len(members) * expected_distinct(largest, part.grouped_by)
    if num_groups >= _WORTH_GROUPS:
        return None
    return f"about {num_groups:,.0f} groups are made sooner as a whole"
