"""A statement as it is planned: what rules take and return."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final

from lance_df.engine.plans.logical_scans import LogicalScan, PlanScans
from lance_df.engine.plans.nodes import Aggregate, PlanNode, optimized_plan_of
from lance_df.engine.statement import scans_of_tables
from lance_df.records import dataclass, replace

if TYPE_CHECKING:
    from lance_df.compute.compat import DataFrame, PlainSessionContext
    from lance_df.engine.optimizer.join_options import JoinOptions
    from lance_df.engine.provider import SourceScan
    from lance_df.engine.statement import PlannedTable, Statement, TableSlot

    Tables = Mapping[int, PlannedTable]

# with fewer rows a statement takes less than to plan it in another way
WORTH_ROWS: Final = 10_000


class DoesNotApplyError(Exception):
    """A rule does not apply to a statement; the message says why."""


@dataclass(frozen=True, slots=True)
class RuleReport:
    """The effect of an optimizer rule: ``"applied"``, or the reason why it was skipped."""

    rule: str
    effect: str


@dataclass(frozen=True, slots=True)
class PlannedFrame:
    """A frame of a statement, and what stands for its tables in it, by their keys."""

    frame: DataFrame
    table_slots: Mapping[int, TableSlot]


@dataclass(frozen=True, slots=True)
class Planned:
    """A statement that is planned.

    Attributes
    ----------
    frame, optimized
        The statement as a frame, and the optimized plan that runs.
    table_slots
        What stands for tables in these.
    tables
        What its scans request, by the keys of tables.
    read
        What its optimized plan reads.
    plan
        Plans the statement again, with other requests; what rules have made of it before included.
    may_be_large
        Whether a table may have so many rows that it matters how these are computed on.
    over_runs
        Whether a scan returns a partial aggregate, which the frame merges.
    is_final
        Whether nothing is left to be chosen.
    settings
        Of DataFusion, those that it runs with in place of the session's.
    """

    frame: DataFrame
    optimized: PlanNode
    tables: Tables
    plan: Callable[[Tables], PlannedFrame]
    table_slots: Mapping[int, TableSlot]
    read: PlanScans
    may_be_large: bool = True
    over_runs: bool = False
    is_final: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)

    def replanned(self, frame: DataFrame, optimized: PlanNode | None = None, **changes: Any) -> Planned:
        """Return the statement as another frame."""
        plan = optimized_plan_of(frame) if optimized is None else optimized
        read = self.read if plan is self.optimized else PlanScans.of(plan)
        return replace(self, frame=frame, optimized=plan, read=read, **changes)

    def with_settings(self, changes: Mapping[str, str]) -> Planned:
        """Return the statement as it runs with other settings."""
        return replace(self, settings={**self.settings, **changes})

    @property
    def scans(self) -> tuple[LogicalScan, ...]:
        """The scans of its optimized plan, as `PlanScans` has them."""
        return self.read.scans

    @property
    def aggregates(self) -> list[Aggregate]:
        """The aggregates of its optimized plan, but those inside expressions."""
        return [node for node in self.read.nodes if isinstance(node, Aggregate)]

    def complete(self) -> None:
        """Let the scans of the frame request what is known now."""
        for key, slot in self.table_slots.items():
            # a view that was replaced meanwhile reads other tables, whose scans return all rows
            if key in self.tables:
                slot.complete(self.tables[key])

    def requesting(self, scans: Mapping[int, SourceScan]) -> Tables:
        """Return the tables, of which some request something else."""
        return {
            key: replace(table, scan=scans[key]) if key in scans else table
            for key, table in self.tables.items()
        }

    def scans_of_tables(self) -> Iterator[tuple[PlannedTable, list[LogicalScan]]]:
        """Yield tables whose scans are known, and these."""
        return scans_of_tables(self.tables, self.scans)

    def lone_scans(self) -> Iterator[tuple[LogicalScan, PlannedTable]]:
        """Yield the scans of tables that are scanned once."""
        for table, scans in self.scans_of_tables():
            if len(scans) == 1:
                yield scans[0], table

    @property
    def reads_namespaces(self) -> bool:
        """Whether a partitioned namespace is read."""
        return any(table.scan.source.is_partitioned for table in self.tables.values())


@dataclass(frozen=True, slots=True)
class Context:
    """What rules know beside the statement.

    Attributes
    ----------
    session
        Plans frames.
    statement
        Takes note of joins by partition and of what they read.
    joins
        How namespaces are joined.
    registered
        Names of functions of the user's.
    settings
        Of the session, those that matter for joins, by name.
    """

    session: PlainSessionContext
    statement: Statement
    joins: JoinOptions
    registered: Collection[str]
    settings: Callable[[], Mapping[str, str]]


def may_be_large(tables: Tables) -> bool:
    """Return whether one of some tables may have so many rows that it matters how these are computed on."""
    rows = (table.estimated_rows() for table in tables.values())
    return any(each is None or each >= WORTH_ROWS for each in rows)
