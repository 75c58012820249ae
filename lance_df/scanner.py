"""Scanners: the objects that `LanceDataset.scanner` returns, with the names of pylance."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.arrow_classes import ArrowScanner
from lance_df.compute.calls import outside_runtime
from lance_df.errors import InvalidInputError, UnsupportedFeatureError
from lance_df.exits import busy, stoppable
from lance_df.expr.expression_tokens import has_tokens
from lance_df.expr.from_pyarrow import to_predicate
from lance_df.expr.text import to_text
from lance_df.expr.walk import has_unknown
from lance_df.file.arrow_types import show_batch, shown_schema
from lance_df.format.column_path import format_path
from lance_df.interrupts import imports_finished
from lance_df.scan.options import ALL, NO_STATISTICS
from lance_df.scan.plan import ScanPlan
from lance_df.scan.request import Promise, ScanRequest
from lance_df.scan.run import run_tasks
from lance_df.scanner_options import ColumnOrdering, Columns, Filter, ScannerOptions, ScanStatistics
from lance_df.sliced_lists import unsliced
from lance_df.table.metadata.row_counts import live_rows
from lance_df.table.reading.batches import count_batch, resized, take_rows, window
from lance_df.table.reading.system_columns import ROW_ADDRESS, system_schema
from lance_df.table.reading.take import check_row_numbers, row_numbers
from lance_df.table.scan.columns import resolve_columns, resolve_name, row_columns
from lance_df.table.scan.plan import plan_scan

if TYPE_CHECKING:
    import numpy.typing as npt
    import pandas as pd

    from lance_df.expr.nodes import Predicate
    from lance_df.format.schema import Schema
    from lance_df.scan.source import Scannable

# Requests to a store take longer than what is done with the answers.
_REMOTE_THREADS = 8
_SHOWN_CHARACTERS = 200


class LanceScanner(ArrowScanner):
    """A scan of one version of a table that has not run yet.

    Every method runs the scan again. Rows are returned in the order of the table.
    """

    _ends_with_fragments: ClassVar[bool] = True

    def __init__(self, dataset: Any, options: ScannerOptions) -> None:
        self._ds = dataset
        self._table: Any = dataset._table
        self._options = options

    def __reduce__(self) -> tuple[Any, ...]:
        return LanceScanner, (self._ds, self._options)

    def __repr__(self) -> str:
        # compared as text: a comparison of an expression is an expression
        parts = [
            f"{field.name}={text[:_SHOWN_CHARACTERS]}"
            for field in dataclasses.fields(self._options)
            if (text := str(getattr(self._options, field.name))) != str(field.default)
        ]
        options = f": {', '.join(parts)}" if parts else ""
        return f"<lance_df.{type(self).__name__} of {self._table.uri} version {self._table.version}{options}>"

    @property
    def _stored_schema(self) -> Schema:
        schema: Schema = self._table.schema
        return schema

    def _plan_of(self, request: ScanRequest) -> ScanPlan:
        return plan_scan(self._table, request)

    def _like(self, options: ScannerOptions) -> LanceScanner:
        """Return a scan of the same rows with other options."""
        return type(self)(self._ds, options)

    def to_table(self) -> pa.Table:
        """Read all rows into memory."""
        with busy():
            return self.to_reader().read_all()

    def to_reader(self) -> pa.RecordBatchReader:
        """Return a reader of the batches.

        Closing or dropping the reader ends the scan.

        Raises
        ------
        LanceError
            A column or an expression is invalid. The reader raises it when stored bytes cannot be read.
        """
        schema, batches = self._start()
        return pa.RecordBatchReader.from_batches(schema, stoppable(batches))

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches.

        Each batch of a table has rows of one fragment only, unless ``strict_batch_size`` is set or the filter
        is an SQL expression.
        """
        options = self._options
        per_fragment = self._ends_with_fragments and not options.strict_batch_size
        _, batches = self._like(replace(options, per_fragment=per_fragment))._start()
        with closing(batches):
            yield from batches

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def to_pandas(self, **kwargs: Any) -> pd.DataFrame:
        """Read all rows into a pandas frame. Arguments are passed to `pyarrow.Table.to_pandas`."""
        return self.to_table().to_pandas(**kwargs)

    def head(self, num_rows: int) -> pa.Table:
        """Return the first ``num_rows`` rows."""
        limit = num_rows if self._options.limit is None else min(num_rows, self._options.limit)
        return self._like(replace(self._options, limit=limit)).to_table()

    def take(self, indices: npt.ArrayLike) -> pa.Table:
        """Return rows of the result by their positions.

        Raises
        ------
        InvalidInputError
            There is no row at such a position.
        """
        numbers = row_numbers(indices)
        result = self.to_table()
        check_row_numbers(numbers, result.num_rows, self._table.uri)
        return take_rows(result, numbers)

    def scan_batches(self) -> list[pa.RecordBatch]:
        """Return a list of all batches."""
        return list(self.to_batches())

    def count_rows(self) -> int:
        """Return the number of rows of the scan. Only the columns of the filter are read.

        Raises
        ------
        InvalidInputError
            The scan has a limit or an offset.
        """
        options = self._options
        if options.limit is not None or options.offset is not None:
            raise InvalidInputError("rows are counted before limit and offset apply; leave these out")
        columns: Columns = (ROW_ADDRESS,) if isinstance(options.filter, str) else ()
        bare = replace(
            options,
            columns=columns,
            order_by=(),
            with_row_id=options.include_deleted_rows,
            with_row_address=False,
        )
        return sum(batch.num_rows for batch in self._like(bare).to_batches())

    @property
    def projected_schema(self) -> pa.Schema:
        """Return the schema of the result."""
        if isinstance(self._options.columns, Mapping):
            return outside_runtime(self._planned_schema)
        return shown_schema(_native_schema(self._stored_schema, self._options))

    def _planned_schema(self) -> pa.Schema:
        whole = replace(
            self._options, filter=None, condition=None, limit=None, offset=None, order_by=(), at_once=False
        )
        schema, batches = self._like(whole)._start()
        batches.close()
        return schema

    @property
    def dataset_schema(self) -> pa.Schema:
        """Return the schema of the dataset."""
        return self._ds.schema

    def explain_plan(self, verbose: bool | None = False) -> str:
        """Return a text that says what the scan reads and why. Data files are opened to count their pages."""
        plan = self._planned()
        report = plan.report
        counts = {"fragments": report.fragments, "pages": report.pages, "bytes": report.bytes}
        if report.partitions is not None:
            counts = {"partitions": report.partitions, **counts}
        lines = [
            f"LanceScan: uri={report.table}, version={report.version}, "
            f"projection=[{', '.join(plan.schema.names)}], "
            f"filter={_filter_text(self._options.filter, self._table)}",
            *(f"  {name}: {count.kept} of {count.total}" for name, count in counts.items()),
            *(f"  ScalarIndexQuery: query=[{each.predicate}]@{each.index}" for each in report.index_queries),
            *(f"  {reason.conjunct}: {reason.effect}" for reason in report.reasons),
        ]
        if verbose:
            columns, rows = ", ".join(report.columns), report.rows
            lines.append(f"  LanceRead: projection=[{columns}], rows={rows.kept} of {rows.total}")
            lines.append(f"  options: {self._options}")
        return "\n".join(lines)

    def _planned(self) -> ScanPlan:
        options = self._options
        columns = None if isinstance(options.columns, Mapping) else options.columns
        if not isinstance(options.filter, str):
            plan, _ = self._plan(replace(options, columns=columns))
            return plan
        from lance_df.engine.query import plan_with_sql

        return plan_with_sql(
            self._table,
            columns=columns,
            filter=options.filter,
            fragment_ids=options.fragment_ids,
            use_statistics=_uses_statistics(options),
            condition=options.condition,
        )

    def analyze_plan(self, count_rows: bool = False) -> str:
        """Run the scan. Return the plan with the number of rows and the amount of data that was read."""
        num_rows = self.count_rows() if count_rows else self.to_table().num_rows
        report = self._planned().report
        statistics = ScanStatistics.of_report(report)
        return (
            f"{self.explain_plan(verbose=True)}\n"
            f"  LanceRead: output_rows={num_rows}, rows_scanned={report.rows.kept}, "
            f"bytes_read={statistics.bytes_read}, iops={statistics.iops}, requests={statistics.requests}"
        )

    @staticmethod
    def from_dataset(*_: object, **__: object) -> None:
        """Raise an error: use `LanceDataset.scanner` instead."""
        raise UnsupportedFeatureError("use LanceDataset.scanner")

    @staticmethod
    def from_fragment(*_: object, **__: object) -> None:
        """Raise an error: use `LanceFragment.scanner` instead."""
        raise UnsupportedFeatureError("use LanceFragment.scanner")

    @staticmethod
    def from_batches(*_: object, **__: object) -> None:
        """Raise an error: a scanner reads a table, not batches."""
        raise UnsupportedFeatureError("a scanner cannot be made from batches")

    def _start(self) -> tuple[pa.Schema, Generator[pa.RecordBatch]]:
        """Return the schema of the result and its batches, as a user sees them."""
        options = self._options
        if options.scan_stats_callback is not None:
            silent = self._like(replace(options, scan_stats_callback=None))
            schema, batches = silent._start()
            return schema, self._reported(batches, options.scan_stats_callback)
        if options.order_by:
            return self._sorted()
        stored, read = self._start_sql() if options.is_sql else self._start_native()
        schema = shown_schema(stored)
        return schema, _shown(read, schema, options)

    def _reported(
        self, batches: Generator[pa.RecordBatch], callback: Callable[[ScanStatistics], object]
    ) -> Generator[pa.RecordBatch]:
        """Yield batches, and say what was read when they end."""
        with closing(batches):
            yield from batches
        callback(ScanStatistics.of_report(self._planned().report))

    def _start_native(self) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        options, skipped = self._skip_fragments()
        plan, residual = self._plan(options)
        names = plan.schema.names[: _num_columns(self._table, options)]
        schema = pa.schema([plan.schema.field(name) for name in names], plan.schema.metadata)
        limit = None if options.limit is None or residual is not None else options.limit + skipped
        threads = None if self._table.is_local else _REMOTE_THREADS
        batches: Iterator[pa.RecordBatch] = run_tasks(plan.tasks, limit=limit, num_threads=threads)
        if residual is not None:
            batches = _filtered(batches, residual, names)
        return schema, window(batches, skipped, options.limit)

    def _plan(
        self, options: ScannerOptions
    ) -> tuple[ScanPlan, Callable[[pa.RecordBatch], pa.RecordBatch] | None]:
        """Plan a scan without SQL. The returned function applies the part that no predicate can express."""
        predicate, pruning_predicate, residual, more = None, None, None, set()
        if isinstance(options.filter, pc.Expression):
            from lance_df.engine.pruning.residual import as_datafusion, residual_filter

            schema = _filterable(options.filter, self._table)
            predicate = as_datafusion(to_predicate(options.filter, schema))
            if has_unknown(predicate):
                filtered = residual_filter(options.filter, schema)
                predicate, pruning_predicate, residual, more = (
                    None,
                    predicate,
                    filtered.apply,
                    filtered.columns,
                )
        return self._plan_of(_request(self._table, options, predicate, pruning_predicate, more)), residual

    def _skip_fragments(self) -> tuple[ScannerOptions, int]:
        """Turn an offset into whole fragments to leave out, where possible, and a number of rows to skip."""
        options = self._options
        offset = options.offset or 0
        if not offset or options.filter is not None or options.include_deleted_rows:
            return options, offset
        ids = options.fragment_ids
        if ids is None:
            ids = tuple(self._table.fragments.ids.tolist())
        if len(set(ids)) < len(ids):
            return options, offset
        ends = live_rows(self._table, self._table.fragments.positions(np.array(ids, np.int64))).cumsum()
        whole = int(ends.searchsorted(offset, side="right"))
        skipped = int(ends[whole - 1]) if whole else 0
        return replace(options, fragment_ids=ids[whole:], offset=offset - skipped), offset - skipped

    def _start_sql(self) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        options = self._options
        with imports_finished():
            from lance_df.engine.query import scan_with_sql

        scan = partial(
            scan_with_sql,
            self._table,
            columns=options.columns,
            filter=options.filter,
            condition=options.condition,
            limit=options.limit,
            offset=options.offset,
            with_row_id=options.with_row_id,
            with_row_address=options.with_row_address,
            batch_size=options.batch_size,
            fragment_ids=options.fragment_ids,
            use_statistics=_uses_statistics(options),
            include_deleted_rows=options.include_deleted_rows,
            blobs_as_bytes=options.blobs_as_bytes,
        )
        if options.at_once:
            reader = outside_runtime(lambda: scan(at_once=True).read_all()).to_reader()
        else:
            reader = scan()
        return reader.schema, reader

    def _sorted(self) -> tuple[pa.Schema, Generator[pa.RecordBatch]]:
        """Sort in memory: a sort needs all rows."""
        options = self._options
        plain = replace(options, order_by=(), limit=None, offset=None)
        wanted = self._like(plain).projected_schema.names
        keys = self._with_keys(wanted)
        added = {column: key for key, column in keys.items() if column not in wanted}
        if isinstance(options.columns, Mapping):
            computed = {column: self._stored_column(key) for column, key in added.items()}
            plain = replace(plain, columns={**options.columns, **computed})
        else:
            columns = self._table.arrow_schema.names if options.columns is None else list(options.columns)
            plain = replace(plain, columns=[*columns, *added])
        table = self._like(plain).to_table()
        start = options.offset or 0
        with imports_finished():
            from lance_df.engine.query import row_order
        try:
            order = row_order(table, [(keys[key.column_name], _sql(key)) for key in options.order_by])
            stop = len(order) if options.limit is None else start + options.limit
            result = take_rows(table.select(wanted), order[start:stop])
        except pa.ArrowException as err:
            raise InvalidInputError(f"{self._table.uri}: the rows cannot be sorted in memory: {err}") from err
        batches = result.to_batches() if wanted else [count_batch(result.num_rows)]
        return result.schema, _shown(iter(batches), result.schema, options)

    def _with_keys(self, wanted: Sequence[str]) -> dict[str, str]:
        """Return the sort keys, each once, and the names of the columns that hold their values.

        Sort keys are columns of the table. A computed column may have the same name as a key; the key then
        gets a name that no column has.
        """
        names = dict.fromkeys(key.column_name for key in self._options.order_by)
        if not isinstance(self._options.columns, Mapping):
            return {name: name for name in names}
        prefix = "_key"
        while any(name.startswith(prefix) for name in wanted):
            prefix = f"_{prefix}"
        return {name: f"{prefix}{number}" for number, name in enumerate(names)}

    def _stored_column(self, key: str) -> str:
        """Return the SQL expression of a column of the table, or of a field of a struct."""
        return format_path(resolve_name(self._stored_schema, key).path)


class ScannerOfResult(LanceScanner):
    """A scan of the result of another scan, which callers see as the table.

    Parameters
    ----------
    columns
        Names of columns of the result; None for all.
    filter
        An expression over columns of the result.
    """

    def __init__(
        self,
        scanner: LanceScanner,
        columns: Columns,
        filter: pc.Expression | None,
    ) -> None:
        super().__init__(scanner._ds, scanner._options)
        self._scanner = scanner
        self._columns = columns
        if not isinstance(filter, pc.Expression | None):
            raise InvalidInputError(f"expected a pyarrow expression, got {type(filter).__name__}")
        self._filter = pc.scalar(True) if filter is None else filter

    def __reduce__(self) -> tuple[Any, ...]:
        return ScannerOfResult, (self._scanner, self._columns, self._filter)

    @property
    def projected_schema(self) -> pa.Schema:
        return self._selected(self._scanner.projected_schema)

    def head(self, num_rows: int) -> pa.Table:
        return self.to_table().slice(0, num_rows)

    def count_rows(self) -> int:
        return self.to_table().num_rows

    def _like(self, options: ScannerOptions) -> LanceScanner:
        return ScannerOfResult(self._scanner._like(options), self._columns, self._filter)

    def _start(self) -> tuple[pa.Schema, Generator[pa.RecordBatch]]:
        from lance_df.engine.pruning.residual import residual_filter

        whole, batches = self._scanner._start()
        schema = self._selected(whole)
        return schema, _filtered(batches, residual_filter(self._filter, whole).apply, schema.names)

    def _selected(self, schema: pa.Schema) -> pa.Schema:
        if self._columns is None:
            return schema
        return pa.schema([schema.field(name) for name in self._columns], schema.metadata)


def _filtered(
    batches: Iterator[pa.RecordBatch],
    residual: Callable[[pa.RecordBatch], pa.RecordBatch],
    names: Sequence[str],
) -> Generator[pa.RecordBatch]:
    for batch in batches:
        try:
            matching = residual(batch)
        except pa.ArrowException as err:
            raise InvalidInputError(f"the filter cannot be evaluated: {err}") from err
        yield matching.select(names)


def _request(
    table: Scannable,
    options: ScannerOptions,
    predicate: Predicate | None,
    pruning_predicate: Predicate | None,
    more: Iterable[str] = (),
) -> ScanRequest:
    names = _names(table, options)
    limit = None
    if options.limit is not None and pruning_predicate is None:
        limit = options.limit + (options.offset or 0)
    return ScanRequest(
        columns=(*names, *sorted(set(more).difference(names))),
        predicate=predicate,
        pruning_predicate=pruning_predicate,
        limit=limit,
        fragment_ids=options.fragment_ids,
        options=ALL if _uses_statistics(options) else NO_STATISTICS,
        requires=Promise.PER_FRAGMENT if _is_per_fragment(options) else Promise.NOTHING,
        include_deleted_rows=options.include_deleted_rows,
        blobs_as_bytes=options.blobs_as_bytes,
    )


def _is_per_fragment(options: ScannerOptions) -> bool:
    """Return whether each batch has rows of one fragment: if required, or with a non-strict batch size."""
    return options.per_fragment or (options.batch_size is not None and not options.strict_batch_size)


def _names(table: Scannable, options: ScannerOptions) -> tuple[str, ...]:
    """Return the names of the columns to return, including row ids and addresses."""
    return _chosen_names(table.arrow_schema.names, options)


def _chosen_names(stored: Sequence[str], options: ScannerOptions) -> tuple[str, ...]:
    columns = stored if options.columns is None else list(options.columns)
    appended = row_columns(with_row_id=options.with_row_id, with_row_address=options.with_row_address)
    return (*(name for name in columns if name not in appended), *appended)


def _num_columns(table: Scannable, options: ScannerOptions) -> int:
    return len(_names(table, options))


def _native_schema(schema: Schema, options: ScannerOptions) -> pa.Schema:
    names = _chosen_names(schema.names, options)
    columns = resolve_columns(schema, names, blobs_as_bytes=options.blobs_as_bytes)
    return pa.schema([column.output for column in columns], schema.arrow_metadata)


def _uses_statistics(options: ScannerOptions) -> bool:
    return options.use_stats and options.use_scalar_index


def _filter_text(expression: Filter, table: Scannable) -> str:
    if isinstance(expression, pc.Expression):
        return to_text(to_predicate(expression, _filterable(expression, table)))
    return str(expression)


def _filterable(expression: pc.Expression, table: Scannable) -> pa.Schema:
    """Return the columns that a filter may name; positions count those of the table only."""
    schema: pa.Schema = table.arrow_schema
    return system_schema(schema) if has_tokens(expression) else schema


def _sql(key: ColumnOrdering) -> str:
    return f"{'ASC' if key.ascending else 'DESC'} NULLS {'FIRST' if key.nulls_first else 'LAST'}"


def _shown(
    batches: Iterator[pa.RecordBatch], schema: pa.Schema, options: ScannerOptions
) -> Generator[pa.RecordBatch]:
    """Yield batches as a user sees them, of the size that was asked for."""
    shown = (show_batch(batch, schema) for batch in batches)
    # pyarrow, too, shall take and filter these rows correctly
    yield from map(unsliced, resized(shown, schema, options.batch_size, strict=options.strict_batch_size))
