"""A planned statement, which rules take and return."""

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

# with fewer rows, the statement runs faster than it is planned again
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
    """A frame of a statement, and the slots of its tables in the frame, by key."""

    frame: DataFrame
    table_slots: Mapping[int, TableSlot]


@dataclass(frozen=True, slots=True)
class Planned:
    """A planned statement.

    Attributes
    ----------
    frame, optimized
        The statement as a frame, and the optimized plan that runs.
    table_slots
        The slots of the tables in the frame and the plan.
    tables
        The tables with the requests of their scans, by key.
    read
        The nodes and scans of the optimized plan.
    plan
        A function that plans the statement again with other requests, including the changes of earlier rules.
    may_be_large
        Whether a table may have so many rows that optimizing the computation pays.
    over_runs
        Whether a scan returns a partial aggregate, which the frame merges.
    is_final
        Whether no other rule may change the statement.
    settings
        DataFusion settings that replace those of the session when the statement runs.
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
        """Return the statement with another frame."""
        plan = optimized_plan_of(frame) if optimized is None else optimized
        read = self.read if plan is self.optimized else PlanScans.of(plan)
        return replace(self, frame=frame, optimized=plan, read=read, **changes)

    def with_settings(self, changes: Mapping[str, str]) -> Planned:
        """Return the statement with changed settings for its execution."""
        return replace(self, settings={**self.settings, **changes})

    @property
    def scans(self) -> tuple[LogicalScan, ...]:
        """The scans of the optimized plan; see `PlanScans.scans`."""
        return self.read.scans

    @property
    def aggregates(self) -> list[Aggregate]:
        """The aggregates of the optimized plan outside of expressions."""
        return [node for node in self.read.nodes if isinstance(node, Aggregate)]

    def complete(self) -> None:
        """Set the requests of the scans in the frame to those of ``tables``."""
        for key, slot in self.table_slots.items():
            # a view that was replaced in the meantime reads other tables; their scans return all rows
            if key in self.tables:
                slot.complete(self.tables[key])

    def requesting(self, scans: Mapping[int, SourceScan]) -> Tables:
        """Return the tables, with changed requests for the scans in ``scans``."""
        return {
            key: replace(table, scan=scans[key]) if key in scans else table
            for key, table in self.tables.items()
        }

    def scans_of_tables(self) -> Iterator[tuple[PlannedTable, list[LogicalScan]]]:
        """Yield each table with its scans; see `lance_df.engine.statement.scans_of_tables`."""
        return scans_of_tables(self.tables, self.scans)

    def lone_scans(self) -> Iterator[tuple[LogicalScan, PlannedTable]]:
        """Yield the tables that are scanned exactly once, with their scans."""
        for table, scans in self.scans_of_tables():
            if len(scans) == 1:
                yield scans[0], table

    @property
    def reads_namespaces(self) -> bool:
        """Whether the statement reads a partitioned namespace."""
        return any(table.scan.source.is_partitioned for table in self.tables.values())


@dataclass(frozen=True, slots=True)
class Context:
    """The information that rules have in addition to the statement.

    Attributes
    ----------
    session
        The session that plans frames.
    statement
        The state of the statement, which records partitioned joins and what they read.
    joins
        Options for joins of namespaces.
    registered
        The names of user-defined functions.
    settings
        A function that returns the settings of the session for joins, by name.
    """

    session: PlainSessionContext
    statement: Statement
    joins: JoinOptions
    registered: Collection[str]
    settings: Callable[[], Mapping[str, str]]


def may_be_large(tables: Tables) -> bool:
    """Return whether a table may have so many rows that optimizing the computation pays."""
    rows = (table.estimated_rows() for table in tables.values())
    return any(each is None or each >= WORTH_ROWS for each in rows)
