"""A Lance table as DataFusion sees it: a `pyarrow.dataset.Dataset` of which DataFusion calls four methods.

Observed with DataFusion 51 to 55: planning a scan node calls ``scanner(columns, filter)`` and then, on the
same thread, ``get_fragments(filter)``; running partition ``i`` calls ``scanner(schema, columns, filter,
batch_size)`` of fragment ``i`` on a worker thread, and pulls its ``to_batches()``. A filter that arrives is
never checked again above the scan, and batches are not compared with the schema.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import field
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias
from weakref import WeakKeyDictionary

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset

from lance_df.cache import CacheKind, Entries, TableCache
from lance_df.compute.calls import check_process
from lance_df.engine.hints import scan_hint
from lance_df.engine.residual import ResidualFilter, as_datafusion
from lance_df.engine.work import WorkList
from lance_df.errors import LanceError
from lance_df.exits import stoppable
from lance_df.expr.from_pyarrow import to_predicate
from lance_df.expr.nodes import And, Literal, Predicate
from lance_df.expr.walk import has_unknown
from lance_df.forks import new_lock
from lance_df.interrupts import callback
from lance_df.namespace.kind import is_namespace
from lance_df.records import dataclass
from lance_df.scan.plan import ScanPlan
from lance_df.scan.request import ScanRequest
from lance_df.scan.run import num_cores, run_ahead, run_tasks
from lance_df.table.kept_task import keep_few_rows, plan_footprint
from lance_df.table.scan.plan import plan_scan
from lance_df.table.table import Table

if TYPE_CHECKING:
    from lance_df.engine.plan_walk import LogicalScan
    from lance_df.namespace.metadata.tables import MetadataTable
    from lance_df.namespace.snapshot import NamespaceSnapshot
    from lance_df.scan.plan import ScanTask
    from lance_df.table.run_aggregates import RunAggregates

    Scanned: TypeAlias = Table | NamespaceSnapshot | MetadataTable

_MAX_CACHED_PLANS = 16
# plans of tables of so many fragments at most are kept for other statements
_MAX_SHARED_FRAGMENTS = 1024
_COUNT_BATCH_ROWS = 1 << 20
# a partition of a table in a store mostly waits for answers
_FAR_TASKS = 4


class BatchFilter(Protocol):
    """What is left to filter after a scan."""

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows that are wanted."""
        ...


@dataclass(frozen=True, slots=True)
class PlannedScan:
    """A scan as it will run: the plan, what is left to filter and to aggregate, and the order of columns."""

    plan: ScanPlan
    residual: BatchFilter | None
    output: tuple[str, ...]
    counts_only: bool
    runs: RunAggregates | None = None

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns of a table that are returned."""
        own = () if self.runs is None else self.runs.names
        return tuple(name for name in self.output if name not in own)


@dataclass(slots=True)
class ScanCounters:
    """What the scans of one provider have done since it was made."""

    plans: int = 0
    tasks: int = 0
    batches: int = 0
    rows: int = 0
    _lock: threading.Lock = field(default_factory=new_lock, repr=False)

    def add(self, *, plans: int = 0, tasks: int = 0, batches: int = 0, rows: int = 0) -> None:
        with self._lock:
            self.plans += plans
            self.tasks += tasks
            self.batches += batches
            self.rows += rows


class LanceTableProvider(pyarrow.dataset.Dataset):  # type: ignore[misc]
    """One version of a table or namespace, for one statement or many.

    Parameters
    ----------
    table
        The version to scan.
    num_partitions
        Upper bound for the partitions of a scan; ``None`` for one per core.
    extra_columns
        Names of system columns or of struct fields that are columns too.
    fragment_ids, batch_rows, window_rows, use_statistics
        Handed to every scan, see `ScanRequest`.
    condition
        An expression that is applied beside what each scan is asked for.
    schema
        Of the scans, if that is known.
    in_turn
        Whether a single partition reads one task after the other, in the thread that asks for batches.
    true_column
        The name of a column that the schema then has at its end. It is TRUE in every row; conditions may name
        it, but it cannot be returned.

    Attributes
    ----------
    hint
        A condition that every row a statement can need fulfils; it prunes and is not applied.
    views
        Names of columns of strings that are string views in the schema, and in what scans return.
    extremes_only
        Whether statements need nothing but the extremes of columns over all rows.
    distinct
        Whether statements need equal rows once only.
    count_as
        The name of a column that the schema then has at its end: how many equal rows each row stands for.
    runs
        Columns that the schema then has at its end, of runs of equal rows; see `RunAggregates`.
    errors
        The `LanceError` objects that scans have raised; DataFusion keeps only their text.
    scans
        The plans of all scan nodes, in the order of planning.
    counters
        What has been read.
    num_partitions
        Upper bound for the partitions of the scans that are planned next.
    is_near
        Whether reading takes no waiting for a store.
    needs_all
        Whether all rows will be asked for, so that reading ahead is no waste.
    """

    def __init__(
        self,
        table: Scanned,
        *,
        num_partitions: int | None = None,
        extra_columns: tuple[str, ...] = (),
        fragment_ids: tuple[int, ...] | None = None,
        batch_rows: int | None = None,
        window_rows: int | None = None,
        use_statistics: bool = True,
        condition: pc.Expression | None = None,
        in_turn: bool = False,
        schema: pa.Schema | None = None,
        true_column: str | None = None,
    ) -> None:
        # The C++ dataset behind the base class is left unmade on purpose: nothing here uses it.
        self.table = table
        self.hint: Predicate | None = None
        self.extremes_only = False
        self.distinct = False
        self._views: frozenset[str] = frozenset()
        self._count_as: str | None = None
        self._runs: RunAggregates | None = None
        self.errors: list[LanceError] = []
        self.scans: list[ScanPlan] = []
        self.counters = ScanCounters()
        self.num_partitions = num_partitions or num_cores()
        self._template = ScanRequest(
            fragment_ids=fragment_ids,
            batch_rows=batch_rows,
            window_rows=window_rows,
            use_statistics=use_statistics,
        )
        self._schema = schema or _schema_of(table, (*table.arrow_schema.names, *extra_columns))
        self._true_column = true_column
        self._show()
        self._condition = condition
        self._sharing = _shares_plans(table) if condition is None else None
        # as they are now: a plan does not change while the scan that it is for learns more
        self._num_observed = 0 if self._sharing is None else self._sharing.shared.observed.bounds.num_observed
        # A single partition is how rows stay in order; its tasks run at once all the same.
        self._at_once = self.num_partitions == 1 and not in_turn
        place = getattr(table, "location", None) or getattr(table, "root", None)
        self.is_near = in_turn or place is None or place.is_local
        self.needs_all = False
        self._planned: Entries[PlannedScan] = TableCache(max_entries=_MAX_CACHED_PLANS).entries(
            CacheKind.PLANS
        )
        self._planning = threading.local()

    @property
    def stored_schema(self) -> pa.Schema:
        """The columns of the table."""
        return self._schema

    # DataFusion panics where this raises, so no Python code runs in which an interruption could be raised.
    schema = property(attrgetter("_shown_schema"))

    @property
    def views(self) -> frozenset[str]:
        return self._views

    @views.setter
    def views(self, names: frozenset[str]) -> None:
        self._views = names
        self._show()

    @property
    def count_as(self) -> str | None:
        return self._count_as

    @count_as.setter
    def count_as(self, name: str | None) -> None:
        self._count_as = name
        self._show()

    @property
    def runs(self) -> RunAggregates | None:
        return self._runs

    @runs.setter
    def runs(self, runs: RunAggregates | None) -> None:
        self._runs = runs
        self._show()

    def _show(self) -> None:
        schema = with_views(self._schema, self._views) if self._views else self._schema
        if self._runs is not None:
            schema = pa.schema([*schema, *self._runs.fields], schema.metadata)
        elif self._count_as is not None:
            schema = schema.append(pa.field(self._count_as, pa.int64(), nullable=False))
        if self._true_column is not None:
            schema = schema.append(pa.field(self._true_column, pa.bool_()))
        self._shown_schema = schema

    @property
    def strings(self) -> frozenset[str]:
        """The columns that could be views."""
        return frozenset(field.name for field in self._schema if field.type == pa.string())

    def hint_of(self, scans: list[LogicalScan]) -> Predicate | None:
        """Return what the plan of a statement says about the rows that its scans of this table need."""
        return scan_hint(scans, self._schema, with_terms=is_namespace(self.table))

    @callback()
    def scanner(
        self,
        columns: list[str] | None = None,
        filter: pc.Expression | None = None,  # noqa: A002, ARG002 - DataFusion's name
        **_: Any,
    ) -> _Scan:
        """Answer the planner, which reads only the schema."""
        self._planning.columns = None if columns is None else tuple(columns)
        return _Scan(_projected(self.schema, columns), iter)

    @callback()
    def get_fragments(
        self,
        filter: pc.Expression | None = None,  # noqa: A002 - DataFusion's name
        num_partitions: int | None = None,
    ) -> list[_Partition]:
        """Plan the scan and return its partitions, never none: DataFusion cannot sort zero partitions.

        Parameters
        ----------
        num_partitions
            Upper bound for them; ``None`` for that of the provider.
        """
        # The columns come from the call of scanner() before; were they wrong, only the number of partitions
        # would be less apt, because partitions look up the plan by the columns they are given.
        check_process()  # contexts of others have no other check
        columns = getattr(self._planning, "columns", None)
        planned = self._plan(columns, filter)
        self.scans.append(planned.plan)
        most = min(num_partitions or self.num_partitions, len(planned.plan.tasks))
        work = WorkList()
        return [_Partition(self, number, work) for number in range(max(1, most))]

    def _plan(self, columns: tuple[str, ...] | None, expression: pc.Expression | None) -> PlannedScan:
        output = tuple(self.schema.names) if columns is None else columns
        asked = (self.views, self.extremes_only, self.distinct, self.count_as, self.runs)
        own = (output, _fingerprint(expression), *asked)
        kept, others = self._kept_plans()
        try:
            return kept.get(
                (*own, *others),
                lambda: self._plan_anew(output, expression),
                lambda planned: plan_footprint(planned.plan),
            )
        except LanceError as err:
            self.errors.append(err)
            raise

    def _kept_plans(self) -> tuple[Entries[PlannedScan], tuple[object, ...]]:
        """Return where plans are kept, and what tells them apart there beside what a scan is asked for."""
        if self._sharing is not None:
            key = (self._template, self.hint, self._num_observed)
            try:
                hash(key)
            except TypeError:  # it holds a list of values
                pass
            else:
                return self._sharing.scan_plans, key
        return self._planned, (id(self.hint),)

    def _plan_anew(self, output: tuple[str, ...], expression: pc.Expression | None) -> PlannedScan:
        if self._condition is not None:
            expression = self._condition if expression is None else expression & self._condition
        condition = None if expression is None else self._predicate(expression)
        runs = None if self.runs is None else self.runs.among(output)
        stored = output if runs is None else runs.stored(output)
        predicate, hint, residual, wanted = condition, self.hint, None, stored
        if condition is not None and has_unknown(condition):
            predicate, residual = None, ResidualFilter(expression, true_column=self._true_column)
            hint = condition if hint is None else And((hint, condition))
            wanted = (*stored, *sorted(residual.columns.difference(stored)))
        elif isinstance(condition, Literal):
            predicate = None if condition.value is True else Literal(False)
        is_counted = self.count_as in wanted
        request = dataclasses.replace(
            self._template,
            columns=tuple(name for name in wanted if name != self.count_as) if is_counted else wanted,
            predicate=predicate,
            hint=hint,
            # what is left to filter is compared as plain strings
            views=self.views if residual is None else frozenset(),
            extremes_only=self.extremes_only and expression is None,
            distinct=self.distinct,
            count_as=self.count_as if is_counted else None,
        )
        plan = _planned(self.table, request)
        if self._sharing is not None:
            plan = keep_few_rows(plan)
        self.counters.add(plans=1)
        counts_only = not output and residual is None and predicate is None
        return PlannedScan(plan, residual, output, counts_only, runs)

    def _predicate(self, expression: pc.Expression) -> Predicate:
        return as_datafusion(to_predicate(expression, self._schema, true_column=self._true_column))

    def _read(
        self, planned: PlannedScan, schema: pa.Schema, partition: int, work: WorkList
    ) -> Iterator[pa.RecordBatch]:
        batches = stoppable(self._batches(planned, schema, partition, work))
        try:
            while True:
                with callback():
                    batch = next(batches, None)
                if batch is None:
                    return
                self.counters.add(batches=1, rows=batch.num_rows)
                yield batch
        except LanceError as err:
            self.errors.append(err)
            raise
        finally:
            batches.close()

    def _batches(
        self, planned: PlannedScan, schema: pa.Schema, partition: int, work: WorkList
    ) -> Generator[pa.RecordBatch]:
        tasks = self._counted(work.start(partition, planned.plan.tasks))
        if planned.counts_only:
            for task in tasks:
                yield from _row_counts(task.num_rows)
            return
        found = planned.plan.schema
        is_as_promised = tuple(found.names) == planned.output and found.equals(schema, check_metadata=True)
        with closing(self._run(tasks)) as batches:
            for batch in batches:
                kept = batch if planned.residual is None else planned.residual.apply(batch)
                if planned.runs is not None:
                    kept = planned.runs.apply(kept, planned.keys)
                if kept.num_rows:
                    yield kept if is_as_promised else _conform(kept, planned.output, schema)

    def _run(self, tasks: Iterator[ScanTask]) -> Generator[pa.RecordBatch]:
        if self._at_once:
            return run_tasks(list(tasks))
        return _in_turn(tasks) if self.is_near or not self.needs_all else run_ahead(tasks, _FAR_TASKS)

    def _counted(self, tasks: Iterator[ScanTask]) -> Iterator[ScanTask]:
        for task in tasks:
            self.counters.add(tasks=1)
            yield task


def _shares_plans(table: Scanned) -> Table | None:
    """Return a table of which plans are kept for other statements; None for what plans in another way."""
    if isinstance(table, Table) and type(table) is Table and len(table.fragments) <= _MAX_SHARED_FRAGMENTS:
        return table
    return None


def _planned(table: Scanned, request: ScanRequest) -> ScanPlan:
    return plan_scan(table, request) if isinstance(table, Table) else table.plan_scan(request)


# A version of a table is mostly asked by many statements.
_schemas: WeakKeyDictionary[Scanned, dict[tuple[str, ...], pa.Schema]] = WeakKeyDictionary()


def _schema_of(table: Scanned, columns: tuple[str, ...]) -> pa.Schema:
    known = _schemas.setdefault(table, {})
    if columns not in known:
        nothing = ScanRequest(columns=columns, predicate=Literal(False))
        known[columns] = _planned(table, nothing).schema
    return known[columns]


def _in_turn(tasks: Iterator[ScanTask]) -> Generator[pa.RecordBatch]:
    for task in tasks:
        yield from task.read()


class _Partition:
    """One partition of one scan node: what DataFusion calls a fragment."""

    def __init__(self, provider: LanceTableProvider, number: int, work: WorkList) -> None:
        self._provider = provider
        self._number = number
        self._work = work

    @callback()
    def scanner(
        self,
        schema: pa.Schema,  # noqa: ARG002 - DataFusion's signature
        columns: list[str] | None = None,
        filter: pc.Expression | None = None,  # noqa: A002
        batch_size: int | None = None,  # noqa: ARG002 - small batches cost more than they save
    ) -> _Scan:
        provider = self._provider
        planned = provider._plan(None if columns is None else tuple(columns), filter)
        projected = _projected(provider.schema, columns)
        return _Scan(projected, lambda: provider._read(planned, projected, self._number, self._work))


class _Scan:
    def __init__(self, schema: pa.Schema, read: Any) -> None:
        self.projected_schema = schema
        self.to_batches = read


def with_views(schema: pa.Schema, names: frozenset[str]) -> pa.Schema:
    """Return the schema with string views for some columns."""
    fields = [field.with_type(pa.string_view()) if field.name in names else field for field in schema]
    return pa.schema(fields, schema.metadata)


def _projected(schema: pa.Schema, columns: list[str] | None) -> pa.Schema:
    if columns is None:
        return schema
    return pa.schema([schema.field(name) for name in columns], schema.metadata)


def _fingerprint(expression: pc.Expression | pa.Scalar | bool | None) -> object:
    return (
        expression.__reduce__()[1][0].to_pybytes()
        if isinstance(expression, pc.Expression)
        else repr(expression)
    )


def _row_counts(num_rows: int) -> Iterator[pa.RecordBatch]:
    """Yield batches without columns; small ones, because DataFusion may take a batch apart by rows."""
    for start in range(0, num_rows, _COUNT_BATCH_ROWS):
        size = min(_COUNT_BATCH_ROWS, num_rows - start)
        yield pa.record_batch([pa.nulls(size)], ["rows"]).select([])


def _conform(batch: pa.RecordBatch, output: tuple[str, ...], schema: pa.Schema) -> pa.RecordBatch:
    """Return exactly the columns and types that were promised."""
    if tuple(batch.schema.names) != output:
        batch = batch.select(list(output))
    if not output or batch.schema.equals(schema, check_metadata=True):
        return batch
    columns = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
