"""Estimate whether computing a part of a plan partition by partition takes less time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from lance_df.engine.plans.nodes import Window
from lance_df.engine.plans.walks import groups_rows, has_node
from lance_df.namespace.member_subset import MemberSubset
from lance_df.table.reading.sample import TableSample

if TYPE_CHECKING:
    import numpy.typing as npt

    from lance_df.engine.optimizer.rules.partitioned_join.analysis import JoinedScan, Part

# Fewer rows take longer by partition because of the planning. Groups gain more than joins.
_WORTH_JOINED_ROWS: Final = 4_000_000
_WORTH_GROUPED_ROWS: Final = 800_000
# Merging fewer groups is so fast that nothing can be saved.
_WORTH_GROUPS: Final = 50_000
# With more members, the rows are estimated from some of them, because opening members takes time.
_COUNTED_MEMBERS: Final = 16


def sooner_as_a_whole(part: Part, num_rows: int) -> str | None:
    """Return the reason if so many rows take less time as a whole; otherwise None."""
    has_groups = groups_rows(part.node)
    if num_rows >= (_WORTH_GROUPED_ROWS if has_groups else _WORTH_JOINED_ROWS):
        return None
    return f"{num_rows:,} rows are {'grouped' if has_groups else 'joined'} faster as a whole"


def grouped_sooner_as_a_whole(part: Part) -> str | None:
    """Return the reason if grouping the rows of one namespace takes less time as a whole; otherwise None."""
    [scan] = part.scans
    rows = _counted_rows(scan)
    counted = int(np.count_nonzero(rows)) or 1
    why = sooner_as_a_whole(part, int(rows.sum()) * int(np.count_nonzero(scan.needed)) // counted)
    if why is not None or has_node(part.node, Window):
        return why
    if not scan.snapshot.root.is_local:
        return "counting the groups takes as long as it may save"
    num_groups = expected_groups(part)
    return (
        None if num_groups >= _WORTH_GROUPS else f"about {num_groups:,} groups are computed faster as a whole"
    )


def expected_groups(part: Part) -> int:
    """Return the estimated number of groups of one namespace's rows; 0 if unknown."""
    scan = part.scans[0]
    if part.joins or not part.grouped_by or not scan.snapshot.root.is_local:
        return 0
    [largest] = scan.snapshot.open_members(np.array([_counted_rows(scan).argmax()]))
    return round(np.count_nonzero(scan.needed) * TableSample(largest).num_distinct(part.grouped_by))


def _counted_rows(scan: JoinedScan) -> npt.NDArray[np.int64]:
    """Return the number of rows of some members, by position; 0 for the other members."""
    members = np.flatnonzero(scan.needed)
    counted = np.zeros(len(scan.needed), bool)
    counted[members[:: -(-len(members) // _COUNTED_MEMBERS)]] = True
    return MemberSubset(scan.snapshot, counted).member_rows()
