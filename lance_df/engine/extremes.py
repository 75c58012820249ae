"""Statements that ask a table for nothing but smallest and largest values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lance_df.compute.compat import variant

if TYPE_CHECKING:
    from lance_df.engine.plan_walk import LogicalScan

EXTREMES: Final = ("max", "min")
# what is between the parentheses and the end of an aggregate that does not look at all rows alike
_MODIFIERS: Final = (" FILTER (WHERE ", " ORDER BY [")


def needs_extremes_only(plan: Any, scans: list[LogicalScan]) -> bool:
    """Return whether a plan has one scan, of which it needs the extremes of columns over all rows.

    Parameters
    ----------
    plan
        An optimized plan.
    scans
        Its scans.
    """
    if len(scans) != 1 or scans[0].pushed or scans[0].above:
        return False
    below = False  # the aggregate
    node = plan
    while inputs := node.inputs():
        if len(inputs) > 1:
            return False
        detail = variant(node)
        kind = type(detail).__name__
        if kind == "Aggregate":
            if below or detail.group_by_exprs() or not all(map(_is_extreme, detail.aggregate_exprs())):
                return False
            below = True
        elif below and not (kind == "SubqueryAlias" or (kind == "Projection" and _only_names(detail))):
            return False
        node = inputs[0]
    return below and "fetch=" not in node.display()


def _is_extreme(expr: Any) -> bool:
    if expr.variant_name() != "AggregateFunction":
        return False
    name = expr.schema_name()
    return (
        name.partition("(")[0] in EXTREMES
        and not any(modifier in name for modifier in _MODIFIERS)
        and all(operand.variant_name() == "Column" for operand in expr.rex_call_operands())
    )


def _only_names(projection: Any) -> bool:
    """Return whether a projection computes nothing."""
    for expr in projection.projections():
        inner = expr.to_variant().expr() if expr.variant_name() == "Alias" else expr
        if inner.variant_name() != "Column":
            return False
    return True
