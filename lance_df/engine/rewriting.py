"""Statements over tables and namespaces, planned so that they take less time for the same rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lance_df.engine.extremes import needs_extremes_only
from lance_df.engine.join_sizes import may_be_large
from lance_df.engine.plan_walk import logical_scans
from lance_df.engine.string_views import with_string_views

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from lance_df.compute.compat import DataFrame, PlainSessionContext
    from lance_df.engine.join_options import JoinOptions
    from lance_df.engine.plan_walk import LogicalScan
    from lance_df.engine.statement import Statement


def rewritten(
    ctx: PlainSessionContext,
    statement: Statement,
    scans: list[LogicalScan],
    planned: tuple[DataFrame, Any],
    plan_again: Callable[[], DataFrame],
    options: JoinOptions,
    registered: Collection[str] = (),
) -> tuple[DataFrame, Any | None]:
    """Return a frame with the same rows, the one that was planned or a better one, and its optimized plan.

    No plan is returned of what is joined by partition or grouped by the scan: nothing is left to be chosen.

    Parameters
    ----------
    scans, planned
        The statement as a frame, the optimized plan of that, and the scans of the plan.
    plan_again
        Plans the statement again, with ``statement.stand_ins`` and the providers as they are then.
    registered
        Names of functions of the user's.
    """
    frame, optimized = planned
    if needs_extremes_only(optimized, scans):
        for _, provider in statement.lone_scans(scans):
            provider.extremes_only = True
        return planned
    is_large = may_be_large(tuple(statement.tables.values()))
    if len(scans) == 1 and is_large:
        from lance_df.engine.grouped_scans import with_grouped_scan

        grouped = with_grouped_scan(ctx, statement, scans[0], frame, optimized, plan_again)
        if grouped is not None:
            return grouped, None
    in_runs = None
    if is_large and "Aggregate: " in optimized.display_indent():
        from lance_df.engine.grouped_runs import over_runs

        in_runs = over_runs(ctx, statement, scans, planned, plan_again, registered)
        if in_runs is not None:
            frame, optimized, plan_again = in_runs.frame, in_runs.optimized, in_runs.plan
            planned, scans = (frame, optimized), logical_scans(optimized)
    reads_namespaces = not statement.reads_tables_only
    if reads_namespaces:
        from lance_df.engine.partitioned_join import join_by_partition

        joined = join_by_partition(ctx, statement, planned, plan_again, options)
        if joined is not None:
            return joined, None
    viewed = None if in_runs else with_string_views(ctx, statement, scans, frame, optimized, plan_again)
    if viewed is not None:
        frame, optimized = viewed, viewed.optimized_logical_plan()
    if reads_namespaces:
        from lance_df.engine.decided_filters import without_decided_filters

        current = scans if viewed is None else logical_scans(optimized)
        filtered = without_decided_filters(ctx, frame, optimized, statement.lone_scans(current))
        if filtered is not None:
            frame, optimized = filtered, filtered.optimized_logical_plan()
    if len(scans) > 1:
        from lance_df.engine.join_sides import with_small_sides_built

        return with_small_sides_built(ctx, statement, frame, optimized) or (frame, optimized)
    return frame, optimized
