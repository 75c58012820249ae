"""What a rewritten plan has to keep of the statement: its columns and the order of its rows.

A rewrite may change how rows are computed, and nothing that a reader of the result sees: names, types and
nullability of columns, and the order that the statement asks for. DataFusion repartitions the input of a
projection that computes something, so a sort below one orders nothing: what has to be computed for a rewrite
goes below the sort.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lance_df.compute.compat import variant

if TYPE_CHECKING:
    import pyarrow as pa

    from lance_df.compute.compat import DataFrame
    from lance_df.engine.plan_rebuild import Path

# They take rows as they come: DataFusion repartitions the input of none.
_KEEPS_ORDER: Final = ("Limit", "SubqueryAlias")


class RewriteWarning(RuntimeWarning):
    """A rewritten plan differed from the statement, so the statement runs as it was written."""


def sort_path(plan: Any) -> Path | None:
    """Return the path to the sort that orders the result; None where the plan promises no order."""
    node = plan
    path: Path = ()
    while True:
        detail = variant(node)
        kind = type(detail).__name__
        if kind == "Sort":
            return path
        if kind not in _KEEPS_ORDER and not (kind == "Projection" and computes_nothing(detail)):
            return None
        (node,) = node.inputs()
        path = (*path, 0)


def node_at(plan: Any, path: Path) -> Any:
    """Return the node that a path leads to."""
    for number in path:
        plan = plan.inputs()[number]
    return plan


def computes_nothing(projection: Any) -> bool:
    """Return whether a projection only chooses and renames columns."""
    for expr in projection.projections():
        inner = expr.to_variant().expr() if expr.variant_name() == "Alias" else expr
        if inner.variant_name() != "Column":
            return False
    return True


def lost_by_rewriting(frame: DataFrame, optimized: Any, anew: DataFrame) -> str | None:
    """Return what a rewritten statement does not keep; None if it keeps all.

    Parameters
    ----------
    frame, optimized
        The statement before it was rewritten, and its optimized plan.
    anew
        The statement after it.
    """
    schema, found = frame.schema(), anew.schema()
    if found != schema:
        return f"the columns are {_shown(found)}, expected {_shown(schema)}"
    # the optimizer leaves out keys that others determine
    wanted = [sort_keys(optimized), sort_keys(frame.logical_plan())]
    if wanted[0] is not None and (keys := sort_keys(anew.logical_plan())) not in wanted:
        return f"the rows are ordered by {keys}, expected {wanted[0]}"
    return None


def sort_keys(plan: Any) -> tuple[tuple[str, bool, bool], ...] | None:
    """Return what orders the result: expressions, whether ascending, and whether NULL comes first."""
    path = sort_path(plan)
    if path is None:
        return None
    keys = variant(node_at(plan, path)).sort_exprs()
    return tuple((each.expr().canonical_name(), each.ascending(), each.nulls_first()) for each in keys)


def _shown(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}{'' if field.nullable else ' NOT NULL'}" for field in schema)
