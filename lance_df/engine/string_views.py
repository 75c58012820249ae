"""Strings that are grouped or aggregated, as views: DataFusion takes half the time for these.

The types of the result stay what they are: what has become a view is cast back at the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lance_df.compute.compat import DataFrame, col, variant
from lance_df.sql.splice import quote_identifier
from lance_df.table.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable

    from lance_df.engine.plan_walk import LogicalScan
    from lance_df.engine.provider import Scanned
    from lance_df.engine.statement import Statement

# Statements that do something else than to return rows are left alone.
_QUERIES: Final = ("Aggregate", "Distinct", "Filter", "Limit", "Projection", "Sort", "SubqueryAlias", "Union")
# for less, to plan a statement anew takes longer than views save
_WORTH_ROWS = 100_000
_TELLS_TYPES: Final = "arrow_typeof("


def with_string_views(
    statement: Statement,
    scans: list[LogicalScan],
    frame: DataFrame,
    optimized: Any,
    plan: Callable[[], DataFrame],
) -> DataFrame | None:
    """Return a frame with the same rows that aggregates views; None where no strings of large tables are,
    or namespaces are read, whose joins are planned anew, too.

    Parameters
    ----------
    scans
        Those of the plan.
    frame, optimized
        The statement, and its optimized plan.
    plan
        Plans the statement anew.
    """
    aggregated = _aggregated(optimized)
    schema = frame.schema()
    if not aggregated or len(set(schema.names)) < len(schema.names) or not statement.reads_tables_only:
        return None
    providers = [
        (table.provider, frozenset(name for name in table.provider.strings if name in aggregated))
        for table, own in statement.scans_of_tables(scans)
        if own and _is_worth_it(table.provider.table)
    ]
    if not any(names for _, names in providers) or _TELLS_TYPES in frame.logical_plan().display_indent():
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


def _is_worth_it(table: Scanned) -> bool:
    rows = table.told_rows() if isinstance(table, Table) else 0
    return rows is None or rows >= _WORTH_ROWS


def _aggregated(plan: Any) -> str:
    """Return the text of what a query groups by and aggregates; nothing for other statements."""
    if type(variant(plan)).__name__ not in _QUERIES:
        return ""
    texts, pending = [], [plan]
    while pending:
        node = pending.pop()
        kind = type(variant(node)).__name__
        if kind == "RecursiveQuery":  # its steps have to agree in types
            return ""
        if kind == "Aggregate":
            texts.append(node.display())
        pending += node.inputs()
    return "\n".join(texts)
