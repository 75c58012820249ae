"""Remove the functions that sessions register internally from the lists in `information_schema`."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from lance_df.compute.compat import DataFrame, Expr, PlainSessionContext, col, functions
from lance_df.engine.plans.nodes import Scan, frame_of, plan_of
from lance_df.engine.plans.rebuild import rebuilt
from lance_df.engine.plans.walks import nodes_with_paths

_LISTS: Final = (("information_schema", "routines"), ("information_schema", "parameters"))


def without_functions(ctx: PlainSessionContext, frame: DataFrame, names: Collection[str]) -> DataFrame:
    """Return a frame in which `information_schema.routines` and `parameters` omit some functions.

    If the plan cannot be rebuilt, or reads the list in a subquery of an expression, the frame is returned
    unchanged.
    """
    plan = plan_of(frame)
    hidden = [Expr.literal(name) for name in names]
    is_shown = functions.in_list(col("specific_name"), hidden, negated=True)
    try:
        lists = {
            path: frame_of(ctx, node).filter(is_shown)
            for path, node in nodes_with_paths(plan)
            if isinstance(node, Scan) and node.table in _LISTS
        }
        return rebuilt(ctx, plan, (), lists) if lists else frame
    except Exception:  # noqa: BLE001 - if DataFusion rejects the new plan, the statement stays unchanged
        return frame
