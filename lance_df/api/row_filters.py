"""Find the rows that match an expression, and check filter and retry arguments."""

from __future__ import annotations

import datetime as dt
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from lance_df.arguments import checked_integer, checked_type
from lance_df.errors import InvalidInputError, UnsupportedFeatureError
from lance_df.expr.nodes import Literal
from lance_df.interrupts import imports_finished
from lance_df.scan.request import Promise, ScanRequest
from lance_df.scan.run import run_tasks
from lance_df.table.changes.retry import RetryOptions
from lance_df.table.reading.system_columns import ROW_ADDRESS
from lance_df.table.scan.plan import plan_scan

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from lance_df.expr.nodes import Predicate
    from lance_df.scanner_options import Filter
    from lance_df.table.changes.row_set import Addresses
    from lance_df.table.table import Table

# Windows are large because a filter reads few columns and returns few rows.
_WINDOW_ROWS = 1024 * 1024
_REMOTE_THREADS = 8


def matching_rows(
    table: Table, where: Filter, *, fragment_ids: tuple[int, ...] | None = None
) -> Iterator[Addresses]:
    """Yield the addresses of the rows for which a filter is true; the filter ``None`` means all rows.

    Raises
    ------
    InvalidInputError, ColumnNotFoundError
        The filter is invalid.
    UnsupportedFeatureError
        See :func:`check_addressable`.
    """
    check_addressable(table)
    predicate = _plain(table, where)
    if predicate is not None:
        request = ScanRequest(
            columns=(),
            predicate=predicate,
            with_row_address=True,
            window_rows=_WINDOW_ROWS,
            fragment_ids=fragment_ids,
            requires=Promise.COMPLETE,
        )
        threads = None if table.location.is_local else _REMOTE_THREADS
        with closing(run_tasks(plan_scan(table, request).tasks, num_threads=threads)) as batches:
            yield from map(_addresses, batches)
        return
    from lance_df.engine.query import scan_with_sql

    reader = scan_with_sql(
        table,
        columns=[ROW_ADDRESS],
        filter=where,
        window_rows=_WINDOW_ROWS,
        fragment_ids=fragment_ids,
        for_change=True,
    )
    with reader:
        yield from map(_addresses, reader)


def _addresses(batch: pa.RecordBatch) -> Addresses:
    addresses: Addresses = batch.column(0).to_numpy()
    return addresses


def _plain(table: Table, where: Filter) -> Predicate | None:
    """Return a filter as a predicate, or None if it needs the engine."""
    if isinstance(where, str):
        with imports_finished():
            from lance_df.sql.plain_predicates import plain_predicate

        return plain_predicate(where, table.arrow_schema)
    if where is None:
        return Literal(True)
    return None


def check_addressable(table: Table) -> None:
    """Check that no column has the reserved name of the row address, which it would hide.

    Raises
    ------
    UnsupportedFeatureError
        The table has a column with a reserved name.
    """
    if ROW_ADDRESS in table.schema.names:
        raise UnsupportedFeatureError(
            f"{table.uri}: the column name {ROW_ADDRESS!r} is reserved; rename the column before you change "
            "rows"
        )


def checked_filter(where: Any, name: str) -> str | pc.Expression:
    """Return the expression that selects the rows to change, after `check_meaning`.

    Raises `InvalidInputError` for anything but SQL text and pyarrow expressions.
    """
    if not isinstance(where, str | pc.Expression):
        raise InvalidInputError(f"{name} must be an SQL or pyarrow expression, got {where!r:.60}")
    if isinstance(where, str):
        check_meaning(where)
    return where


def check_meaning(expression: str) -> None:
    """Check that DataFusion parses an expression that selects or changes rows as standard SQL does.

    Raises
    ------
    UnsupportedFeatureError
        DataFusion may parse the expression differently; see `lance_df.sql.distinct_from`.
    """
    if "distinct" in expression.lower():
        with imports_finished():
            from lance_df.sql.distinct_from import check_distinct_from

        check_distinct_from(expression)


def retry_options(conflict_retries: Any, retry_timeout: Any) -> RetryOptions:
    """Return the retry options for pylance's arguments. Raises `InvalidInputError` for other types."""
    retries = checked_integer(conflict_retries, "conflict_retries")
    timeout = checked_type(retry_timeout, "retry_timeout", dt.timedelta, "a datetime.timedelta")
    return RetryOptions(retries=retries, timeout=timeout.total_seconds())
