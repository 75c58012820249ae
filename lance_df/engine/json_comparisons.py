"""Refuse comparisons of JSON columns with other values, which would compare with the stored document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lance_df.compute.compat import joined_subqueries_settings, with_settings
from lance_df.compute.expressions import holds_subquery, literal, qualified_columns, uncast
from lance_df.engine.plans.comparisons import Inputs, comparisons
from lance_df.engine.plans.nodes import Scan, frame_of, optimized_plan_of, plan_of
from lance_df.engine.plans.walks import has_subquery, nodes
from lance_df.expr.literals import is_bytes, is_json, json_comparison_error, may_give_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lance_df.compute.compat import DataFrame, PlainSessionContext
    from lance_df.engine.plans.nodes import PlanNode
    from lance_df.engine.statement import PlannedTable


def check_json_comparisons(
    ctx: PlainSessionContext, frame: DataFrame, tables: Iterable[PlannedTable] = ()
) -> None:
    """Check that a frame compares no JSON column with anything but JSON.

    Parameters
    ----------
    tables
        The tables that the frame reads.

    Raises
    ------
    InvalidInputError
        The frame has such a comparison.
    """
    plan = plan_of(frame)
    _check(ctx, plan, tables)
    if has_subquery(plan):  # an optimized plan has them as joins
        settings = joined_subqueries_settings()
        _check(ctx, optimized_plan_of(frame_of(with_settings(ctx, settings), plan)), tables)


def _check(ctx: PlainSessionContext, plan: PlanNode, tables: Iterable[PlannedTable]) -> None:
    for node in nodes(plan):
        compared = list(comparisons(node))
        inputs = Inputs(ctx, node)
        documents = _documents(inputs, node, tables) if compared else {}
        for parts in compared if documents else ():
            if any(map(holds_subquery, parts)):  # a comparison with a column where subqueries are joins
                continue
            known = [_is_document(inputs, part, documents) for part in parts]
            others = (part for part, is_one in zip(parts, known, strict=True) if not is_one)
            if any(known) and not all(map(_is_null, others)):
                raise json_comparison_error(_name(parts, documents))


def _documents(inputs: Inputs, node: PlanNode, tables: Iterable[PlannedTable]) -> dict[str, pa.Field]:
    """Return the columns with JSON that a node reads, by qualified name."""
    if isinstance(node, Scan):
        schemas = [table.stored_schema for table in tables if table.is_called(node.table)]
        fields = {f"{node.qualifier}.{field.name}": field for schema in schemas for field in schema}
    else:
        fields = inputs.fields()
    return {name: field for name, field in fields.items() if may_give_json(field)}


def _is_document(inputs: Inputs, expr: Any, documents: dict[str, pa.Field]) -> bool:
    """Whether an expression, ignoring casts, is a JSON column or computes a document from one."""
    inner, _ = uncast(expr)
    read = [documents[name] for name in qualified_columns(inner) if name in documents]
    if inner.variant_name() == "Column":
        return any(map(is_json, read))
    field = inputs.field(inner) if read else None
    return field is not None and (is_json(field) or (is_bytes(field.type) and any(map(is_json, read))))


def _is_null(expr: Any) -> bool:
    value = literal(uncast(expr)[0])
    return value is not None and not value.is_valid


def _name(parts: Iterable[Any], documents: dict[str, pa.Field]) -> str:
    """Return the name of the first JSON column in some expressions, or the path of its JSON field."""
    names = (name for part in parts for name in qualified_columns(part))
    field = next(documents[name] for name in names if name in documents)
    return field.name if is_json(field) else f"{field.name}.{next(filter(is_json, field.type.fields)).name}"
