"""Statements that group strings, and count the rows of each group at most: the scan groups each window.

Of columns that are stored as dictionaries a scan knows equal rows by their indices. What it returns then are
the groups of a window, each with the number of its rows, and DataFusion adds these up.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from lance_df.compute.compat import DataFrame, Expr, PlainSessionContext, functions, variant
from lance_df.engine.plan_rebuild import Path, checked, columns_of, rebuilt
from lance_df.engine.string_views import WORTH_ROWS
from lance_df.table.string_looks import look_at_strings
from lance_df.table.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lance_df.engine.plan_walk import LogicalScan
    from lance_df.engine.provider import LanceTableProvider
    from lance_df.engine.statement import Statement

_COUNTS: Final = re.compile(r"count\((\*|U?Int\d+\(\d+\))\)")


def with_grouped_scan(
    ctx: PlainSessionContext,
    statement: Statement,
    scan: LogicalScan,
    frame: DataFrame,
    optimized: Any,
    plan: Callable[[], DataFrame],
) -> DataFrame | None:
    """Return a frame with the same rows of a large table, whose scan groups; None where that is not worth it.

    Parameters
    ----------
    scan
        The only one of the plan.
    frame, optimized
        The statement, and its optimized plan.
    plan
        Plans the statement anew.
    """
    # with a filter there may be few rows of each window, which are grouped sooner as views
    if scan.above or scan.pushed:
        return None
    found = _lowest_aggregate(optimized, ("SubqueryAlias",))
    if found is None:
        return None
    _, node = found
    detail = variant(node)
    names = [_column_of(expr) for expr in detail.group_by_exprs()]
    counts = detail.aggregate_exprs()
    if not names or None in names or not all(map(_counts_rows, counts)):
        return None
    for _, provider in statement.lone_scans([scan]):
        if _is_worth_grouping(provider, frozenset(name for name in names if name is not None)):
            if not counts:
                provider.distinct = True
                return frame
            return _counted(ctx, provider, frame, plan)
    return None


def _counted(
    ctx: PlainSessionContext, provider: LanceTableProvider, frame: DataFrame, plan: Callable[[], DataFrame]
) -> DataFrame | None:
    provider.count_as = _free_name(provider)
    try:
        anew = plan()
        found = _lowest_aggregate(anew.logical_plan(), ("SubqueryAlias", "Projection"))
        if found is not None:
            path, node = found
            summed = _summed(ctx, node, provider.count_as)
            counted = rebuilt(ctx, anew.logical_plan(), (), {path: summed})
            if counted.schema() == frame.schema():
                return counted
        provider.count_as = None
    except Exception:  # noqa: BLE001 - whatever DataFusion does not take, the statement stands as it is
        provider.count_as = None
    return None


def _summed(ctx: PlainSessionContext, node: Any, count_as: str) -> DataFrame:
    """Return the rows of an aggregate that counts rows, over those that have counts."""
    detail = variant(node)
    below = ctx.create_dataframe_from_logical_plan(node.inputs()[0])
    (column,) = (each for each in columns_of(below, below.logical_plan()) if each.name == count_as)
    groups = [Expr(each) for each in detail.group_by_exprs()]
    summed = below.aggregate(groups, [functions.sum(Expr.column(str(column))).alias(count_as)])
    total = functions.coalesce(Expr.column(f'"{count_as}"'), Expr.literal(0))
    names = detail.schema().field_names()[len(groups) :]
    columns = columns_of(summed, summed.logical_plan())[: len(groups)]
    keys = [Expr.column(str(each)) for each in columns]
    return checked(summed.select(*keys, *(total.alias(name) for name in names)), node)


def _lowest_aggregate(plan: Any, between: tuple[str, ...]) -> tuple[Path, Any] | None:
    """Return the aggregate that comes first after the only scan, and no other nodes than some between."""
    chain = list(_chain(plan))
    if not chain or type(variant(chain[-1])).__name__ != "TableScan" or "fetch=" in chain[-1].display():
        return None
    for depth in range(len(chain) - 2, -1, -1):
        kind = type(variant(chain[depth])).__name__
        if kind == "Aggregate":
            return (0,) * depth, chain[depth]
        if kind not in between:
            return None
    return None


def _chain(plan: Any) -> Iterator[Any]:
    """Yield nodes from the root down to one that has no input, or several."""
    node = plan
    while node is not None:
        yield node
        inputs = node.inputs()
        node = inputs[0] if len(inputs) == 1 else None


def _column_of(expr: Any) -> str | None:
    """Return the name of the column that an expression is, perhaps under another name."""
    inner = expr.to_variant().expr() if expr.variant_name() == "Alias" else expr
    return inner.to_variant().name() if inner.variant_name() == "Column" else None


def _counts_rows(expr: Any) -> bool:
    return expr.variant_name() == "AggregateFunction" and _COUNTS.fullmatch(expr.schema_name()) is not None


def _is_worth_grouping(provider: LanceTableProvider, names: frozenset[str]) -> bool:
    table = provider.table
    if type(table) is not Table or not provider.is_near or not names <= provider.strings:
        return False
    rows = table.told_rows()
    if rows is not None and rows < WORTH_ROWS:
        return False
    look = look_at_strings(table, sorted(names))
    return look is not None and names <= look.coded


def _free_name(provider: LanceTableProvider) -> str:
    name = "_count"
    while name in provider.schema.names:
        name += "_"
    return name
