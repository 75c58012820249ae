"""Strings that are grouped or aggregated, as views: DataFusion takes half the time for short ones.

To tell those apart that do not lie within views themselves takes it a quarter longer.

The types of the result stay what they are: what has become a view is cast back at the end. Where the
statement orders its rows that is below the sort, or below another one of the few rows that a limit leaves
(see `lance_df.engine.plan_order`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lance_df.compute.compat import DataFrame, Expr, PlainSessionContext, limit_of, variant
from lance_df.engine.dataframe import with_types_of_rows
from lance_df.namespace.kind import is_namespace
from lance_df.records import dataclass
from lance_df.table.string_looks import look_at_strings
from lance_df.table.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from lance_df.engine.plan_rebuild import Path
    from lance_df.engine.plan_walk import LogicalScan
    from lance_df.engine.provider import LanceTableProvider, Scanned
    from lance_df.engine.statement import Statement

# Statements that do something else than to return rows are left alone.
_QUERIES: Final = ("Aggregate", "Distinct", "Filter", "Limit", "Projection", "Sort", "SubqueryAlias", "Union")
# for less, to plan a statement anew takes longer than views save
WORTH_ROWS = 100_000
_TELLS_TYPES: Final = "arrow_typeof("


def with_string_views(
    ctx: PlainSessionContext,
    statement: Statement,
    scans: list[LogicalScan],
    frame: DataFrame,
    optimized: Any,
    plan: Callable[[], DataFrame],
) -> DataFrame | None:
    """Return a frame with the same rows that aggregates views; None where no strings of large tables
    are worth it.

    Parameters
    ----------
    scans
        Those of the plan.
    frame, optimized
        The statement, and its optimized plan.
    plan
        Plans the statement anew.
    """
    aggregation = _Aggregation.of(optimized)
    schema = frame.schema()
    if aggregation is None or len(set(schema.names)) < len(schema.names):
        return None
    providers = [
        (table.provider, names)
        for table, own in statement.scans_of_tables(scans)
        if own and (names := aggregation.worth_viewing(table.provider))
    ]
    if not providers or _TELLS_TYPES in frame.logical_plan().display_indent():
        return None
    for provider, names in providers:
        provider.views = names
    try:
        viewed = plan()
        typed = with_types_of_rows(ctx, viewed)  # unions of views and strings have rows of views
        wanted = frame.logical_plan() if typed is viewed else optimized
        anew = _with_types_of(ctx, wanted, typed)
        if anew.schema() == schema:
            return anew
    except Exception:  # noqa: BLE001 - a function that takes plain strings only, say: the statement stands
        pass
    for provider, _ in providers:
        provider.views = frozenset()
    return None


def _with_types_of(ctx: PlainSessionContext, plan: Any, anew: DataFrame) -> DataFrame:
    """Return ``anew`` with the types that a plan of the same statement has.

    Raises
    ------
    ValueError
        It has other columns.
    NotRebuiltError
        What is above the casts cannot be built.
    """
    if anew.schema() == ctx.create_dataframe_from_logical_plan(plan).schema():
        return anew
    from lance_df.engine.plan_order import node_at, sort_path
    from lance_df.engine.plan_rebuild import rebuilt

    found = anew.logical_plan()
    ordered = sort_path(found)
    limit = None if ordered is None else _limit_above(found, ordered)
    path: Path = () if ordered is None else ordered if limit is not None else (*ordered, 0)
    below = ctx.create_dataframe_from_logical_plan(node_at(found, path))
    wanted = ctx.create_dataframe_from_logical_plan(node_at(plan, path)).schema()
    if limit is None:
        cast = _cast(ctx, below, wanted)
    else:  # few rows are left to cast, and to sort again
        keys = variant(node_at(found, path)).sort_exprs()
        cast = DataFrame(_cast(ctx, below.limit(limit), wanted).df.sort(*keys))
    return rebuilt(ctx, found, (), {path: cast})


def _limit_above(plan: Any, path: Path) -> int | None:
    """Return how many rows are needed of the node that a path leads to; None for all."""
    from lance_df.engine.plan_order import node_at

    for depth in range(len(path) - 1, -1, -1):
        node = node_at(plan, path[:depth])
        if type(variant(node)).__name__ == "Limit":
            count, skip = limit_of(node)
            return None if count is None else count + skip
    return None


def _cast(ctx: PlainSessionContext, frame: DataFrame, wanted: pa.Schema) -> DataFrame:
    """Return a frame whose columns have other types, and the same names and tables."""
    from lance_df.engine.plan_rebuild import columns_of
    from lance_df.engine.qualified_columns import renaming

    columns = columns_of(frame, frame.logical_plan())
    names = [f"c{number}" for number in range(len(columns))]
    cast = [
        (expr if found.type == field.type else expr.cast(field.type)).alias(name)
        for column, name, found, field in zip(columns, names, frame.schema(), wanted, strict=True)
        for expr in [Expr.column(str(column))]
    ]
    return frame.select(*cast).select(*renaming(ctx, list(zip(names, columns, strict=True))))


@dataclass(frozen=True, slots=True)
class _Aggregation:
    """The text of what a query groups by, or tells apart, and of what it aggregates."""

    grouped: str
    others: str

    def worth_viewing(self, provider: LanceTableProvider) -> frozenset[str]:
        """Return the columns of a large table that take less time as views.

        These are short strings; of others, such as are not to be told apart, and are stored one by one.
        """
        table: Scanned | None = provider.table
        names = [name for name in sorted(provider.strings) if name in self.grouped or name in self.others]
        if not names or not (isinstance(table, Table) or is_namespace(table)):
            return frozenset()
        rows = table.told_rows() if isinstance(table, Table) else table.told_rows(provider.hint)
        if rows is not None and rows < WORTH_ROWS:
            return frozenset()
        if not provider.is_near:  # a look takes as long as reading
            return frozenset(names) if isinstance(table, Table) else frozenset()
        sample = table if isinstance(table, Table) else table.first_member(provider.hint)
        look = None if sample is None else look_at_strings(sample, names)
        if look is None:
            return frozenset()
        return look.short | {name for name in names if name not in self.grouped and name not in look.coded}

    @classmethod
    def of(cls, plan: Any) -> _Aggregation | None:
        """Return what a query aggregates; None for other statements."""
        if type(variant(plan)).__name__ not in _QUERIES:
            return None
        grouped: list[str] = []
        others: list[str] = []
        pending = [plan]
        while pending:
            node = pending.pop()
            kind = type(variant(node)).__name__
            if kind == "RecursiveQuery":  # its steps have to agree in types
                return None
            if kind == "Aggregate":
                groups, _, rest = node.display().partition("]], aggr=[[")
                grouped.append(groups)
                (grouped if "DISTINCT" in rest else others).append(rest)
            pending += node.inputs()
        return cls("\n".join(grouped), "\n".join(others)) if grouped else None
