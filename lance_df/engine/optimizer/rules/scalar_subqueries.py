"""Join the results of scalar subqueries, so that the optimizer handles the joins inside them.

DataFusion 55 leaves uncorrelated subqueries in expressions, and Python cannot access their plans. The joins
inside them stay as they are written, and prevent the best mode for the joins around them. With a setting,
DataFusion joins the results of the subqueries instead, as earlier releases do. It then compares each outer
row with a result in a nested loop, and does not detect that a subquery returns several rows. Results are
therefore only joined if they are compared with groups and if they are aggregates without groups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lance_df.compute.compat import joined_subqueries_settings, with_settings
from lance_df.engine.optimizer.planned import DoesNotApplyError
from lance_df.engine.plans.nodes import (
    Aggregate,
    Filter,
    Join,
    PlanNode,
    Projection,
    Sort,
    SubqueryAlias,
    frame_of,
    optimized_plan_of,
    plan_of,
)
from lance_df.engine.plans.walks import has_one_row, has_subquery, nodes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lance_df.engine.optimizer.planned import Context, Planned

_JOIN: Final = " Join: "
_SHOWN: Final = "Subquery:"
_ALIAS: Final = "__scalar_sq_"


def scalar_subqueries(planned: Planned, context: Context) -> Planned | None:
    """Join the results of subqueries that contain joins, if few rows are compared with them."""
    settings = joined_subqueries_settings()
    before = planned.read.nodes
    around = [node for node in before if node.has_subquery]
    if not settings or not around or not all(map(_is_above_groups, around)):
        return None
    shown = planned.optimized.shown_whole
    if shown.count(_JOIN) == sum(isinstance(node, Join) for node in before):
        return None
    frame = frame_of(with_settings(context.session, settings), plan_of(planned.frame))
    optimized = optimized_plan_of(frame)
    if has_subquery(optimized):
        raise DoesNotApplyError("some subqueries are not joined by their results")
    after = list(nodes(optimized))
    many, one = _results(after)
    if many != _results(before)[0] or one - _results(before)[1] != shown.count(_SHOWN):
        raise DoesNotApplyError("a subquery may return several rows")
    schemas = [frame_of(context.session, each).schema() for each in (planned.optimized, optimized)]
    if schemas[0] != schemas[1]:
        raise DoesNotApplyError("the nullability of the result's columns would change")
    # the frame stays unchanged, because frames derived from it may have subqueries with several rows
    return planned.replanned(planned.frame, optimized)


def _is_above_groups(node: PlanNode) -> bool:
    """Return whether the rows of a node are groups."""
    while isinstance(node, Filter | Projection | Sort | SubqueryAlias):
        (node,) = node.inputs
    return isinstance(node, Aggregate)


def _results(plan: Iterable[PlanNode]) -> tuple[int, int]:
    """Count the joined subquery results that may have several rows, and those with one row."""
    results = [node for node in plan if isinstance(node, SubqueryAlias) and node.name.startswith(_ALIAS)]
    one = sum(map(has_one_row, results))
    return len(results) - one, one
