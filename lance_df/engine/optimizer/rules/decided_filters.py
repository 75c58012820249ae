"""Remove conjuncts above scans of namespaces if partition values decide them.

DataFusion applies conjuncts that it does not push into a scan to the rows that the scan returns. If such a
conjunct is a function of partition values, the scan only needs to read the partitions for which it is true,
and the rows need no check. The filter is rebuilt without this conjunct.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any

import numpy as np

from lance_df.compute.compat import DataFrame, Expr, PlainSessionContext
from lance_df.compute.expressions import conjuncts
from lance_df.compute.terms import to_term
from lance_df.engine.optimizer.planned import DoesNotApplyError
from lance_df.engine.plans.nodes import Filter, PlanNode, Projection, SubqueryAlias, frame_of
from lance_df.engine.plans.rebuild import rebuilt
from lance_df.engine.plans.walks import Path, chain
from lance_df.namespace.member_subset import MemberSubset
from lance_df.namespace.pruning.decided_members import decided_members
from lance_df.namespace.pruning.selected_members import selected_members
from lance_df.namespace.snapshot import NamespaceSnapshot

if TYPE_CHECKING:
    from lance_df.engine.optimizer.planned import Context, Planned
    from lance_df.engine.plans.logical_scans import LogicalScan
    from lance_df.engine.provider import SourceScan
    from lance_df.engine.statement import PlannedTable
    from lance_df.namespace.manifest_table import NamespaceManifest


def decided_filters(planned: Planned, context: Context) -> Planned | None:
    """Remove conjuncts that partition values decide, and read only the members for which they are true."""
    undecided = without_decided_filters(context.session, planned.optimized, planned.lone_scans())
    if undecided is None:
        return None
    frame, scans = undecided
    if frame.schema() != planned.frame.schema():  # nullability depends on the DataFusion release
        raise DoesNotApplyError("the nullability of the result's columns would change")
    return planned.replanned(frame, tables=planned.requesting(scans))


def without_decided_filters(
    session: PlainSessionContext, plan: PlanNode, scans: Iterable[tuple[LogicalScan, PlannedTable]]
) -> tuple[DataFrame, dict[int, SourceScan]] | None:
    """Return a frame with the same rows that does not evaluate conjuncts that partition values decide.

    None if there are no such conjuncts.

    Parameters
    ----------
    plan
        An optimized plan.
    scans
        Scans of the plan, each with its table. No other scan reads the table.

    Returns
    -------
    The frame, and scans that only read the needed members, by the keys of their tables.

    Raises
    ------
    NotRebuiltError
        The plan cannot be rebuilt without the conjuncts.
    """
    replacements: dict[Path, DataFrame] = {}
    subsets: dict[int, SourceScan] = {}
    for scan, table in scans:
        snapshot = table.scan.source
        # a source that wraps a snapshot does not qualify
        if not scan.above or type(snapshot) is not NamespaceSnapshot:
            continue
        above = next(_filters(plan, scan.path), None)
        if above is None:
            continue
        path, node, projections = above
        decided = _Decided(snapshot.manifest, table, projections)
        left = [part for part in conjuncts(node.predicate) if not decided.takes(part)]
        if decided.members is not None:
            below = frame_of(session, node.inputs[0])
            replacements[path] = below.filter(reduce(and_, map(Expr, left))) if left else below
            subset = MemberSubset(snapshot, decided.members)
            subsets[table.key] = dataclasses.replace(table.scan, source=subset)
    return (rebuilt(session, plan, (), replacements), subsets) if replacements else None


class _Decided:
    """Finds the members for which conjuncts are true, one conjunct after the other."""

    def __init__(
        self,
        manifest: NamespaceManifest,
        table: PlannedTable,
        projections: tuple[Mapping[str, Any], ...],
    ) -> None:
        self._names = frozenset(table.stored_schema.names)
        self._projections = projections
        self._manifest = manifest
        self._needed = np.zeros(len(manifest.members), dtype=np.bool_)
        self._needed[selected_members(manifest, None, table.scan.request.pruning_predicate).positions] = True
        self.members: np.ndarray | None = None

    def takes(self, conjunct: Any) -> bool:
        """Return whether partition values decide a conjunct. If so, keep only the members that match."""
        term = to_term(conjunct, self._names.__contains__, self._projections)
        if term is None:
            return False
        needed = self._needed if self.members is None else self.members
        members = decided_members(self._manifest, term, needed)
        if members is None:
            return False
        self.members = members
        return True


def _filters(plan: PlanNode, path: Path) -> Iterator[tuple[Path, Filter, tuple[Mapping[str, Any], ...]]]:
    """Yield the filters directly above a scan, nearest first, with the projections below each filter."""
    nodes = chain(plan, path)
    projections: tuple[Mapping[str, Any], ...] = ()
    for depth in range(len(path) - 1, -1, -1):
        match nodes[depth]:
            case Filter() as node:
                yield path[:depth], node, projections
            case Projection() as node:
                projections = (node.outputs, *projections)
            case SubqueryAlias():
                continue
            case _:
                return
