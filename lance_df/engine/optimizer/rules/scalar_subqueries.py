"""Join the results of scalar subqueries, so that the joins inside them are optimized with the others.

DataFusion 55 leaves subqueries that refer to nothing outside in expressions, of which Python gets no plan:
their joins stay as they are written, and those around them are divided because of them. With a setting it
joins their results instead, as earlier releases do. It then compares each row outside with a result by a
nested loop, and does not notice if there are several: so results are joined where groups are compared with
them, and where they are aggregates without groups.
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
    """Join the results of subqueries that have joins, where few rows are compared with them."""
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
        raise DoesNotApplyError("some results of subqueries are not joined")
    after = list(nodes(optimized))
    many, one = _results(after)
    if many != _results(before)[0] or one - _results(before)[1] != shown.count(_SHOWN):
        raise DoesNotApplyError("a subquery may have several rows")
    schemas = [frame_of(context.session, each).schema() for each in (planned.optimized, optimized)]
    if schemas[0] != schemas[1]:
        raise DoesNotApplyError("the columns of the result would differ in what may be NULL")
    # the frame stays as it is: what is derived from it may have subqueries of several rows
    return planned.replanned(planned.frame, optimized)


def _is_above_groups(node: PlanNode) -> bool:
    """Return whether rows of a node are groups."""
    while isinstance(node, Filter | Projection | Sort | SubqueryAlias):
        (node,) = node.inputs
    return isinstance(node, Aggregate)


def _results(plan: Iterable[PlanNode]) -> tuple[int, int]:
    """Count the joined results of subqueries that may have several rows, and those of one."""
    results = [node for node in plan if isinstance(node, SubqueryAlias) and node.name.startswith(_ALIAS)]
    one = sum(map(has_one_row, results))
    return len(results) - one, one
