"""Derive the requests of scans from the plan of a statement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lance_df.engine.plans.walks import limits_rows
from lance_df.engine.pruning.predicates import pruning_predicate_of_scans
from lance_df.engine.statement import scans_of_tables
from lance_df.records import replace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lance_df.engine.plans.logical_scans import LogicalScan
    from lance_df.engine.statement import PlannedTable


def requests_of(
    tables: Mapping[int, PlannedTable], plan: Any, scans: Sequence[LogicalScan], *, can_prove: bool
) -> dict[int, PlannedTable]:
    """Return the tables, with the requests of their scans adapted to a plan.

    Parameters
    ----------
    plan, scans
        An optimized plan, and its scans.
    can_prove
        Whether predicates of the plan may prune.
    """
    changed = dict(tables)
    if scans and can_prove:
        for table, scans_of_table in scans_of_tables(tables, scans):
            source = table.scan.source
            predicate = pruning_predicate_of_scans(
                scans_of_table, table.stored_schema, with_terms=source.is_partitioned
            )
            if predicate is not None:
                scan = table.scan.requesting(pruning_predicate=predicate)
                changed[table.key] = replace(table, scan=scan)
    remote = [key for key, table in tables.items() if not table.scan.source.is_local]
    if remote and not limits_rows(plan):
        for key in remote:
            scan = replace(changed[key].scan, reads_ahead=True)
            changed[key] = replace(changed[key], scan=scan)
    return changed
