"""The properties of a statement's result that a rewritten plan must preserve: columns and row order.

A rewrite may change how rows are computed, but not the visible result: the names, types and nullability of
columns, and the order that the statement specifies. DataFusion repartitions the input of a projection that
computes something, so a sort below such a projection does not order the result. Expressions that a rewrite
adds must therefore be computed below the sort.
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
    """A rewritten plan did not match the statement, so the statement runs as it was written."""


def sort_path(plan: PlanNode) -> Path | None:
    """Return the path to the sort that orders the result; None if the plan guarantees no order."""
    node = plan
    path: Path = ()
    while True:
        match node:
            case Sort():
                return path
            # These preserve the order: DataFusion does not repartition their input.
            case Limit() | SubqueryAlias():
                pass
            case Projection() if node.computes_nothing:
                pass
            case _:
                return None
        (node,) = node.inputs
        path = (*path, 0)


def lost_by_rewriting(frame: DataFrame, optimized: PlanNode, anew: DataFrame) -> str | None:
    """Return a description of what the rewrite did not preserve; None if it preserved everything.

    Parameters
    ----------
    frame, optimized
        The original statement, and its optimized plan.
    anew
        The rewritten statement.
    """
    schema, changed = frame.schema(), anew.schema()
    if changed != schema:
        return f"the columns are {_shown(changed)}, expected {_shown(schema)}"
    wanted = sort_keys(optimized)
    if wanted is None:
        return None
    # the optimizer removes sort keys that other keys determine
    orders = [_identities(keys) for keys in (wanted, sort_keys(plan_of(frame)))]
    if _identities(keys := sort_keys(plan_of(anew))) not in orders:
        return f"the rows are ordered by {_order(keys)}, expected {_order(wanted)}"
    return None


def sort_keys(plan: PlanNode) -> list[SortKey] | None:
    """Return the keys that order the result; None if the plan guarantees no order."""
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
