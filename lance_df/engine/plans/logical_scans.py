"""The scans of an optimized logical plan, with the conditions on their rows.

DataFusion passes a scan only the conjuncts that pyarrow can express. The others stay in `Filter` nodes above
the scan, already resolved through views, aliases, CTEs and joins. This module finds them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from lance_df.compute.expressions import kind_of, literal, operator_of
from lance_df.engine.plans.hidden_scans import HiddenScans, is_shown_by
from lance_df.engine.plans.nodes import Filter, PlanNode, Projection, Scan, SubqueryAlias
from lance_df.engine.plans.walks import Path
from lance_df.records import dataclass

__all__ = [
    "LogicalScan",
    "PlanScans",
    "ScopedExpr",
    "is_among",
    "logical_scans",
    "visible_scans",
]


@dataclass(frozen=True, slots=True)
class ScopedExpr:
    """An expression, and the outputs of the projections between it and the scan, nearest to it first."""

    expr: Any
    projections: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class LogicalScan:
    """One scan: its table as (schema or None, name), its pushed conditions, and the conditions above it.

    ``path`` leads from the root of the plan to the scan, as the number of an input at each node.
    """

    table: tuple[str | None, str]
    pushed: tuple[ScopedExpr, ...]
    above: tuple[ScopedExpr, ...]
    path: Path = ()

    @property
    def is_blocked(self) -> bool:
        """Whether planning this scan may fail.

        DataFusion combines conditions with Python's ``&`` and ``|``, which pyarrow scalars do not support as
        left operands. A condition that folds to a literal is a scalar. Casts are not supported either, but
        DataFusion pushes them when a prepared statement is executed.
        """
        return bool(self._literals()) or any(_cannot_be_pushed(scoped.expr) for scoped in self.pushed)

    @property
    def is_empty(self) -> bool:
        """Whether one of several pushed conjuncts is NULL or FALSE, so that no row is returned.

        A literal conjunct can also be TRUE. For example, ``k IS NOT NULL`` below an outer join that becomes
        an inner join is TRUE if ``k`` is never null.
        """
        return any(not _is_true(scoped.expr) for scoped in self._literals())

    def unpushed(self) -> LogicalScan:
        """Return the scan as if nothing was pushed into it."""
        return replace(self, pushed=(), above=(*self.pushed, *self.above))

    def _literals(self) -> list[ScopedExpr]:
        """Return the pushed conjuncts that are literals, if there are several conjuncts."""
        alone = len(self.pushed) < 2
        return [] if alone else [each for each in self.pushed if kind_of(each.expr) == "Literal"]


def _is_true(expr: Any) -> bool:
    value = literal(expr)
    return value is not None and value.as_py() is True


@dataclass(frozen=True, slots=True)
class PlanScans:
    """The nodes and scans of an optimized plan.

    Attributes
    ----------
    nodes
        The nodes outside of expressions. The root is the first.
    scans
        The scans outside of expressions, except those of tables that a hidden scan may also read. A scan in
        an uncorrelated scalar subquery is hidden inside an expression. It shares its provider with other
        scans of the same table, so conditions on these must not prune it.
    blocked
        Tables, or texts of hidden scans, that may be blocked; see `is_among`.
    has_subquery
        Whether an expression may contain plan nodes.
    """

    nodes: tuple[PlanNode, ...]
    scans: tuple[LogicalScan, ...]
    blocked: tuple[str, ...]
    has_subquery: bool

    @classmethod
    def of(cls, plan: PlanNode) -> PlanScans:
        """Return the nodes and scans of a plan."""
        scans, visible = _visible(plan)
        hidden = HiddenScans(plan, visible)
        blocked = [scan.table[1] for scan in scans if scan.is_blocked] + hidden.may_be_blocked
        known = tuple(scan for scan in scans if not hidden.may_read(scan.table[1]))
        return cls(tuple(visible), known, tuple(blocked), hidden.may_exist)


def logical_scans(plan: PlanNode) -> tuple[LogicalScan, ...]:
    """Return the scans of an optimized plan; see `PlanScans.scans`."""
    return PlanScans.of(plan).scans


def is_among(blocked: Sequence[str], table: str) -> bool:
    """Whether a table may be one of ``blocked``; see `PlanScans.blocked`."""
    return any(is_shown_by(table, shown) for shown in blocked)


def visible_scans(plan: PlanNode) -> list[LogicalScan]:
    """Return the scans of an optimized plan that are not inside expressions."""
    return _visible(plan)[0]


def _visible(plan: PlanNode) -> tuple[list[LogicalScan], list[PlanNode]]:
    """Return the scans and the nodes of a plan that are not inside expressions."""
    scans: list[LogicalScan] = []
    visible: list[PlanNode] = []
    pending: list[tuple[PlanNode, tuple[ScopedExpr, ...], Path]] = [(plan, (), ())]
    while pending:
        node, above, path = pending.pop()
        visible.append(node)
        if isinstance(node, Scan):
            scans.append(LogicalScan(node.table, tuple(map(ScopedExpr, node.filters)), above, path))
            continue
        below = _below(node, above)
        pending += [(child, below, (*path, number)) for number, child in enumerate(node.inputs)]
    return scans, visible


def _cannot_be_pushed(expr: Any) -> bool:
    pending = [expr]
    while pending:
        part = pending.pop()
        kind = kind_of(part)
        if kind in ("Cast", "TryCast"):
            return True
        if kind == "InList":
            pending.append(part.to_variant().expr())
        if kind not in ("BinaryExpr", "Not", "IsNull", "IsNotNull"):
            continue
        inner = part.rex_call_operands()
        is_junction = kind != "BinaryExpr" or operator_of(part) in ("AND", "OR")
        if is_junction and any(kind_of(each) == "Literal" for each in inner):
            return True
        pending += inner
    return False


def _below(node: PlanNode, above: tuple[ScopedExpr, ...]) -> tuple[ScopedExpr, ...]:
    """Return the conditions that also hold for the rows of a node's input."""
    match node:
        case Filter():
            return (*above, ScopedExpr(node.predicate))
        case SubqueryAlias():
            return above
        case Projection() if above:
            outputs = node.outputs
            return tuple(replace(scoped, projections=(*scoped.projections, outputs)) for scoped in above)
        case _:
            return ()  # joins, aggregates, limits, windows, unions, … change the rows
