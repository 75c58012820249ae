"""Scans of one table with SQL expressions, in the order of its rows. Scanners are based on them."""

from __future__ import annotations

import dataclasses
from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.compute.compat import (
    DataFrame,
    PlainSessionContext,
    SessionConfig,
    Table,
    plain_context,
)
from lance_df.compute.expressions import columns_read
from lance_df.compute.json_functions import calls_json_functions, register_json_functions
from lance_df.compute.offsets import importable
from lance_df.compute.typed_functions import TypedFunctions, register_udfs
from lance_df.engine.failures import planning_errors, run_apart, streamed_batches
from lance_df.engine.plans.logical_scans import logical_scans
from lance_df.engine.plans.nodes import NO_LIMIT, PlanNode, Projection, optimized_plan_of, plan_of
from lance_df.engine.plans.walks import nodes
from lance_df.engine.provider import SourceScan, holds_json
from lance_df.engine.pruning.requests import requests_of
from lance_df.engine.statement import Statement, TableSlot
from lance_df.engine.stored_values import cast_to_stored, with_documents
from lance_df.errors import InvalidInputError
from lance_df.exits import stoppable
from lance_df.expr.text_views import parts_of_texts, schema_without_views
from lance_df.scan.options import ALL, NO_STATISTICS
from lance_df.scan.request import ScanRequest
from lance_df.sql.conditions import condition_to_datafusion
from lance_df.sql.expressions import to_datafusion
from lance_df.sql.splice import quote_identifier
from lance_df.table.reading.system_columns import ROW_ADDRESS, ROW_ID, SYSTEM_COLUMNS

if TYPE_CHECKING:
    from lance_df.engine.statement import PlannedTable
    from lance_df.format.schema import Field
    from lance_df.scan.plan import ScanPlan
    from lance_df.scan.source import Scannable

_TABLE = "t"
_BATCH_ROWS = 64 * 1024
_LARGE_INDEX_BITS = 32  # they number the values of any file
_CHANGES_ROWS = ("Aggregate", "Window", "WindowExpr", "Unnest", "Distinct", "Union", "Join", "Limit")


def scan_with_sql(
    table: Scannable,
    *,
    columns: Sequence[str] | Mapping[str, str] | None = None,
    filter: str | pc.Expression | None = None,
    limit: int | None = None,
    offset: int | None = None,
    with_row_id: bool = False,
    with_row_address: bool = False,
    batch_size: int | None = None,
    window_rows: int | None = None,
    fragment_ids: tuple[int, ...] | None = None,
    use_statistics: bool = True,
    condition: pc.Expression | None = None,
    fields: Mapping[str, Field] | None = None,
    include_deleted_rows: bool = False,
    blobs_as_bytes: bool = False,
    at_once: bool = False,
    for_change: bool = False,
) -> pa.RecordBatchReader:
    """Return the rows for which ``filter`` is true, in the order of the table.

    Parameters
    ----------
    columns
        Names of columns, of struct fields (``"a.b"``) or system columns; or a mapping from output names to
        SQL expressions.
    filter
        A pyarrow expression, or an SQL expression. Names in SQL are read as pylance reads them, see
        `lance_df.sql.expressions`; the rest is DataFusion's SQL.
    limit, offset
        The number of rows to return, and the number of rows to skip before them.
    with_row_id, with_row_address
        Append ``_rowid`` or ``_rowaddr``.
    batch_size
        The maximum number of rows of a batch.
    window_rows, fragment_ids, include_deleted_rows, blobs_as_bytes
        As in `ScanRequest`.
    use_statistics
        Whether page statistics and indices may prune.
    condition
        A pyarrow expression that must be true in addition to ``filter``.
    fields
        Target fields for columns of the result. These columns are cast to the stored types, as by SQL's CAST,
        and JSON text is encoded. Other columns keep their types.
    at_once
        Whether the first batch comes when all are in memory. None of DataFusion's threads is needed then,
        which a stream needs.
    for_change
        Whether these rows change: what DataFusion may compute otherwise than SQL is refused then.

    Raises
    ------
    InvalidInputError
        An expression is malformed or does not compute one value for each row, a value cannot be cast or is
        not valid JSON, or ``limit`` or ``offset`` is negative.
    ColumnNotFoundError
        A column does not exist.
    LanceError
        From the reader: stored bytes cannot be read.
    """
    for name, value in (("limit", limit), ("offset", offset), ("batch_size", batch_size)):
        if value is not None and value < (name == "batch_size"):
            raise InvalidInputError(f"{name} must be at least {int(name == 'batch_size')}, got {value}")
    selected = _Selection(table, columns, with_row_id=with_row_id, with_row_address=with_row_address)
    request = ScanRequest(
        columns=(*table.arrow_schema.names, *selected.extra_columns),
        fragment_ids=fragment_ids,
        batch_rows=batch_size,
        window_rows=window_rows,
        options=ALL if use_statistics else NO_STATISTICS,
        include_deleted_rows=include_deleted_rows,
        blobs_as_bytes=blobs_as_bytes,
    )
    where, condition = _text_and_expression(filter, condition)
    text = selected.query(where)
    written = ", where ".join(each for each in (_expressions(columns), where) if each)
    statement = Statement(written or text, around=_TABLE)
    with planning_errors(statement):
        planned = _planned_table(table, request, condition, statement)
        frame = _plan(text, planned, batch_size or _BATCH_ROWS, for_change=for_change)
        if limit is not None or offset:
            frame = frame.limit(NO_LIMIT if limit is None else limit, offset or 0)
        if fields is not None:
            frame = cast_to_stored(frame, fields)
    schema = schema_without_views(selected.output_schema(frame.schema()))
    batches = _batches(frame, schema, statement, at_once=at_once)
    if fields is not None:
        schema, batches = with_documents(schema, batches, fields)
    return pa.RecordBatchReader.from_batches(schema, stoppable(batches))


def plan_with_sql(
    table: Scannable,
    *,
    columns: Sequence[str] | None = None,
    filter: str | pc.Expression | None = None,
    fragment_ids: tuple[int, ...] | None = None,
    use_statistics: bool = True,
    condition: pc.Expression | None = None,
) -> ScanPlan:
    """Return the plan of the scan that `scan_with_sql` would run, without reading rows.

    The tasks of the plan may return extra rows and columns, which DataFusion then filters.
    """
    selected = _Selection(table, columns, with_row_id=False, with_row_address=False)
    request = ScanRequest(
        columns=(*table.arrow_schema.names, *selected.extra_columns),
        fragment_ids=fragment_ids,
        options=ALL if use_statistics else NO_STATISTICS,
    )
    where, condition = _text_and_expression(filter, condition)
    text = selected.query(where)
    statement = Statement(where or text, around=_TABLE)
    with planning_errors(statement):
        planned = _planned_table(table, request, condition, statement)
        _plan(text, planned, _BATCH_ROWS).execution_plan()
        if not planned.log.scans:  # no row can match, so the plan of the statement has no scan
            planned.provider().get_fragments(pc.scalar(False))
    return planned.log.scans[-1]


def compute_columns(table: pa.Table, columns: Mapping[str, str], *, for_change: bool = False) -> pa.Table:
    """Return one column for each SQL expression over the rows of a table in memory, in their order.

    Parameters
    ----------
    for_change
        As for `scan_with_sql`.

    Raises
    ------
    InvalidInputError
        An expression is malformed, or does not compute one value for each row.
    ColumnNotFoundError
        A column does not exist.
    """
    frame, statement = _computed(table, columns, for_change=for_change)
    schema = schema_without_views(frame.schema())
    return pa.Table.from_batches(_batches(frame, schema, statement), schema)


def columns_computed_from(schema: pa.Schema, columns: Mapping[str, str]) -> list[str]:
    """Return the names of the columns that SQL expressions read.

    Raises
    ------
    InvalidInputError, ColumnNotFoundError
        As for `compute_columns`.
    """
    frame, _ = _computed(schema.empty_table(), columns)
    node = plan_of(frame)
    if not isinstance(node, Projection):  # there are no expressions
        return []
    read = frozenset().union(*(columns_read(expr, schema.names) for expr in node.expressions))
    return [name for name in schema.names if name in read]


def _computed(
    table: pa.Table, columns: Mapping[str, str], *, for_change: bool = False
) -> tuple[DataFrame, Statement]:
    """Plan expressions over the rows of a table in memory."""
    names = table.schema.names
    items = [
        f"({to_datafusion(expression, names)}) AS {quote_identifier(name)}"
        for name, expression in columns.items()
    ]
    text = f"SELECT {', '.join(items)} FROM {_TABLE}"
    statement = Statement(_expressions(columns) or text, around=_TABLE)
    ctx = plain_context(SessionConfig().with_target_partitions(1))
    _register(ctx, table)
    if calls_json_functions(text):
        register_json_functions(ctx)
    with planning_errors(statement):
        frame = ctx.sql(text)
        _check_rowwise(optimized_plan_of(frame))
        if for_change:
            from lance_df.engine.json_comparisons import check_json_comparisons

            check_json_comparisons(ctx, frame)
            _check_times(ctx, frame)
    return frame, statement


def row_order(table: pa.Table, keys: Sequence[tuple[str, str]]) -> pa.Array:
    """Return the row numbers of an in-memory table in sorted order. The sort is stable.

    Parameters
    ----------
    keys
        Columns, and the SQL that follows each of them, such as ``DESC NULLS LAST``.
    """
    columns = {f"key{number}": table.column(name) for number, (name, _) in enumerate(keys)}
    rows = pa.table({**columns, "row": np.arange(table.num_rows)})
    terms = ", ".join(f"key{number} {how}" for number, (_, how) in enumerate(keys))
    text = f"SELECT row FROM {_TABLE} ORDER BY {terms}, row"
    ctx = plain_context(SessionConfig().with_target_partitions(1))
    _register(ctx, rows)
    statement = Statement(text)
    with planning_errors(statement):
        frame = ctx.sql(text)
    schema = pa.schema([rows.schema.field("row")])
    return pa.Table.from_batches(_batches(frame, schema, statement), schema).column("row").combine_chunks()


def _register(ctx: PlainSessionContext, table: pa.Table) -> None:
    batches = table.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], schema=table.schema)]
    ctx.register_record_batches(_TABLE, [list(map(importable, batches))])


def _text_and_expression(
    filter: str | pc.Expression | None,
    condition: pc.Expression | None,
) -> tuple[str | None, pc.Expression | None]:
    """Return the SQL and the pyarrow expression that must both be true; each is None if there is none."""
    if filter is None or isinstance(filter, str):
        return filter, condition
    return None, filter if condition is None else filter & condition


def _expressions(columns: Sequence[str] | Mapping[str, str] | None) -> str:
    """Return the expressions as the user wrote them, for errors. Plain columns are left out."""
    if not isinstance(columns, Mapping):
        return ""
    return ", ".join(text for name, text in columns.items() if text.strip('"`') != name)


class _Selection:
    """The columns to return, as SQL."""

    def __init__(
        self,
        table: Scannable,
        columns: Sequence[str] | Mapping[str, str] | None,
        *,
        with_row_id: bool,
        with_row_address: bool,
    ) -> None:
        stored = table.arrow_schema.names
        appended = [
            name for name, wanted in ((ROW_ID, with_row_id), (ROW_ADDRESS, with_row_address)) if wanted
        ]
        self._expressions = dict(columns) if isinstance(columns, Mapping) else {}
        if any("\0" in name for name in self._expressions):
            raise InvalidInputError(
                f"names of columns must not contain a NUL character, got {list(self._expressions)}"
            )
        if isinstance(columns, Mapping):
            listed: list[str] = []
        else:
            listed = list(stored if columns is None else columns)
        if len(set(listed)) < len(listed):
            raise InvalidInputError(f"a column is given twice: {', '.join(listed)}")
        self._names = [*(name for name in (*self._expressions, *listed) if name not in appended), *appended]
        system = [name for name in SYSTEM_COLUMNS if name not in stored]
        paths = [name for name in listed if name not in stored and name not in system]
        self.known = [*stored, *system]
        self.extra_columns = (*system, *paths)

    def query(self, where: str | None) -> str:
        """Return the query for the rows for which an SQL expression is true, or for all rows."""
        text = f"SELECT {self._items()} FROM {_TABLE}"
        if where is None:
            return text
        return f"{text} WHERE (\n{condition_to_datafusion(where, self.known)}\n)"

    def _items(self) -> str:
        return ", ".join(map(self._item, self._names)) or "NULL AS nothing"

    def _item(self, name: str) -> str:
        """Return the SQL for one output column. An expression takes precedence over an appended column."""
        if name not in self._expressions:
            return quote_identifier(name)
        return f"({to_datafusion(self._expressions[name], self.known)}) AS {quote_identifier(name)}"

    def output_schema(self, schema: pa.Schema) -> pa.Schema:
        return schema if self._names else pa.schema([])


def _planned_table(
    source: Scannable, request: ScanRequest, condition: pc.Expression | None, statement: Statement
) -> PlannedTable:
    """Return the only table of a statement. A single partition preserves the order of its rows."""
    scan = SourceScan(source=source, request=request, num_partitions=1, condition=condition)
    return statement.add_table(frozenset({(None, _TABLE)}), scan)


def _plan(text: str, table: PlannedTable, batch_rows: int, *, for_change: bool = False) -> Any:
    if any(_has_small_indices(field.type) for field in table.stored_schema):
        batch_rows = 1  # filters join smaller batches, whose dictionaries may have too many values together
    ctx = plain_context(SessionConfig().with_target_partitions(1).with_batch_size(batch_rows))
    slot = TableSlot(table)
    ctx.register_table(_TABLE, Table(slot))
    if calls_json_functions(text):
        register_json_functions(ctx)
    if "murmur3" in text.lower():
        from lance_df.compute.typed_calls import with_typed_calls

        register_udfs(ctx)
        text = with_typed_calls(
            text, TypedFunctions(ctx), lambda probe: ctx.sql(probe).optimized_logical_plan()
        )
    frame = ctx.sql(text)
    if for_change:
        _check_times(ctx, frame)
    plan = optimized_plan_of(frame)
    if holds_json(table.scan.source):
        from lance_df.engine.json_comparisons import check_json_comparisons

        check_json_comparisons(ctx, frame, [table])
    _check_rowwise(plan)
    scans = logical_scans(plan)
    table = requests_of({table.key: table}, plan, scans, can_prove=True)[table.key]
    if any(scan.is_blocked for scan in scans):
        view = ctx.read_table(Table(table.provider())).limit(NO_LIMIT).into_view()
        ctx.deregister_table(_TABLE)
        ctx.register_table(_TABLE, view)
        return ctx.sql(text)
    if len(scans) == 1 and table.scan.source.is_partitioned:
        from lance_df.engine.optimizer.rules.decided_filters import without_decided_filters

        try:
            undecided = without_decided_filters(ctx, plan, [(scans[0], table)])
        except Exception:  # noqa: BLE001 - if DataFusion rejects the new plan, the statement stays unchanged
            undecided = None
        if undecided is not None and undecided[0].schema() == frame.schema():
            frame = undecided[0]
            table = dataclasses.replace(table, scan=undecided[1][table.key])
    slot.complete(table)
    return frame


def _has_small_indices(data_type: pa.DataType) -> bool:
    """Whether dictionaries of a type, or below it, may have more values together than indices can number."""
    if pa.types.is_dictionary(data_type):
        return bool(data_type.index_type.bit_width < _LARGE_INDEX_BITS)
    return any(_has_small_indices(data_type.field(number).type) for number in range(data_type.num_fields))


def _check_times(ctx: PlainSessionContext, frame: DataFrame) -> None:
    from lance_df.engine.time_comparisons import check_time_comparisons

    check_time_comparisons(ctx, plan_of(frame))


def _check_rowwise(plan: PlanNode) -> None:
    """Raise an error if a plan does not give one row for each row: aggregates, windows, subqueries."""
    for node in nodes(plan):
        if node.kind in _CHANGES_ROWS:
            raise InvalidInputError(
                f"expressions are computed row by row; {node.kind.lower()}s are not supported here"
            )


def _batches(
    frame: Any, schema: pa.Schema, statement: Statement, *, at_once: bool = False
) -> Generator[pa.RecordBatch]:
    computed = (
        iter(run_apart([statement], frame.collect))
        if at_once
        else streamed_batches(frame.execute_stream, [statement])
    )
    for batch in computed:
        if not len(schema):
            yield batch.select([])
            continue
        for part in parts_of_texts(batch):
            columns = [
                column if column.type == field.type else column.cast(field.type)
                for column, field in zip(part.columns, schema, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)
