"""What an optimized logical plan says about each of its scans.

DataFusion hands a scan only the conjuncts that pyarrow can express. The others stand in `Filter` nodes above
it, already resolved through views, aliases, CTEs and joins; this module finds them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from lance_df.compute.compat import variant
from lance_df.records import dataclass

_SCAN: Final = "TableScan: "
_COLUMNS: Final = " projection=["
_LITERALS: Final = re.compile(r"filters=\[.*(Boolean\(|CAST\(|(?<!IS )(?<!IS NOT )\bNULL\b)")


@dataclass(frozen=True, slots=True)
class ScopedExpr:
    """An expression, and what the projections between it and the scan compute, nearest first."""

    expr: Any
    projections: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class LogicalScan:
    """One scan: the table's name as (schema or None, name), what it was given, and what is left above it.

    ``path`` leads to it from the root of the plan: the number of an input at each node.
    """

    table: tuple[str | None, str]
    pushed: tuple[ScopedExpr, ...]
    above: tuple[ScopedExpr, ...]
    path: tuple[int, ...] = ()

    @property
    def is_blocked(self) -> bool:
        """Whether planning this scan may fail.

        DataFusion joins conditions with Python's ``&`` and ``|``, which pyarrow's scalars do not support on
        the left; a condition that folds to a literal is one. Nor does it have casts, which are pushed all the
        same where a prepared statement is executed.
        """
        return bool(self._literals()) or any(_cannot_be_pushed(scoped.expr) for scoped in self.pushed)

    @property
    def is_empty(self) -> bool:
        """Whether one of several pushed conjuncts is NULL or FALSE, so that no row is returned.

        TRUE is one, too: ``k IS NOT NULL`` below an outer join that turns out to be an inner one, say, where
        ``k`` is never null.
        """
        return any(not _is_true(scoped.expr.python_value()) for scoped in self._literals())

    def unpushed(self) -> LogicalScan:
        """Return the scan as it is where nothing is pushed into it."""
        return replace(self, pushed=(), above=(*self.pushed, *self.above))

    def _literals(self) -> list[ScopedExpr]:
        """Return those of several pushed conjuncts that are literals."""
        alone = len(self.pushed) < 2
        return [] if alone else [each for each in self.pushed if each.expr.variant_name() == "Literal"]


def _is_true(value: Any) -> bool:
    # older releases of DataFusion give values of Python
    return (value.as_py() if isinstance(value, pa.Scalar) else value) is True


def logical_scans(plan: Any) -> list[LogicalScan]:
    """Return the scans of an optimized plan, but those of tables of which some scan may be out of sight.

    A scan in an uncorrelated scalar subquery stays inside an expression. It shares its provider with other
    scans of the same table, so what is known of those must not prune it.
    """
    return scans_and_blocked(plan)[0]


def scans_and_blocked(plan: Any) -> tuple[list[LogicalScan], list[str]]:
    """Return what `logical_scans` does, and the names of tables with a scan that is blocked.

    Of a scan inside an expression only the text is known: one that shows a literal condition is taken to be
    blocked, and its name may have its schema before it.
    """
    scans, seen = _visible(plan)
    blocked = [scan.table[1] for scan in scans if scan.is_blocked]
    text = plan.display_indent()
    hidden = Counter(_scanned(text)) - seen
    if not hidden:
        return scans, blocked
    lines = [found.partition("\n")[0] for found in text.split(_SCAN)[1:]]
    blocked += [line.partition(_COLUMNS)[0] for line in lines if _LITERALS.search(line)]
    return [scan for scan in scans if not any(_may_be(name, scan.table[1]) for name in hidden)], blocked


def is_among(names: list[str], table: str) -> bool:
    """Whether a table may be one of those that `scans_and_blocked` names."""
    return any(_may_be(name, table) for name in names)


def visible_scans(plan: Any) -> list[LogicalScan]:
    """Return the scans of an optimized plan that are not inside expressions."""
    return _visible(plan)[0]


def _visible(plan: Any) -> tuple[list[LogicalScan], Counter[str]]:
    scans: list[LogicalScan] = []
    seen: Counter[str] = Counter()
    pending: list[tuple[Any, tuple[ScopedExpr, ...], tuple[int, ...]]] = [(plan, (), ())]
    while pending:
        node, above, path = pending.pop()
        detail = variant(node)
        kind = type(detail).__name__
        if kind == "TableScan":
            _, schema, name = detail.fqn()
            pushed = tuple(ScopedExpr(expr) for expr in detail.filters())
            scans.append(LogicalScan((schema, name), pushed, above, path))
            seen.update(_scanned(node.display()))
            continue
        below = _below(kind, detail, above)
        pending += [(child, below, (*path, number)) for number, child in enumerate(node.inputs())]
    return scans, seen


def _may_be(scanned: str, table: str) -> bool:
    return table in scanned or table.replace('"', '""') in scanned


def _scanned(text: str) -> list[str]:
    """Return what plans say of the tables that they scan: names, and perhaps more."""
    return [found.partition("\n")[0].partition(_COLUMNS)[0] for found in text.split(_SCAN)[1:]]


def _cannot_be_pushed(expr: Any) -> bool:
    pending = [expr]
    while pending:
        node = pending.pop()
        kind = node.variant_name()
        if kind in ("Cast", "TryCast"):
            return True
        if kind == "InList":
            pending.append(node.to_variant().expr())
        if kind not in ("BinaryExpr", "Not", "IsNull", "IsNotNull"):
            continue
        operands = node.rex_call_operands()
        is_junction = kind != "BinaryExpr" or node.rex_call_operator() in ("AND", "OR")
        if is_junction and any(operand.variant_name() == "Literal" for operand in operands):
            return True
        pending += operands
    return False


def _below(kind: str, detail: Any, above: tuple[ScopedExpr, ...]) -> tuple[ScopedExpr, ...]:
    """Return what still holds for the rows of a node's input."""
    if kind == "Filter":
        return (*above, ScopedExpr(detail.predicate()))
    if kind == "SubqueryAlias":
        return above
    if kind == "Projection" and above:
        outputs = projected_names(detail.projections())
        return tuple(replace(scoped, projections=(*scoped.projections, outputs)) for scoped in above)
    return ()  # joins, aggregates, limits, windows, unions ... change which rows there are


def projected_names(projections: list[Any]) -> dict[str, Any]:
    """Return what a projection computes by the name that it has above; None for names that are not unique."""
    outputs: dict[str, Any] = {}
    for expr in projections:
        if expr.variant_name() == "Alias":
            detail = expr.to_variant()
            name, computed = detail.alias(), detail.expr()
        else:
            name = expr.to_variant().name() if expr.variant_name() == "Column" else expr.schema_name()
            computed = expr
        outputs[name] = None if name in outputs else computed
    return outputs
