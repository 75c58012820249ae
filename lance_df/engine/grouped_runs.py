"""Groups of tables whose rows come in runs: the scan counts and adds up the rows of a run.

Where rows of one order, user or day lie next to each other, what groups them, or joins and groups them, takes
most of its time for rows that differ in nothing but what is added up. Then the scan returns runs of rows that
are equal in all that is asked for, each with the number of its rows and sums over them (see
`lance_df.table.run_aggregates`), and the aggregate adds these up: ``count(*)`` becomes the sum of the
numbers, ``sum`` that of the sums, and of columns of other tables that of their values times the numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from lance_df.compute.compat import DataFrame, Expr, PlainSessionContext, functions, plan_schema, variant
from lance_df.engine.join_sizes import told_rows
from lance_df.engine.plan_rebuild import Path, carried, checked, columns_of, rebuilt
from lance_df.engine.plan_walk import LogicalScan, logical_scans
from lance_df.namespace.kind import is_namespace
from lance_df.records import dataclass
from lance_df.sql.splice import quote_identifier
from lance_df.table.run_aggregates import RunAggregates, RunSum, are_compared, look_at_runs, summed_type
from lance_df.table.table import Table

if TYPE_CHECKING:
    from lance_df.engine.provider import LanceTableProvider
    from lance_df.engine.statement import Statement

# for fewer rows, to plan a statement anew takes longer than runs save
_WORTH_ROWS: Final = 200_000
_WORTH_RUN_ROWS: Final = 1.5
# a run is all or nothing to what gives something else for each row
_VOLATILE: Final = ("random(", "uuid(")
_COUNTS_ROWS: Final = re.compile(r"count\((\*|U?Int\d+\(\d+\))\)")
# they give the same however often a row is there
_OF_VALUES: Final = frozenset({"bit_and", "bit_or", "bool_and", "bool_or", "max", "min"})
_MODIFIERS: Final = (" FILTER (WHERE ", " ORDER BY [", " IGNORE NULLS", " RESPECT NULLS")
# the inputs of a join that have each row as often as the other side matches it
_SIDES: Final[Mapping[str, tuple[int, ...]]] = {
    "Inner": (0, 1),
    "Left": (0,),
    "Right": (1,),
    "LeftSemi": (0,),
    "RightSemi": (1,),
    "LeftAnti": (0,),
    "RightAnti": (1,),
}
_MAX_FACTOR_DIGITS: Final = 18
_AVERAGED: Final = (
    *(pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16(), pa.uint32()),
    *(pa.float32(), pa.float64()),
)


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
    way: _Way
    calls: tuple[_Call, ...]

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
        way = _Way.of(frame.logical_plan(), scan.table)
        if way is None:
            return None
        detail = variant(way.node)
        groups, exprs = detail.group_by_exprs(), detail.aggregate_exprs()
        # one group of all rows takes as long as to find runs
        if not groups or any(each.variant_name() == "GroupingSet" for each in groups):
            return None
        if "<subquery>" in way.node.display() or not all(map(_may_add_up, exprs)):
            return None
        (below,) = way.node.inputs()
        types = ctx.create_dataframe_from_logical_plan(below).schema()
        columns = _Columns(
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
        table = self.provider.table
        if isinstance(table, Table):
            sample: Table | None = table
        else:
            sample = table.first_member(self.provider.hint) if is_namespace(table) else None
        if sample is None or not all(name in sample.arrow_schema.names for name in keys):
            return False
        return look_at_runs(sample, keys) >= _WORTH_RUN_ROWS

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
            list(call.totals) or [Expr(_unaliased(expr))]
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


@dataclass(frozen=True, slots=True)
class _Call:
    """What is computed over runs for an aggregate: ``totals``, or without any the aggregate itself."""

    data_type: pa.DataType
    totals: tuple[Expr, ...] = ()
    is_count: bool = False

    def result(self, totals: Sequence[Expr]) -> Expr:
        """Return what the aggregate gives."""
        first, *others = totals
        if self.is_count:
            return functions.coalesce(first, Expr.literal(0))
        for number in others:
            first = first.cast(pa.float64()) / number.cast(pa.float64())
        return first.cast(self.data_type) if self.totals else first


class _Columns:
    """The columns below an aggregate, by the names that it has for them.

    Parameters
    ----------
    own, known
        Those of the table that returns runs, and all.
    names
        That new columns must not have.
    """

    def __init__(
        self, own: Mapping[str, pa.Field], known: Mapping[str, pa.Field], names: Collection[str]
    ) -> None:
        self._own = own
        self._known = known
        self._names = names
        self._count_as = self._free_name("_run_rows")
        self._sums: dict[str, RunSum] = {}

    @property
    def runs(self) -> RunAggregates:
        """What the scan has to return."""
        return RunAggregates(self._count_as, tuple(self._sums.values()))

    def call(self, expr: Any, data_type: pa.DataType) -> _Call | None:
        """Return what an aggregate of a type becomes; None if it cannot be made of runs."""
        inner = _unaliased(expr)
        name = inner.schema_name()
        if _COUNTS_ROWS.fullmatch(name):
            return _Call(data_type, (functions.sum(self._rows),), is_count=True)
        function, _, arguments = name.partition("(")
        if function in _OF_VALUES or arguments.startswith("DISTINCT "):
            return _Call(data_type)
        operands = inner.rex_call_operands()
        if len(operands) != 1 or operands[0].variant_name() != "Column":
            return None
        (operand,) = operands
        match function:
            case "count":
                return _Call(data_type, (self._count(operand),), is_count=True)
            case "sum" if (total := self._sum(operand)) is not None:
                return _Call(data_type, (total,))
            case "avg" if self._is_averaged(operand) and (total := self._sum(operand)) is not None:
                return _Call(data_type, (total, self._count(operand)))
        return None

    def _count(self, operand: Any) -> Expr:
        """Return the number of values of a column that are not NULL."""
        field = self._own.get(_column_name(operand))
        if field is not None and summed_type(field.type) is not None:
            return self._added_up(field, pa.int64(), counts=True)
        return functions.sum(functions.when(Expr(operand).is_null(), Expr.literal(0)).otherwise(self._rows))

    def _sum(self, operand: Any) -> Expr | None:
        """Return the sum of a column; None of what has none."""
        name = _column_name(operand)
        if (field := self._own.get(name)) is not None:
            kind = summed_type(field.type)
            return None if kind is None else self._added_up(field, kind)
        kind = None if (field := self._known.get(name)) is None else field.type
        # a float times a number is no sum of as many
        is_exact = kind is not None and (
            pa.types.is_signed_integer(kind)
            or (pa.types.is_decimal128(kind) and kind.precision <= _MAX_FACTOR_DIGITS)
        )
        return functions.sum(Expr(operand) * self._rows) if is_exact else None

    def _is_averaged(self, operand: Any) -> bool:
        """Whether DataFusion divides a sum of floats, which is as exact where it is one of integers."""
        field = self._known.get(_column_name(operand))
        return field is not None and field.type in _AVERAGED

    def _added_up(self, field: pa.Field, data_type: pa.DataType, *, counts: bool = False) -> Expr:
        name = self._free_name(f"_run_{'count' if counts else 'sum'}_of_{field.name}")
        self._sums.setdefault(name, RunSum(field.name, name, data_type, counts))
        return functions.sum(Expr.column(quote_identifier(name)))

    @property
    def _rows(self) -> Expr:
        return Expr.column(quote_identifier(self._count_as))

    def _free_name(self, name: str) -> str:
        while name in self._names:
            name += "_"
        return name


def _may_add_up(expr: Any) -> bool:
    inner = _unaliased(expr)
    if inner.variant_name() != "AggregateFunction":
        return False
    name = inner.schema_name()
    return not any(modifier in name for modifier in _MODIFIERS)


@dataclass(frozen=True, slots=True)
class _Way:
    """The way from an aggregate down to the only scan of a table.

    Attributes
    ----------
    path
        To the aggregate, from the root of a plan.
    down
        From the input of the aggregate to the scan.
    columns
        The columns of the table that the aggregate sees: places in the table's schema, by the names there.
    """

    path: Path
    node: Any
    down: Path
    columns: Mapping[str, int]

    @classmethod
    def of(cls, plan: Any, table: tuple[str | None, str]) -> _Way | None:
        """Return the way from the lowest aggregate; None if there is more on it than what treats rows alike.

        That is filters, projections, and joins that have a row as often as the other side matches it.
        """
        paths = list(_paths(plan, table))
        if len(paths) != 1:
            return None
        (path,) = paths
        nodes = [plan]
        for number in path:
            nodes.append(nodes[-1].inputs()[number])
        columns = {name: place for place, name in enumerate(plan_schema(variant(nodes[-1])))}
        for depth in range(len(path) - 1, -1, -1):
            detail = variant(nodes[depth])
            match type(detail).__name__:
                case "Aggregate":
                    return cls(path[:depth], nodes[depth], path[depth + 1 :], columns)
                case "SubqueryAlias":
                    below = plan_schema(variant(nodes[depth + 1]))
                    columns = _renamed(columns, zip(below, plan_schema(detail), strict=True))
                case "Projection":
                    names = map(_column_name, detail.projections())
                    columns = _renamed(columns, zip(names, plan_schema(detail), strict=True))
                case "Filter":
                    pass
                case "Join" if path[depth] in _SIDES.get(str(detail.join_type()), ()):
                    pass
                case _:
                    return None
        return None


def _renamed(columns: Mapping[str, int], names: Iterable[tuple[str, str]]) -> dict[str, int]:
    return {new: columns[name] for name, new in names if name in columns}


def _column_name(expr: Any) -> str:
    inner = _unaliased(expr)
    return str(inner.to_variant().qualified_name()) if inner.variant_name() == "Column" else ""


def _paths(plan: Any, table: tuple[str | None, str]) -> Iterator[Path]:
    """Yield the paths to scans of a table."""
    pending: list[tuple[Any, Path]] = [(plan, ())]
    while pending:
        node, path = pending.pop()
        inputs = node.inputs()
        if not inputs and "TableScan: " in node.display() and variant(node).fqn()[1:] == table:
            yield path
        pending += [(child, (*path, number)) for number, child in enumerate(inputs)]


def _asked(plan: Any, scan: LogicalScan) -> list[str] | None:
    """Return the columns that a scan of an optimized plan returns; None for all."""
    for number in scan.path:
        plan = plan.inputs()[number]
    projection = variant(plan).projection()
    return None if projection is None else [name for _, name in projection]


def _unaliased(expr: Any) -> Any:
    return expr.to_variant().expr() if expr.variant_name() == "Alias" else expr
