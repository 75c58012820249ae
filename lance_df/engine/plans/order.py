"""What a rewritten plan has to keep of the statement: its columns and the order of its rows.

A rewrite may change how rows are computed, and nothing that a reader of the result sees: names, types and
nullability of columns, and the order that the statement asks for. DataFusion repartitions the input of a
projection that computes something, so a sort below one orders nothing: what has to be computed for a rewrite
goes below the sort.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_df.engine.plans.nodes import Limit, Projection, Sort, SubqueryAlias, plan_of
from lance_df.engine.plans.walks import node_at

if TYPE_CHECKING:
    import pyarrow as pa

    from lance_df.compute.compat import DataFrame
    from lance_df.engine.plans.nodes import PlanNode, SortKey
    from lance_df.engine.plans.walks import Path


class RewriteWarning(RuntimeWarning):
    """A rewritten plan differed from the statement, so the statement runs as it was written."""


def sort_path(plan: PlanNode) -> Path | None:
    """Return the path to the sort that orders the result; None where the plan promises no order."""
    node = plan
    path: Path = ()
    while True:
        match node:
            case Sort():
                return path
            # They take rows as they come: DataFusion repartitions the input of none.
            case Limit() | SubqueryAlias():
                pass
            case Projection() if node.computes_nothing:
                pass
            case _:
                return None
        (node,) = node.inputs
        path = (*path, 0)


def lost_by_rewriting(frame: DataFrame, optimized: PlanNode, anew: DataFrame) -> str | None:
    """Return what a rewritten statement does not keep; None if it keeps all.

    Parameters
    ----------
    frame, optimized
        The statement before it was rewritten, and its optimized plan.
    anew
        The statement after it.
    """
    schema, changed = frame.schema(), anew.schema()
    if changed != schema:
        return f"the columns are {_shown(changed)}, expected {_shown(schema)}"
    wanted = sort_keys(optimized)
    if wanted is None:
        return None
    # the optimizer leaves out keys that others determine
    orders = [_identities(keys) for keys in (wanted, sort_keys(plan_of(frame)))]
    if _identities(keys := sort_keys(plan_of(anew))) not in orders:
        return f"the rows are ordered by {_order(keys)}, expected {_order(wanted)}"
    return None


def sort_keys(plan: PlanNode) -> list[SortKey] | None:
    """Return what orders the result; None where the plan promises no order."""
    path = sort_path(plan)
    if path is None:
        return None
    sort = node_at(plan, path)
    return sort.keys if isinstance(sort, Sort) else None


def _identities(keys: list[SortKey] | None) -> list[object] | None:
    return None if keys is None else [key.identity for key in keys]


def _order(keys: list[SortKey] | None) -> str:
    return str(None if keys is None else ", ".join(map(str, keys)))


def _shown(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}{'' if field.nullable else ' NOT NULL'}" for field in schema)
