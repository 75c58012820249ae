"""Leave out conjuncts above scans of namespaces that partition values decide.

What DataFusion does not push into a scan it applies to the rows that come out of it. Where such a conjunct is
a function of partition values, the scan need only read the partitions for which it is true, and nothing is
left to be asked of their rows: the filter is built anew without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any

import numpy as np

from lance_df.compute.compat import DataFrame, Expr, PlainSessionContext, variant
from lance_df.compute.terms import to_term
from lance_df.engine.plan_rebuild import Path, rebuilt
from lance_df.engine.plan_walk import projected_names
from lance_df.namespace.member_subset import MemberSubset
from lance_df.namespace.pruning.decided_members import decided_members
from lance_df.namespace.pruning.kept_members import kept_members
from lance_df.namespace.snapshot import NamespaceSnapshot

if TYPE_CHECKING:
    from lance_df.engine.plan_walk import LogicalScan
    from lance_df.engine.provider import LanceTableProvider
    from lance_df.namespace.manifest_table import NamespaceManifest


def without_decided_filters(
    ctx: PlainSessionContext,
    frame: DataFrame,
    plan: Any,
    scans: Iterable[tuple[LogicalScan, LanceTableProvider]],
) -> DataFrame | None:
    """Return a frame with the same rows that does not evaluate what partition values decide.

    None where nothing is to be left out, or the plan cannot be built without it.

    Parameters
    ----------
    frame, plan
        The statement, and its optimized plan.
    scans
        Scans of the plan, each with the provider that it alone reads from. Providers are told which
        partitions are left to read.
    """
    replacements: dict[Path, DataFrame] = {}
    subsets: list[tuple[LanceTableProvider, MemberSubset]] = []
    for scan, provider in scans:
        snapshot = provider.table
        # not one of those that stand for other tables
        if not scan.above or type(snapshot) is not NamespaceSnapshot:
            continue
        found = next(_filters(plan, scan.path), None)
        if found is None:
            continue
        path, node, projections = found
        decided = _Decided(snapshot.manifest, provider, projections)
        left = [part for part in _conjuncts(variant(node).predicate()) if not decided.takes(part)]
        if decided.members is not None:
            below = ctx.create_dataframe_from_logical_plan(node.inputs()[0])
            replacements[path] = below.filter(reduce(and_, map(Expr, left))) if left else below
            subsets.append((provider, MemberSubset(snapshot, decided.members)))
    if not replacements:
        return None
    try:
        anew = rebuilt(ctx, plan, (), replacements)
    except Exception:  # noqa: BLE001 - whatever DataFusion does not take, the statement stands as it is
        return None
    if anew.schema() != frame.schema():
        return None
    for provider, subset in subsets:
        provider.table = subset
    return anew


class _Decided:
    """Finds the members for which conjuncts are true, one conjunct after the other."""

    def __init__(
        self,
        manifest: NamespaceManifest,
        provider: LanceTableProvider,
        projections: tuple[Mapping[str, Any], ...],
    ) -> None:
        self._names = frozenset(provider.schema.names)
        self._projections = projections
        self._manifest = manifest
        self._needed = np.zeros(len(manifest.members), dtype=np.bool_)
        self._needed[kept_members(manifest, None, provider.hint).places] = True
        self.members: np.ndarray | None = None

    def takes(self, conjunct: Any) -> bool:
        """Return whether partition values decide a conjunct."""
        term = to_term(conjunct, self._names.__contains__, self._projections)
        if term is None:
            return False
        needed = self._needed if self.members is None else self.members
        found = decided_members(self._manifest, term, needed)
        if found is None:
            return False
        self.members = found
        return True


def _filters(plan: Any, path: Path) -> Iterator[tuple[Path, Any, tuple[Mapping[str, Any], ...]]]:
    """Yield the filters right above a scan, the nearest first, and the projections below each."""
    nodes = [plan]
    for number in path:
        nodes.append(nodes[-1].inputs()[number])
    projections: tuple[Mapping[str, Any], ...] = ()
    for depth in range(len(path) - 1, -1, -1):
        detail = variant(nodes[depth])
        match type(detail).__name__:
            case "Filter":
                yield path[:depth], nodes[depth], projections
            case "Projection":
                projections = (projected_names(detail.projections()), *projections)
            case "SubqueryAlias":
                continue
            case _:
                return


def _conjuncts(expr: Any) -> Iterator[Any]:
    pending = [expr]
    while pending:
        node = pending.pop()
        if node.variant_name() == "BinaryExpr" and node.rex_call_operator() == "AND":
            pending += reversed(node.rex_call_operands())
        else:
            yield node
