"""Decide whether hash joins collect their build side or partition both sides by a hash of the keys.

Partitioning a side costs about as much per row as building on it. If the other side is larger, a join is
therefore faster if only the build side is collected. DataFusion does this if statistics show that the build
side is small, but it does not receive statistics through Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lance_df.engine.optimizer.join_options import REPARTITION_JOINS, TARGET_PARTITIONS
from lance_df.engine.optimizer.join_sizes import Size, scanned_size, size_above
from lance_df.engine.plans.nodes import Join, PlanNode, Scan
from lance_df.records import dataclass, replace
from lance_df.scan.run import num_cores

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance_df.engine.optimizer.planned import Context, Planned
    from lance_df.engine.statement import PlannedTable

# one array can hold this many strings; estimates are rough
_MOST_BUILT_ROWS: Final = 2_000_000


def join_mode(planned: Planned, context: Context) -> Planned | None:
    """Let joins collect their build side if this is faster."""
    settings = context.settings()
    num_partitions = int(settings.get(TARGET_PARTITIONS, "1"))
    if settings.get(REPARTITION_JOINS) != "true" or num_partitions == 1:
        return None
    if planned.read.has_subquery:
        return None  # the joins inside expressions are not known, and would also collect their build side
    if not _Joins(tuple(planned.tables.values()), num_partitions).are_better_collected(planned.optimized):
        return None
    # The partition whose thread finishes building continues without a pause, and the partition that it wakes
    # last waits for that thread. All cores are only busy if there is one more partition than cores.
    scans = {
        key: replace(table.scan, num_partitions=num_cores() + 1) for key, table in planned.tables.items()
    }
    collected = replace(planned, tables=planned.requesting(scans), is_final=True)
    return collected.with_settings({REPARTITION_JOINS: "false"})


@dataclass(frozen=True, slots=True)
class _Joins:
    tables: Sequence[PlannedTable]
    num_partitions: int

    def are_better_collected(self, plan: PlanNode) -> bool:
        """Return whether a plan has joins by keys and all of them build on few enough rows."""
        verdicts: list[bool] = []
        self._judge(plan, verdicts)
        return bool(verdicts) and all(verdicts)

    def _judge(self, node: PlanNode, verdicts: list[bool]) -> Size | None:
        if isinstance(node, Scan):
            return scanned_size(node, self.tables)
        sizes = [self._judge(child, verdicts) for child in node.inputs]
        if isinstance(node, Join) and node.on:
            verdicts.append(self._is_better_collected(*sizes))
        known = [size for size in sizes if size is not None]
        return size_above(node, known) if sizes and len(known) == len(sizes) else None

    def _is_better_collected(self, built: Size | None, other: Size | None) -> bool:
        if built is None or other is None or built.rows > _MOST_BUILT_ROWS:
            return False
        # one thread builds what several threads would otherwise build in parts
        return built.rows * (self.num_partitions - 2) <= other.rows
