"""Strings that are grouped or aggregated, as views: DataFusion takes half the time for short ones.

To tell those apart that do not lie within views themselves takes it a quarter longer.

The types of the result stay what they are: what has become a view is cast back at the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lance_df.compute.compat import DataFrame, col, variant
from lance_df.namespace.kind import is_namespace
from lance_df.records import dataclass
from lance_df.sql.splice import quote_identifier
from lance_df.table.string_looks import look_at_strings
from lance_df.table.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable

    from lance_df.engine.plan_walk import LogicalScan
    from lance_df.engine.provider import LanceTableProvider, Scanned
    from lance_df.engine.statement import Statement

# Statements that do something else than to return rows are left alone.
_QUERIES: Final = ("Aggregate", "Distinct", "Filter", "Limit", "Projection", "Sort", "SubqueryAlias", "Union")
# for less, to plan a statement anew takes longer than views save
WORTH_ROWS = 100_000
_TELLS_TYPES: Final = "arrow_typeof("


def with_string_views(
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
        anew = plan()
    except Exception:  # noqa: BLE001 - a function that takes plain strings only, say: the statement stands
        for provider, _ in providers:
            provider.views = frozenset()
        return None
    columns = [
        column if found.type == field.type else column.cast(field.type).alias(field.name)
        for field, found in zip(schema, anew.schema(), strict=True)
        for column in [col(quote_identifier(field.name))]
    ]
    return anew if anew.schema() == schema else anew.select(*columns)


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
