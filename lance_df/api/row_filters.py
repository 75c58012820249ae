"""Which rows an expression means, asked of the engine; and the checks of what callers hand over."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from lance_df.errors import InvalidInputError, UnsupportedFeatureError
from lance_df.table.changes.retry import RetryOptions
from lance_df.table.system_columns import ROW_ADDRESS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lance_df.scan_options import Filter
    from lance_df.table.changes.row_set import Addresses
    from lance_df.table.table import Table


def matching_rows(
    table: Table, where: Filter, *, fragment_ids: tuple[int, ...] | None = None
) -> Iterator[Addresses]:
    """Yield the addresses of the rows for which a filter is true; ``None`` for all rows.

    Raises
    ------
    InvalidInputError, ColumnNotFoundError
        The filter is wrong.
    UnsupportedFeatureError
        See :func:`check_addressable`.
    """
    from lance_df.engine.query import scan_with_sql

    check_addressable(table)
    reader = scan_with_sql(
        table,
        columns=[ROW_ADDRESS],
        filter=where if isinstance(where, str) else None,
        condition=where if isinstance(where, pc.Expression) else None,
        fragment_ids=fragment_ids,
    )
    with reader:
        for batch in reader:
            yield batch.column(0).to_numpy()


def check_addressable(table: Table) -> None:
    """Check that no column hides where rows are.

    Raises
    ------
    UnsupportedFeatureError
        The table has a column of a reserved name.
    """
    if ROW_ADDRESS in table.schema.names:
        raise UnsupportedFeatureError(
            f"{table.uri}: a column is called {ROW_ADDRESS!r}; rename it before rows are changed"
        )


def checked_filter(where: Any, name: str) -> str | pc.Expression:
    """Return an SQL or pyarrow expression; anything else is an `InvalidInputError`."""
    if not isinstance(where, str | pc.Expression):
        raise InvalidInputError(f"{name} is an SQL or pyarrow expression, not {where!r:.60}")
    return where


def retry_options(conflict_retries: Any, retry_timeout: Any) -> RetryOptions:
    """Return how to retry, from pylance's arguments; other types are an `InvalidInputError`."""
    if not isinstance(conflict_retries, int) or not isinstance(retry_timeout, dt.timedelta):
        raise InvalidInputError(
            "conflict_retries is an integer and retry_timeout a timedelta, "
            f"not {conflict_retries!r:.60} and {retry_timeout!r:.60}"
        )
    return RetryOptions(retries=conflict_retries, timeout=retry_timeout.total_seconds())
