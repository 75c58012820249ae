"""Groups of tables whose rows come in runs: the scan counts and adds up the rows of a run.

Where rows of one order, user or day lie next to each other, what groups them, or joins and groups them, takes
most of its time for rows that differ in nothing but what is added up. Then the scan returns runs of rows that
are equal in all that is asked for, each with the number of its rows and sums over them (see
`lance_df.table.run_aggregates`), and the aggregate adds these up: ``count(*)`` becomes the sum of the
numbers, ``sum`` that of the sums, and of columns of other tables that of their values times the numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from lance_df.compute.compat import DataFrame, Expr, PlainSessionContext, plan_schema, variant
from lance_df.engine.join_sizes import told_rows
from lance_df.engine.plan_rebuild import carried, checked, columns_of, rebuilt
from lance_df.engine.plan_walk import LogicalScan, logical_scans
from lance_df.engine.run_calls import RunCall, RunColumns, may_add_up
from lance_df.engine.way_to_scan import WayToScan, unaliased
from lance_df.namespace.kind import is_namespace
from lance_df.records import dataclass
from lance_df.table.run_aggregates import RunAggregates, are_compared, look_at_runs
from lance_df.table.table import Table

if TYPE_CHECKING:
    from lance_df.engine.provider import LanceTableProvider
    from lance_df.engine.statement import Statement

# for fewer rows, to plan a statement anew takes longer than runs save
_WORTH_ROWS: Final = 200_000
_WORTH_MEMBER_ROWS: Final = 4096
_WORTH_RUN_ROWS: Final = 1.5
# a run is all or nothing to what gives something else for each row
_VOLATILE: Final = ("random(", "uuid(")


@dataclass(frozen=True, slots=True)
class OverRuns:
    """A statement over runs.

    Attributes
    ----------
    frame, optimized
        The statement, and its optimized plan.
    plan
        Plans it again, with ``statement.stand_ins`` and the providers as they are then.
    """

    frame: DataFrame
    optimized: Any
    plan: Callable[[], DataFrame]


def over_runs(
    ctx: PlainSessionContext,
    statement: Statement,
    scans: list[LogicalScan],
    planned: tuple[DataFrame, Any],
    plan: Callable[[], DataFrame],
    registered: Collection[str],
) -> OverRuns | None:
    """Return a statement such that the scan of a large table returns runs; None where that is not worth it.

    Parameters
    ----------
    scans, planned
        The statement as a frame, the optimized plan of that, and the scans of the plan.
    plan
        Plans the statement anew.
    registered
        Names of functions of the user's.
    """
    frame, optimized = planned
    shown = optimized.display_indent()
    if any(call in shown for call in (*_VOLATILE, *(f"{name}(" for name in registered))):
        return None
    names = {name for table in statement.tables.values() for name in table.provider.schema.names}
    for scan, provider in _large_first(statement, scans):
        aggregate = _Aggregate.of(ctx, frame, scan, provider, names)
        if aggregate is None or not aggregate.is_over_runs(_asked(optimized, scan)):
            continue
        return aggregate.over_runs(frame.schema(), plan)
    return None


def _large_first(
    statement: Statement, scans: list[LogicalScan]
) -> Iterator[tuple[LogicalScan, LanceTableProvider]]:
    """Yield near tables that are scanned once and may be large."""
    known = []
    for scan, provider in statement.lone_scans(scans):
        rows = told_rows(provider) if provider.is_near else 0
        known.append((_WORTH_ROWS if rows is None else rows, scan, provider))
    for rows, scan, provider in sorted(known, key=lambda each: -each[0]):
        if rows >= _WORTH_ROWS:
            yield scan, provider


@dataclass(frozen=True, slots=True)
class _Aggregate:
    """The lowest aggregate above a scan that may return runs."""

    ctx: PlainSessionContext
    scan: LogicalScan
    provider: LanceTableProvider
    runs: RunAggregates
    way: WayToScan
    calls: tuple[RunCall, ...]

    @classmethod
    def of(
        cls,
        ctx: PlainSessionContext,
        frame: DataFrame,
        scan: LogicalScan,
        provider: LanceTableProvider,
        names: Collection[str],
    ) -> _Aggregate | None:
        """Return the aggregate if it can be made of runs.

        Parameters
        ----------
        names
            That new columns must not have.
        """
        way = WayToScan.of(frame.logical_plan(), scan.table)
        if way is None:
            return None
        detail = variant(way.node)
        groups, exprs = detail.group_by_exprs(), detail.aggregate_exprs()
        # one group of all rows takes as long as to find runs
        if not groups or any(each.variant_name() == "GroupingSet" for each in groups):
            return None
        if "<subquery>" in way.node.display() or not all(map(may_add_up, exprs)):
            return None
        (below,) = way.node.inputs()
        types = ctx.create_dataframe_from_logical_plan(below).schema()
        columns = RunColumns(
            {name: provider.schema.field(place) for name, place in way.columns.items()},
            dict(zip(plan_schema(variant(below)), types, strict=True)),
            names,
        )
        results = list(ctx.create_dataframe_from_logical_plan(way.node).schema())
        calls = [
            columns.call(expr, field.type)
            for expr, field in zip(exprs, results[len(results) - len(exprs) :], strict=True)
        ]
        known = tuple(call for call in calls if call is not None)
        if len(known) < len(calls):
            return None
        return cls(ctx, scan, provider, columns.runs, way, known)

    def is_over_runs(self, asked: Sequence[str] | None, *, summed: bool = True) -> bool:
        """Whether rows come in runs, in a table or in the first member of a namespace.

        Parameters
        ----------
        asked
            What the scan returns; None for all columns.
        summed
            Whether columns that are summed are among these for that alone.
        """
        own = [each.column for each in self.runs.sums] if summed else self.runs.names
        keys = sorted(name for name in asked or () if name not in own)
        schema = self.provider.schema
        if not keys or not all(are_compared(schema.field(name).type) for name in keys):
            return False
        if any(_fixes(scoped.expr, keys) for scoped in self.scan.pushed):
            return False  # few rows are left, which are sooner read than planned for
        sample = self._sample()
        if sample is None or not all(name in sample.arrow_schema.names for name in keys):
            return False
        return look_at_runs(sample, keys) >= _WORTH_RUN_ROWS

    def _sample(self) -> Table | None:
        """Return what to look at; None for small members of a namespace: each is scanned on its own."""
        table = self.provider.table
        if isinstance(table, Table):
            return table
        member = table.first_member(self.provider.hint) if is_namespace(table) else None
        return member if member is not None and (member.told_rows() or 0) >= _WORTH_MEMBER_ROWS else None

    def over_runs(self, schema: pa.Schema, plan: Callable[[], DataFrame]) -> OverRuns | None:
        """Return the statement over runs, whose result has a schema; None if it cannot be made."""

        def plan_again() -> DataFrame:
            return self._over_runs(plan())

        self.provider.runs = self.runs
        try:
            frame = plan_again()
            optimized = frame.optimized_logical_plan()
            found = OverRuns(frame, optimized, plan_again)
            own = [each for each in logical_scans(optimized) if each.table == self.scan.table]
            # what is summed may be asked for besides, and so end runs
            if (
                len(own) == 1
                and self.is_over_runs(_asked(optimized, own[0]), summed=False)
                and frame.schema() == schema
            ):
                return found
        except Exception:  # noqa: BLE001 - whatever DataFusion does not take, the statement stands as it is
            pass
        self.provider.runs = None
        return None

    def _over_runs(self, frame: DataFrame) -> DataFrame:
        plan = frame.logical_plan()
        node = plan
        for number in self.way.path:
            node = node.inputs()[number]
        detail = variant(node)
        groups = [Expr(each) for each in detail.group_by_exprs()]
        below = carried(self.ctx, node.inputs()[0], self.way.down, self.runs.names)
        computed = [
            list(call.totals) or [Expr(unaliased(expr))]
            for call, expr in zip(self.calls, detail.aggregate_exprs(), strict=True)
        ]
        totals = [[f"total{n}_{m}" for m in range(len(each))] for n, each in enumerate(computed)]
        found = below.aggregate(
            groups,
            [
                expr.alias(total)
                for exprs, names in zip(computed, totals, strict=True)
                for expr, total in zip(exprs, names, strict=True)
            ],
        )
        keys = [Expr.column(str(column)) for column in columns_of(found, found.logical_plan())[: len(groups)]]
        results = [
            call.result([Expr.column(total) for total in own]).alias(name)
            for call, own, name in zip(self.calls, totals, plan_schema(detail)[len(groups) :], strict=True)
        ]
        return rebuilt(self.ctx, plan, (), {self.way.path: checked(found.select(*keys, *results), node)})


def _asked(plan: Any, scan: LogicalScan) -> list[str] | None:
    """Return the columns that a scan of an optimized plan returns; None for all."""
    for number in scan.path:
        plan = plan.inputs()[number]
    projection = variant(plan).projection()
    return None if projection is None else [name for _, name in projection]


def _fixes(condition: Any, keys: Collection[str]) -> bool:
    """Whether a condition wants one of some columns to have a value, or one of a few."""
    kind = condition.variant_name()
    if kind == "InList":
        operands = [condition.to_variant().expr()]
    elif kind == "BinaryExpr":
        operands, operator = condition.rex_call_operands(), condition.rex_call_operator()
        if operator in ("AND", "OR"):
            fixed = [_fixes(operand, keys) for operand in operands]
            return any(fixed) if operator == "AND" else all(fixed)
        if operator != "=":
            return False
    else:
        return False
    return any(
        operand.variant_name() == "Column" and operand.to_variant().name() in keys for operand in operands
    )
