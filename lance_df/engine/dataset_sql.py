"""SQL over one version of one table, for `LanceDataset.sql`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lance_df.engine.failures import streamed_batches
from lance_df.engine.session import SessionContext
from lance_df.engine.tables.source import TableSource
from lance_df.exits import stoppable

if TYPE_CHECKING:
    from lance_df.table.table import Table


def run_sql(
    table: Table, sql: str, name: str, extra_columns: tuple[str, ...], batch_rows: int | None
) -> pa.RecordBatchReader:
    """Run a statement over one table.

    Parameters
    ----------
    name
        The name of the table in the statement.
    extra_columns
        System columns that the table shows in addition to its stored columns.
    batch_rows
        The maximum number of rows of a batch.

    Raises
    ------
    LanceError
        The statement is invalid, or stored bytes cannot be read.
    """
    context = SessionContext()
    context.register_table(name, TableSource(table, is_pinned=True, extra_columns=extra_columns))
    frame = context.sql(sql)
    batches = streamed_batches(frame.execute_stream, frame.statements)
    slices = (
        batch.slice(start, batch_rows)
        for batch in batches
        for start in range(0, max(batch.num_rows, 1), batch_rows or max(batch.num_rows, 1))
    )
    return pa.RecordBatchReader.from_batches(frame.schema(), stoppable(slices))
