"""Let a scan return partial aggregates if the statement can merge them.

Three kinds of statements do not need single rows. For statements that only need extremes of columns over all
rows, a scan returns the extremes of slices of rows. For statements that group strings that are stored as
dictionaries, and at most count rows, it returns the groups of each window. If rows with equal keys are stored
next to each other, such as the items of an order, it returns runs of rows that are equal in all requested
columns, with their number and sums. The aggregate then merges these results: ``count(*)`` becomes the sum of
the numbers, ``sum`` the sum of the sums, and a sum of a column of another table the sum of its values times
the numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from lance_df.compute.compat import DataFrame, Expr
from lance_df.compute.expressions import (
    VOLATILE_FUNCTIONS,
    aggregate_call,
    column_name,
    operator_of,
    unaliased,
)
from lance_df.engine.optimizer.aggregate_path import AggregatePath
from lance_df.engine.optimizer.merged_calls import MergedCall, MergedColumns, is_mergeable
from lance_df.engine.optimizer.planned import Context, DoesNotApplyError, Planned, PlannedFrame
from lance_df.engine.plans.nodes import (
    Aggregate,
    PlanNode,
    Projection,
    Scan,
    SubqueryAlias,
    frame_of,
    plan_of,
)
from lance_df.engine.plans.rebuild import carried, checked, columns_of, numbered_name, rebuilt
from lance_df.engine.plans.walks import chain, may_call, node_at
from lance_df.errors import LanceError
from lance_df.records import dataclass
from lance_df.scan.request import AggregateCall, AggregateFunction, PartialAggregate
from lance_df.scan.runs import are_compared

if TYPE_CHECKING:
    from lance_df.engine.plans.logical_scans import LogicalScan
    from lance_df.engine.statement import PlannedTable

EXTREMES: Final = frozenset({"max", "min"})
# for fewer rows, planning a statement again takes longer than it saves
_WORTH_GROUPED_ROWS: Final = 100_000
_WORTH_ROWS: Final = 200_000
_WORTH_MEMBER_ROWS: Final = 4096
_WORTH_RUN_ROWS: Final = 1.5


def partial_aggregate(planned: Planned, context: Context) -> Planned | None:
    """Let scans return partial aggregates if this takes less time."""
    return _of_extremes(planned) or _of_groups(planned, context) or _of_runs(planned, context)


def _of_extremes(planned: Planned) -> Planned | None:
    """Let the only scan return the extremes of its columns, if the statement needs nothing else from it."""
    if len(planned.scans) != 1 or planned.scans[0].pushed or planned.scans[0].above:
        return None
    nodes = chain(planned.optimized, planned.scans[0].path)
    if not all(len(node.inputs) == 1 for node in nodes[:-1]) or not isinstance(nodes[-1], Scan):
        return None
    depths = [depth for depth, node in enumerate(nodes) if isinstance(node, Aggregate)]
    if len(depths) != 1 or nodes[-1].fetch is not None:
        return None
    aggregate = nodes[depths[0]]
    assert isinstance(aggregate, Aggregate)
    if aggregate.groups or not all(map(_is_extreme, aggregate.aggregates)):
        return None
    if not all(
        isinstance(node, SubqueryAlias) or (isinstance(node, Projection) and node.computes_nothing)
        for node in nodes[depths[0] + 1 : -1]
    ):
        return None
    columns = nodes[-1].projection
    for _, table in planned.lone_scans():
        calls = tuple(
            AggregateCall(AggregateFunction.EXTREMES, name, name, table.stored_schema.field(name).type)
            for name in columns
        )
        return _with_output(planned, table, PartialAggregate((), calls))
    return None


def _is_extreme(expr: Any) -> bool:
    call = aggregate_call(expr)
    return (
        call is not None
        and call.function in EXTREMES
        and call.is_plain
        and all(argument.variant_name() == "Column" for argument in call.arguments)
    )


def _with_output(planned: Planned, table: PlannedTable, output: PartialAggregate) -> Planned:
    scan = table.scan.requesting(output=output)
    tables = planned.requesting({table.key: scan})
    return planned.replanned(planned.frame, planned.optimized, tables=tables, is_final=True)


def _of_groups(planned: Planned, context: Context) -> Planned | None:
    """Let the only scan group strings that are stored as dictionaries, and count the rows of each group."""
    # with a filter, there may be few rows in each window, which are grouped faster as views
    if len(planned.scans) != 1 or planned.scans[0].above or planned.scans[0].pushed:
        return None
    nodes = chain(planned.optimized, planned.scans[0].path)
    scan = nodes[-1]
    if not isinstance(scan, Scan) or scan.fetch is not None:
        return None
    lowest = next((node for node in reversed(nodes[:-1]) if not isinstance(node, SubqueryAlias)), None)
    if not isinstance(lowest, Aggregate):
        return None
    names = [column_name(expr) for expr in lowest.groups]
    keys = frozenset(name for name in names if name is not None)
    calls = lowest.calls
    if not names or None in names or not all(call is not None and call.counts_rows for call in calls):
        return None
    for logical, table in planned.lone_scans():
        if not _has_dictionaries(table, keys):
            continue
        if not calls:
            return _with_output(planned, table, PartialAggregate(tuple(table.stored_schema.names)))
        aggregate = _Aggregate.of(planned, context, logical, table)
        merged = None if aggregate is None else aggregate.merged(planned)
        return None if merged is None else merged.replanned(merged.frame, merged.optimized, is_final=True)
    return None


def _has_dictionaries(table: PlannedTable, keys: Collection[str]) -> bool:
    """Whether the keys are strings of a large table that are stored as dictionaries."""
    schema, source = table.stored_schema, table.scan.source
    if not source.is_local or not all(schema.field(key).type == pa.string() for key in keys):
        return False
    rows = table.estimated_rows()
    if rows is not None and rows < _WORTH_GROUPED_ROWS:
        return False
    sample = source.sample(table.scan.request.pruning_predicate)
    strings = None if sample is None else sample.strings(sorted(keys))
    return strings is not None and strings.dictionaries.issuperset(keys)


def _of_runs(planned: Planned, context: Context) -> Planned | None:
    """Let the scan of a large table return runs of rows."""
    if not any(node.groups for node in planned.aggregates):
        return None
    if may_call(planned.optimized, VOLATILE_FUNCTIONS.union(context.registered)):
        return None  # they return another value for each row of a run
    for scan, table in _large_first(planned):
        aggregate = _Aggregate.of(planned, context, scan, table)
        if aggregate is None or not aggregate.has_runs(_projection(planned.optimized, scan)):
            continue
        merged = aggregate.merged(planned)
        if merged is None:
            return None
        scans = [each for each in merged.scans if each.table == scan.table]
        # the statement may also use summed columns elsewhere; their values then end runs
        if len(scans) != 1 or not aggregate.has_runs(
            _projection(merged.optimized, scans[0]), keys_are_summed=False
        ):
            return None
        return merged
    return None


def _large_first(planned: Planned) -> Iterator[tuple[LogicalScan, PlannedTable]]:
    """Yield local tables that are scanned exactly once and may be large, the largest first."""
    known = []
    for scan, table in planned.lone_scans():
        rows = table.estimated_rows() if table.scan.source.is_local else 0
        known.append((_WORTH_ROWS if rows is None else rows, scan, table))
    for rows, scan, table in sorted(known, key=lambda each: -each[0]):
        if rows >= _WORTH_ROWS:
            yield scan, table


@dataclass(frozen=True, slots=True)
class _Aggregate:
    """The lowest aggregate above a scan, which can merge partial aggregates of the scan."""

    context: Context
    scan: LogicalScan
    table: PlannedTable
    output: PartialAggregate
    path: AggregatePath
    calls: tuple[MergedCall, ...]

    @classmethod
    def of(
        cls, planned: Planned, context: Context, scan: LogicalScan, table: PlannedTable
    ) -> _Aggregate | None:
        """Return the aggregate; None if it cannot merge what the scan would return."""
        plan = plan_of(planned.frame)
        path = AggregatePath.of(plan, scan.table)
        if path is None:
            return None
        node = path.node
        # a single group of all rows takes as long as finding runs
        if not node.groups or node.has_grouping_sets or node.has_subquery:
            return None
        if not all(map(is_mergeable, node.aggregates)):
            return None
        (below,) = node.inputs
        types = frame_of(context.session, below).schema()
        columns = MergedColumns(
            {name: table.stored_schema.field(index) for name, index in path.columns.items()},
            dict(zip(below.columns, types, strict=True)),
            _names_below(path, planned),
        )
        results = list(frame_of(context.session, node).schema())
        calls = [
            columns.call(expr, field.type)
            for expr, field in zip(node.aggregates, results[len(node.groups) :], strict=True)
        ]
        known = tuple(call for call in calls if call is not None)
        if len(known) < len(calls):
            return None
        output = PartialAggregate(tuple(table.stored_schema.names), columns.calls)
        return cls(context, scan, table, output, path, known)

    def has_runs(self, columns: Sequence[str] | None, *, keys_are_summed: bool = True) -> bool:
        """Whether the rows of a table, or of the first member of a namespace, are stored in runs.

        Parameters
        ----------
        columns
            The columns that the scan returns; None for all columns.
        keys_are_summed
            Whether summed columns are only in ``columns`` because they are summed.
        """
        calls = self.output.calls
        apart = {call.column for call in calls} if keys_are_summed else {call.name for call in calls}
        keys = sorted(name for name in columns or () if name not in apart)
        schema = self.table.stored_schema
        if not keys or not all(are_compared(schema.field(name).type) for name in keys):
            return False
        if any(_fixes(scoped.expr, keys) for scoped in self.scan.pushed):
            return False  # few rows remain; reading them takes less time than planning for them
        source = self.table.scan.source
        sample = source.sample(self.table.scan.request.pruning_predicate)
        # small members of a namespace are scanned separately
        if sample is None or (sample.num_rows is not None and sample.num_rows < _WORTH_MEMBER_ROWS):
            return False
        return sample.rows_per_run(keys) >= _WORTH_RUN_ROWS

    def merged(self, planned: Planned) -> Planned | None:
        """Return the statement over partial aggregates; None if its result would have other columns."""
        scan = self.table.scan.requesting(output=self.output)
        tables = planned.requesting({self.table.key: scan})

        def plan(others: Any) -> PlannedFrame:
            try:
                rows = planned.plan(others)
            except LanceError:
                raise
            except Exception as err:  # DataFusion raises no specific exception
                # wildcards and lists of column names cover the added columns too
                raise DoesNotApplyError(f"it cannot be planned with more columns of a table: {err}") from err
            return PlannedFrame(self._merged(rows.frame), rows.table_slots)

        replanned = plan(tables)
        if replanned.frame.schema() != planned.frame.schema():
            return None
        return planned.replanned(
            replanned.frame, tables=tables, table_slots=replanned.table_slots, plan=plan, over_runs=True
        )

    def _merged(self, frame: DataFrame) -> DataFrame:
        plan, session = plan_of(frame), self.context.session
        node = node_at(plan, self.path.path)
        assert isinstance(node, Aggregate)
        groups = [Expr(each) for each in node.groups]
        names = [call.name for call in self.output.calls]
        below = carried(session, node.inputs[0], self.path.down, names)
        computed = [
            list(call.totals) or [Expr(unaliased(expr))]
            for call, expr in zip(self.calls, node.aggregates, strict=True)
        ]
        totals = [
            [f"{numbered_name(number)}_{part}" for part in range(len(each))]
            for number, each in enumerate(computed)
        ]
        summed = below.aggregate(
            groups,
            [
                expr.alias(total)
                for exprs, named in zip(computed, totals, strict=True)
                for expr, total in zip(exprs, named, strict=True)
            ],
        )
        keys = [Expr.column(str(column)) for column in columns_of(summed)[: len(groups)]]
        results = [
            call.result([Expr.column(total) for total in parts]).alias(name)
            for call, parts, name in zip(self.calls, totals, node.columns[len(groups) :], strict=True)
        ]
        merged = checked(summed.select(*keys, *results), node)
        return rebuilt(session, plan, (), {self.path.path: merged})


def _names_below(path: AggregatePath, planned: Planned) -> set[str]:
    """Return the column names between the scan and the aggregate, and those of all tables."""
    names = {name for each in planned.tables.values() for name in each.stored_schema.names}
    for node in chain(path.node.inputs[0], path.down):
        for column in node.columns:
            names |= {column, column.rpartition(".")[2]}
    return names


def _projection(plan: PlanNode, scan: LogicalScan) -> list[str]:
    """Return the columns that a scan of an optimized plan returns."""
    node = node_at(plan, scan.path)
    return node.projection if isinstance(node, Scan) else []


def _fixes(condition: Any, keys: Collection[str]) -> bool:
    """Whether a condition restricts one of some columns to one value or a few values."""
    if condition.variant_name() == "InList":
        operands = [condition.to_variant().expr()]
    else:
        operator = operator_of(condition)
        operands = condition.rex_call_operands() if operator in ("AND", "OR", "=") else []
        if operator in ("AND", "OR"):
            fixed = [_fixes(operand, keys) for operand in operands]
            return any(fixed) if operator == "AND" else all(fixed)
    return any(
        operand.variant_name() == "Column" and operand.to_variant().name() in keys for operand in operands
    )
