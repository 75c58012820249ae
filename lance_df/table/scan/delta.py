"""Find the changes between two versions of a branch, by the row versions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.errors import UnsupportedFeatureError
from lance_df.scan.request import Promise, ScanRequest
from lance_df.scan.run import run_tasks
from lance_df.sliced_lists import unsliced
from lance_df.table.reading.system_columns import CREATED_AT, LAST_UPDATED_AT, ROW_ID
from lance_df.table.scan.plan import plan_scan

if TYPE_CHECKING:
    from collections.abc import Generator

    from lance_df.table.table import Table


def changed_rows(
    table: Table, begin: int, end: int, *, inserted: bool
) -> tuple[pa.Schema, Generator[pa.RecordBatch]]:
    """Return rows that were inserted, or existing rows that were updated, after ``begin`` and up to ``end``.

    Parameters
    ----------
    table
        Version ``end``.

    Raises
    ------
    UnsupportedFeatureError
        The table has no stable row ids, so its rows have no versions.
    """
    _check_stable(table)
    columns = (*table.schema.names, ROW_ID, CREATED_AT, LAST_UPDATED_AT)
    plan = plan_scan(table, ScanRequest(columns=columns, requires=Promise.COMPLETE))

    def batches() -> Generator[pa.RecordBatch]:
        for batch in run_tasks(plan.tasks):
            created, updated = batch.column(CREATED_AT), batch.column(LAST_UPDATED_AT)
            marked = created if inserted else updated
            chosen = pc.and_(pc.greater(marked, begin), pc.less_equal(marked, end))
            if not inserted:
                chosen = pc.and_(chosen, pc.less_equal(created, begin))
            rows = unsliced(batch).filter(chosen)
            if rows.num_rows:
                yield rows

    return plan.schema, batches()


def deleted_row_ids(before: Table, after: Table) -> pa.Array:
    """Return the ids of rows that exist in one version and not in a later one.

    Raises
    ------
    UnsupportedFeatureError
        The table has no stable row ids.
    """
    for table in (before, after):
        _check_stable(table)
    return pa.array(np.setdiff1d(_row_ids(before), _row_ids(after), assume_unique=True))


def _row_ids(table: Table) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    batches = run_tasks(plan_scan(table, ScanRequest(columns=(ROW_ID,), requires=Promise.COMPLETE)).tasks)
    parts = [batch.column(0).to_numpy() for batch in batches]
    return np.concatenate([np.empty(0, np.uint64), *parts])


def _check_stable(table: Table) -> None:
    if not table.uses_stable_row_ids:
        raise UnsupportedFeatureError(
            f"{table.uri}: changes between versions require stable row ids; create the table with "
            "enable_stable_row_ids=True"
        )
