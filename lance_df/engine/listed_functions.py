"""Lists of functions in `information_schema` without those that sessions register for themselves."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Final

from lance_df.compute.compat import DataFrame, Expr, PlainSessionContext, col, functions, variant
from lance_df.engine.plan_rebuild import Path, rebuilt

_LISTS: Final = ("routines", "parameters")


def without_functions(ctx: PlainSessionContext, frame: DataFrame, names: Collection[str]) -> DataFrame:
    """Return a frame in which `information_schema.routines` and `parameters` lack some functions.

    One whose plan cannot be built anew, or that has the list in a subquery of an expression, stays as it is.
    """
    plan = frame.logical_plan()
    hidden = [Expr.literal(name) for name in names]
    is_shown = functions.in_list(col("specific_name"), hidden, negated=True)
    try:
        lists = {
            path: ctx.create_dataframe_from_logical_plan(node).filter(is_shown) for path, node in _lists(plan)
        }
        return rebuilt(ctx, plan, (), lists) if lists else frame
    except Exception:  # noqa: BLE001 - whatever DataFusion does not take, the statement stands as it is
        return frame


def _lists(plan: Any) -> Iterator[tuple[Path, Any]]:
    pending: list[tuple[Any, Path]] = [(plan, ())]
    while pending:
        node, path = pending.pop()
        detail = variant(node)
        if type(detail).__name__ == "TableScan":
            _, schema, name = detail.fqn()
            if schema == "information_schema" and name in _LISTS:
                yield path, node
        pending += [(child, (*path, number)) for number, child in enumerate(node.inputs())]
