"""A Lance table for DataFusion: a `pyarrow.dataset.Dataset`, of which DataFusion calls four methods.

Observed with DataFusion 51 to 55: to plan a scan node, it calls ``scanner(columns, filter)`` and then, on the
same thread, ``get_fragments(filter)``. To run partition ``i``, it calls ``scanner(schema, columns, filter,
batch_size)`` of fragment ``i`` on a worker thread, and consumes its ``to_batches()``. DataFusion neither
applies a pushed filter again above the scan nor compares batches with the schema.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, nullcontext
from dataclasses import FrozenInstanceError, field
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset

from lance_df.cache import CacheKind, Entries, TableCache
from lance_df.compute.calls import check_process
from lance_df.engine.pruning.residual import ResidualFilter, as_datafusion
from lance_df.errors import LanceError
from lance_df.exits import stoppable
from lance_df.expr.expression_tokens import has_tokens, serialized
from lance_df.expr.from_pyarrow import to_predicate
from lance_df.expr.literals import may_give_json
from lance_df.expr.nodes import And, Literal, Predicate
from lance_df.expr.walk import has_unknown
from lance_df.forks import new_lock
from lance_df.interrupts import callback
from lance_df.records import dataclass, replace
from lance_df.scan.request import PartialAggregate, Rows, ScanRequest
from lance_df.scan.run import num_cores, run_ahead, run_in_turn, run_tasks
from lance_df.table.reading.batches import count_batch

if TYPE_CHECKING:
    from lance_df.engine.join_keys import JoinFilter
    from lance_df.scan.aggregate import PartialAggregator
    from lance_df.scan.plan import ScanPlan, ScanTask
    from lance_df.scan.source import Scannable

_MAX_CACHED_PLANS: Final = 16
_COLUMN_BYTES: Final = 256  # for a column of a schema, and its name
_COUNT_BATCH_ROWS: Final = 1 << 20
# for a small predicate; a larger one takes about twice the size of its expression
_PREDICATE_BYTES: Final = 1024
# partitions of a table in a remote store mostly wait for responses
_REMOTE_TASKS: Final = 4


class RowFilter(Protocol):
    """A filter on the rows of batches that is not part of the scan's request.

    Attributes
    ----------
    columns
        The top-level columns that the filter reads.
    """

    @property
    def columns(self) -> set[str]: ...

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows that pass the filter."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceScan:
    """The request that the scans of one table of a statement make, and how their tasks run.

    Attributes
    ----------
    source
        The table, namespace or metadata table to scan.
    request
        What every scan requests in addition to the columns and the predicate from DataFusion. ``columns`` are
        the columns of the table, ``None`` for all stored ones. ``output`` is the output that the table
        offers: with a `PartialAggregate`, the table also has the results of its calls as columns, and scans
        that return none of these return rows.
    num_partitions
        The maximum number of partitions of a scan; ``None`` for one per core.
    in_turn
        Whether a single partition reads its tasks one after the other, in the thread that requests batches.
    reads_ahead
        Whether tasks in a store are read ahead, because the consumer will request all rows.
    condition
        An expression that is applied in addition to the filter of each scan.
    join_filters
        Conditions on the rows that are needed. They are only known when a scan runs.
    """

    source: Scannable
    request: ScanRequest = ScanRequest()
    num_partitions: int | None = None
    in_turn: bool = False
    reads_ahead: bool = False
    condition: pc.Expression | None = None
    join_filters: tuple[JoinFilter, ...] = ()

    def requesting(self, **changes: Any) -> SourceScan:
        """Return a copy with a changed request."""
        return replace(self, request=replace(self.request, **changes))


@dataclass(frozen=True, slots=True)
class PlannedScan:
    """A scan that is ready to run.

    Attributes
    ----------
    plan
        The plan of the scan.
    filters
        Filters that are applied to the batches of the plan.
    aggregator
        Applied after the filters, to the ``aggregated`` columns; None if the plan aggregates or rows are
        returned.
    output
        The names of the columns that are returned.
    counts_only
        Whether only the number of rows is returned.
    """

    plan: ScanPlan
    output: tuple[str, ...]
    counts_only: bool = False
    filters: tuple[RowFilter, ...] = ()
    aggregator: PartialAggregator | None = None
    aggregated: tuple[str, ...] = ()


@dataclass(slots=True)
class ScanCounters:
    """Counters of the work that scans have done."""

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


@dataclass(slots=True)
class ScanLog:
    """A log of the scans of one table of a statement.

    Attributes
    ----------
    errors
        The `LanceError` objects that the scans raised; DataFusion keeps only their text.
    scans
        The plans of all scan nodes, in the order of planning.
    counters
        Counters of what the scans read.
    is_abandoned
        Whether the rows are no longer needed. Code that reads them then stops with an error.
    """

    errors: list[LanceError] = field(default_factory=list)
    scans: list[ScanPlan] = field(default_factory=list)
    counters: ScanCounters = field(default_factory=ScanCounters)
    is_abandoned: bool = False

    def check_wanted(self) -> None:
        """Raise an error if the rows are no longer needed."""
        if self.is_abandoned:
            raise LanceError("the statement was interrupted")

    def abandon(self) -> None:
        """Stop the scans at their next request for a batch."""
        self.is_abandoned = True


class WorkList:
    """A queue of tasks that the partitions of one scan node share, first come, first served.

    DataFusion may execute the same plan again; a recursive query does so once for each iteration. The n-th
    execution of a partition belongs to the n-th round, and every round distributes all tasks.
    """

    def __init__(self) -> None:
        self._lock = new_lock()
        self._executions: Counter[int] = Counter()
        self._rounds: list[Iterator[ScanTask]] = []

    def start(self, partition: int, tasks: Sequence[ScanTask]) -> Iterator[ScanTask]:
        """Start an execution of ``partition`` and return an iterator over the tasks that it takes."""
        with self._lock:
            number = self._executions[partition]
            self._executions[partition] += 1
            while len(self._rounds) <= number:
                self._rounds.append(iter(tasks))
            shared = self._rounds[number]
        return self._take(shared)

    def _take(self, shared: Iterator[ScanTask]) -> Iterator[ScanTask]:
        while True:
            with self._lock:
                task = next(shared, None)
            if task is None:
                return
            yield task


class LanceTableProvider(pyarrow.dataset.Dataset):  # type: ignore[misc]
    """One version of a table or namespace, for one or many statements. Frozen: nothing can be assigned to it.

    Parameters
    ----------
    scan
        The source to scan, and what each scan requests.
    log
        The log of the scans; a new one by default.
    row_filter
        A filter that is also applied to the rows of all scans.
    stored_schema
        The schema of the columns, if it is known.
    true_column
        The name of a column to append to the schema. The column is TRUE in every row. Conditions may refer to
        it, but it cannot be returned.

    Attributes
    ----------
    scan, log
        As given.
    stored_schema
        The schema of the columns of ``scan``, without those that its output adds.
    """

    _is_frozen = False

    def __init__(
        self,
        scan: SourceScan,
        *,
        log: ScanLog | None = None,
        row_filter: RowFilter | None = None,
        stored_schema: pa.Schema | None = None,
        true_column: str | None = None,
    ) -> None:
        # The C++ dataset of the base class is not created on purpose: nothing here uses it.
        self.scan = scan
        self.log = log or ScanLog()
        self.stored_schema = stored_schema_of(scan) if stored_schema is None else stored_schema
        self._row_filter = row_filter
        self._true_column = true_column
        self._schema = _offered(self.stored_schema, scan.request, true_column)
        self._num_partitions = scan.num_partitions or num_cores()
        # A single partition preserves the order of rows. Its tasks still run at the same time.
        self._at_once = self._num_partitions == 1 and not scan.in_turn
        self._planned: Entries[PlannedScan] = TableCache(max_entries=_MAX_CACHED_PLANS).entries(
            CacheKind.PLANS
        )
        # what DataFusion passes to the first of two calls that plan a scan, for the second one
        self._planning = threading.local()
        self._planning_with_keys = new_lock()
        self._is_frozen = True

    def __setattr__(self, name: str, value: Any) -> None:
        if self._is_frozen:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    # DataFusion panics if this raises. The getter runs no Python code, so no interrupt can be raised in it.
    schema = property(attrgetter("_schema"))

    @callback()
    def scanner(
        self,
        columns: list[str] | None = None,
        filter: pc.Expression | None = None,  # noqa: ARG002 - DataFusion's name
        **_: Any,
    ) -> _Scan:
        """Return the schema of a scan, which is all that the planner reads."""
        self._planning.columns = None if columns is None else tuple(columns)
        return _Scan(_projected(self._schema, columns), iter)

    @callback()
    def get_fragments(
        self,
        filter: pc.Expression | None = None,
        num_partitions: int | None = None,
    ) -> list[_Partition]:
        """Plan the scan and return its partitions, at least one: DataFusion cannot sort zero partitions.

        Parameters
        ----------
        num_partitions
            The maximum number of partitions; ``None`` for that of the provider.
        """
        # The columns come from the preceding call of scanner(). If they were wrong, only the number of
        # partitions would fit worse, because partitions look up the plan by the columns that they are given.
        check_process()  # contexts of other libraries do not check this
        columns = getattr(self._planning, "columns", None)
        planned = self._plan(columns, filter)
        self.log.scans.append(planned.plan)
        most = min(num_partitions or self._num_partitions, len(planned.plan.tasks))
        work = WorkList()
        return [_Partition(self, number, work) for number in range(max(1, most))]

    def _plan(
        self, columns: tuple[str, ...] | None, expression: pc.Expression | None, *, runs: bool = False
    ) -> PlannedScan:
        """Return the plan of a scan. If the scan ``runs``, the plan uses the join filters."""
        output = tuple(self._schema.names) if columns is None else columns
        filters = self.scan.join_filters if runs else ()
        # cached, so that the plan of a scan stays the same while the scan collects statistics
        key = (output, _fingerprint(expression), bool(filters))
        try:
            # planning with join keys takes long, and all partitions request the plan at once
            with self._planning_with_keys if filters else nullcontext():
                return self._planned.get(key, lambda: self._plan_anew(output, expression, filters), 0)
        except LanceError as err:
            self.log.errors.append(err)
            raise

    def _plan_anew(
        self, output: tuple[str, ...], expression: pc.Expression | None, join_filters: Sequence[JoinFilter]
    ) -> PlannedScan:
        filters = [] if self._row_filter is None else [self._row_filter]
        if (condition := self.scan.condition) is not None:
            if not has_tokens(condition):
                from lance_df.engine.pruning.arrow_filter import ArrowFilter

                filters.append(ArrowFilter(condition, self.scan.source.arrow_schema))
            else:
                expression = condition if expression is None else expression & condition
        request = self.scan.request
        predicate = None if expression is None else self._predicate_of(expression)
        pruning_predicate = request.pruning_predicate
        if predicate is not None and has_unknown(predicate):
            filters.append(ResidualFilter(expression, true_column=self._true_column))
            conditions = tuple(each for each in (pruning_predicate, predicate) if each is not None)
            pruning_predicate, predicate = And(conditions), None
        elif isinstance(predicate, Literal):
            predicate = None if predicate.value is True else Literal(False)
        for join_filter in join_filters:
            joined = join_filter.predicate()
            if join_filter.applies_to(self.scan.source, len(output)):
                predicate = _both(joined, predicate)
            else:
                pruning_predicate = _both(joined, pruning_predicate)
        aggregate = _requested(request, output)
        if aggregate is not None and aggregate.has_extremes and (filters or predicate is not None):
            aggregate = None
        request = replace(request, predicate=predicate, pruning_predicate=pruning_predicate)
        self.log.counters.add(plans=1)
        if filters:
            return self._filtered(request, output, tuple(filters), aggregate)
        if aggregate is not None:
            plan = self.scan.source.plan(replace(request, columns=None, output=aggregate))
            return PlannedScan(plan, output)
        rows = request.output if isinstance(request.output, Rows) else Rows()
        plan = self.scan.source.plan(replace(request, columns=output, output=rows))
        counts_only = not output and predicate is None and request.options.metadata_counts
        return PlannedScan(plan, output, counts_only=counts_only)

    def _filtered(
        self,
        request: ScanRequest,
        output: tuple[str, ...],
        filters: tuple[RowFilter, ...],
        aggregate: PartialAggregate | None,
    ) -> PlannedScan:
        """Return a scan whose rows are filtered, and then aggregated, by this provider."""
        aggregated = () if aggregate is None else aggregate.columns
        returned = output if aggregate is None else aggregated
        compared = sorted(set().union(*(each.columns for each in filters)).difference(returned))
        # the filters compare strings in their plain layout
        request = replace(request, columns=(*returned, *compared), output=Rows())
        plan = self.scan.source.plan(request)
        if aggregate is None:
            return PlannedScan(plan, output, filters=filters)
        from lance_df.scan.aggregate import PartialAggregator

        aggregator = PartialAggregator(aggregate, _projected(plan.schema, list(aggregated)))
        return PlannedScan(plan, output, filters=filters, aggregator=aggregator, aggregated=aggregated)

    def _predicate_of(self, expression: pc.Expression) -> Predicate:
        """Return the expression as a predicate. The result is cached for repeated statements."""
        fingerprint = _fingerprint(expression)
        predicate: Predicate = self.scan.source.plan_cache.get(
            ("predicate", self._true_column, fingerprint),
            lambda: self._predicate(expression),
            _PREDICATE_BYTES + 2 * len(fingerprint),
        )
        return predicate

    def _predicate(self, expression: pc.Expression) -> Predicate:
        return as_datafusion(to_predicate(expression, self.stored_schema, true_column=self._true_column))

    def _read(
        self, plan: Callable[[], PlannedScan], schema: pa.Schema, partition: int, work: WorkList
    ) -> Iterator[pa.RecordBatch]:
        batches = stoppable(self._batches(plan, schema, partition, work))
        import_batch = _importer(schema)
        try:
            while True:
                with callback():
                    batch = next(batches, None)
                if batch is None:
                    return
                self.log.check_wanted()
                self.log.counters.add(batches=1, rows=batch.num_rows)
                yield batch if import_batch is None else import_batch(batch)
        except LanceError as err:
            self.log.errors.append(err)
            raise
        finally:
            batches.close()

    def _batches(
        self, plan: Callable[[], PlannedScan], schema: pa.Schema, partition: int, work: WorkList
    ) -> Generator[pa.RecordBatch]:
        planned = plan()
        tasks = self._counted(work.start(partition, planned.plan.tasks))
        if planned.counts_only:
            for task in tasks:
                yield from _row_counts(task.num_rows)
            return
        is_as_promised = (
            not planned.filters
            and tuple(planned.plan.schema.names) == planned.output
            and planned.plan.schema.equals(schema, check_metadata=True)
        )
        with closing(self._run(tasks)) as batches:
            for batch in batches:
                for row_filter in planned.filters:
                    if batch.num_rows:
                        batch = row_filter.apply(batch)  # noqa: PLW2901
                if planned.aggregator is not None:
                    batch = planned.aggregator.of_batch(batch.select(list(planned.aggregated)))  # noqa: PLW2901
                if batch.num_rows:
                    yield batch if is_as_promised else _conform(batch, planned.output, schema)

    def _run(self, tasks: Iterator[ScanTask]) -> Generator[pa.RecordBatch]:
        if self._at_once:
            return run_tasks(list(tasks))
        scan = self.scan
        if scan.in_turn or scan.source.is_local or not scan.reads_ahead:
            return run_in_turn(tasks)
        return run_ahead(tasks, _REMOTE_TASKS)

    def _counted(self, tasks: Iterator[ScanTask]) -> Iterator[ScanTask]:
        for task in tasks:
            self.log.counters.add(tasks=1)
            yield task


def _both(one: Predicate | None, other: Predicate | None) -> Predicate | None:
    if one is None or other is None:
        return other if one is None else one
    return And((one, other))


def stored_schema_of(scan: SourceScan) -> pa.Schema:
    """Return the schema of a scan's columns as the scan returns them."""
    request = scan.request
    names = tuple(scan.source.arrow_schema.names) if request.columns is None else request.columns

    def planned() -> pa.Schema:
        bare = ScanRequest(
            columns=names,
            predicate=Literal(False),
            include_deleted_rows=request.include_deleted_rows,
            blobs_as_bytes=request.blobs_as_bytes,
        )
        return scan.source.plan(bare).schema

    key = ("schema", names, request.include_deleted_rows, request.blobs_as_bytes)
    schema: pa.Schema = scan.source.plan_cache.get(key, planned, _COLUMN_BYTES * (len(names) + 1))
    return schema


def holds_json(source: Scannable) -> bool:
    """Return whether columns of a table hold JSON, see `may_give_json`."""
    return source.plan_cache.get("json", lambda: any(map(may_give_json, source.arrow_schema)), _COLUMN_BYTES)


def holds_dictionaries(source: Scannable) -> bool:
    """Return whether columns of a table have dictionaries."""

    def holds_any() -> bool:
        return any(map(pa.types.is_dictionary, source.arrow_schema.types))

    return source.plan_cache.get("dictionaries", holds_any, _COLUMN_BYTES)


def _offered(stored: pa.Schema, request: ScanRequest, true_column: str | None) -> pa.Schema:
    """Return the schema of all columns that scans may return."""
    output = request.output
    if isinstance(output, Rows):
        schema = with_views(stored, output.views) if output.views else stored
    else:
        results = [
            pa.field(call.name, call.data_type, nullable=call.is_nullable)
            for call in output.calls
            if call.name not in stored.names
        ]
        schema = pa.schema([*stored, *results], stored.metadata)
    return schema if true_column is None else schema.append(pa.field(true_column, pa.bool_()))


def _requested(request: ScanRequest, output: tuple[str, ...]) -> PartialAggregate | None:
    """Return the partial aggregate that a scan of the columns ``output`` returns; None if it returns rows."""
    if isinstance(request.output, Rows):
        return None
    aggregate = request.output.among(output)
    if aggregate is None:
        return None
    returned = {*aggregate.keys, *(call.name for call in aggregate.calls)}
    return aggregate if returned == set(output) and output else None


class _Partition:
    """One partition of one scan node, which DataFusion calls a fragment."""

    def __init__(self, provider: LanceTableProvider, number: int, work: WorkList) -> None:
        self._provider = provider
        self._number = number
        self._work = work

    @callback()
    def scanner(
        self,
        schema: pa.Schema,  # noqa: ARG002 - DataFusion's signature
        columns: list[str] | None = None,
        filter: pc.Expression | None = None,
        batch_size: int | None = None,  # noqa: ARG002 - small batches cost more than they save
    ) -> _Scan:
        provider = self._provider
        names = None if columns is None else tuple(columns)
        provider._plan(names, filter)
        plan = partial(provider._plan, names, filter, runs=True)
        projected = _projected(provider.schema, columns)
        return _Scan(projected, lambda: provider._read(plan, projected, self._number, self._work))


class _Scan:
    def __init__(self, schema: pa.Schema, read: Any) -> None:
        self.projected_schema = schema
        self.to_batches = read


def with_views(schema: pa.Schema, names: frozenset[str]) -> pa.Schema:
    """Return the schema with the type string_view for some columns."""
    fields = [field.with_type(pa.string_view()) if field.name in names else field for field in schema]
    return pa.schema(fields, schema.metadata)


def _projected(schema: pa.Schema, columns: list[str] | None) -> pa.Schema:
    if columns is None:
        return schema
    return pa.schema([schema.field(name) for name in columns], schema.metadata)


def _fingerprint(expression: pc.Expression | pa.Scalar | bool | None) -> bytes | str:
    return serialized(expression).to_pybytes() if isinstance(expression, pc.Expression) else repr(expression)


def _importer(schema: pa.Schema) -> Callable[[pa.RecordBatch], pa.RecordBatch] | None:
    """Return a function that makes batches importable for DataFusion; None if all batches are."""
    if not any(pa.types.is_nested(field.type) for field in schema):
        return None
    from lance_df.compute.offsets import columns_to_copy, without_offsets

    columns = columns_to_copy(schema)
    return (lambda batch: without_offsets(batch, columns)) if columns else None


def _row_counts(num_rows: int) -> Iterator[pa.RecordBatch]:
    """Yield batches without columns. They are small because DataFusion may split a batch by rows."""
    for start in range(0, num_rows, _COUNT_BATCH_ROWS):
        yield count_batch(min(_COUNT_BATCH_ROWS, num_rows - start))


def _conform(batch: pa.RecordBatch, output: tuple[str, ...], schema: pa.Schema) -> pa.RecordBatch:
    """Return the batch with exactly the promised columns and types."""
    if tuple(batch.schema.names) != output:
        batch = batch.select(list(output))
    if not output or batch.schema.equals(schema, check_metadata=True):
        return batch
    columns = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
