"""Scan strings as views if they are grouped or aggregated: DataFusion needs half the time for short ones.

Comparing strings that do not fit into the views takes a quarter longer.

The result keeps its types: columns that became views are cast back at the end. If the statement sorts its
rows, the cast is below the sort, or, if a limit leaves few rows, below another sort of these rows (see
`lance_df.engine.plans.order`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lance_df.compute.compat import DataFrame, Expr, PlainSessionContext
from lance_df.compute.expressions import aggregate_call, columns_read
from lance_df.engine.dataframe import with_types_of_rows
from lance_df.engine.optimizer.planned import Context, DoesNotApplyError, Planned
from lance_df.engine.plans.nodes import (
    Aggregate,
    Distinct,
    Filter,
    Limit,
    PlanNode,
    Projection,
    Sort,
    SubqueryAlias,
    Union,
    frame_of,
    plan_of,
)
from lance_df.engine.plans.order import sort_path
from lance_df.engine.plans.qualified_columns import renaming
from lance_df.engine.plans.rebuild import columns_of, numbered_name, rebuilt, sorted_by
from lance_df.engine.plans.walks import Path, may_call, node_at
from lance_df.scan.request import Rows

if TYPE_CHECKING:
    import pyarrow as pa

    from lance_df.engine.statement import PlannedTable

# The root nodes of statements that return rows. Other statements do not change.
_QUERIES: Final = (Aggregate, Distinct, Filter, Limit, Projection, Sort, SubqueryAlias, Union)
# with fewer rows, planning a statement again takes longer than views save
_WORTH_ROWS: Final = 100_000


def string_views(planned: Planned, context: Context) -> Planned | None:
    """Let scans of large tables return strings that are aggregated as views."""
    schema = planned.frame.schema()
    nodes = planned.read.nodes
    if not isinstance(nodes[0], _QUERIES) or len(set(schema.names)) < len(schema.names):
        return None
    if any(node.kind == "RecursiveQuery" for node in nodes):  # its steps must have the same types
        return None
    aggregates = planned.aggregates
    views = {}
    for table, scans in planned.scans_of_tables():
        names = _worth_viewing(table, aggregates) if scans else frozenset()
        if names:
            views[table.key] = table.scan.requesting(output=Rows(names))
    if not views or may_call(plan_of(planned.frame), {"arrow_typeof"}):
        return None
    if any(isinstance(node, Sort) and _has_nested_keys(context.session, node) for node in nodes):
        return None
    tables = planned.requesting(views)
    viewed = planned.plan(tables)
    typed = with_types_of_rows(
        context.session, viewed.frame
    )  # the rows of unions of views and strings are views
    wanted = plan_of(planned.frame) if typed is viewed.frame else planned.optimized
    try:
        frame = _with_types_of(context.session, wanted, typed)
    except ValueError as err:
        raise DoesNotApplyError("the statement would have other columns") from err
    if frame.schema() != schema:
        raise DoesNotApplyError("the columns of the result would have other types")
    return planned.replanned(frame, tables=tables, table_slots=viewed.table_slots)


def _has_nested_keys(ctx: PlainSessionContext, sort: Sort) -> bool:
    """Whether rows are sorted by lists or structs, which DataFusion 55 sorts wrongly if they hold views.

    Of those that hold NULL, the first rows by such a key are others in about half of the runs.
    """
    import pyarrow as pa

    keys = [Expr(expr).alias(numbered_name(number)) for number, expr in enumerate(sort.expressions)]
    return any(map(pa.types.is_nested, frame_of(ctx, sort.inputs[0]).select(*keys).schema().types))


def _worth_viewing(table: PlannedTable, aggregates: list[Aggregate]) -> frozenset[str]:
    """Return the columns of a large table that are processed faster as views.

    These are short strings, and longer strings that are neither compared nor stored as dictionaries.
    """
    import pyarrow as pa

    strings = [field.name for field in table.stored_schema if field.type == pa.string()]
    if not strings or not isinstance(table.scan.request.output, Rows):
        return frozenset()
    grouped: set[str] = set()
    others: set[str] = set()
    for node in aggregates:
        for expr in node.groups:
            grouped |= columns_read(expr, strings)
        for expr in node.aggregates:
            call = aggregate_call(expr)
            (grouped if call is None or call.is_distinct else others).update(columns_read(expr, strings))
    names = sorted(grouped | others)
    rows = table.estimated_rows() if names else 0
    if not names or (rows is not None and rows < _WORTH_ROWS):
        return frozenset()
    source = table.scan.source
    if not source.is_local:  # sampling takes as long as reading
        return frozenset(names)
    sample = source.sample(table.scan.request.pruning_predicate)
    sampled = None if sample is None else sample.strings(names)
    if sampled is None:
        return frozenset()
    return sampled.short | {
        name for name in names if name not in grouped and name not in sampled.dictionaries
    }


def _with_types_of(ctx: PlainSessionContext, plan: PlanNode, anew: DataFrame) -> DataFrame:
    """Return ``anew`` with its columns cast to the types of a plan of the same statement.

    Raises
    ------
    ValueError
        ``anew`` has other columns.
    NotRebuiltError
        The nodes above the casts cannot be rebuilt.
    """
    if anew.schema() == frame_of(ctx, plan).schema():
        return anew
    logical = plan_of(anew)
    ordered = sort_path(logical)
    limit = None if ordered is None else _limit_above(logical, ordered)
    path: Path = () if ordered is None else ordered if limit is not None else (*ordered, 0)
    below = frame_of(ctx, node_at(logical, path))
    wanted = frame_of(ctx, node_at(plan, path)).schema()
    if limit is None:
        cast = _cast(ctx, below, wanted)
    else:  # few rows are left to cast and to sort again
        sort = node_at(logical, path)
        assert isinstance(sort, Sort)
        keys = sort.sort_exprs
        cast = sorted_by(_cast(ctx, below.limit(limit), wanted), keys)
    return rebuilt(ctx, logical, (), {path: cast})


def _limit_above(plan: PlanNode, path: Path) -> int | None:
    """Return how many rows of the node at a path are needed; None for all."""
    for depth in range(len(path) - 1, -1, -1):
        node = node_at(plan, path[:depth])
        if isinstance(node, Limit):
            count, skip = node.rows
            return None if count is None else count + skip
    return None


def _cast(ctx: PlainSessionContext, frame: DataFrame, wanted: pa.Schema) -> DataFrame:
    """Return a frame with the same columns and tables, cast to other types."""
    columns = columns_of(frame)
    names = list(map(numbered_name, range(len(columns))))
    cast = [
        (expr if actual.type == field.type else expr.cast(field.type)).alias(name)
        for column, name, actual, field in zip(columns, names, frame.schema(), wanted, strict=True)
        for expr in [Expr.column(str(column))]
    ]
    return frame.select(*cast).select(*renaming(ctx, list(zip(names, columns, strict=True))))
