"""System columns, which no data file holds: the address of a row, its id, and the versions that wrote it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_df.encodings.plan import RowRange
from lance_df.encodings.rows import as_positions
from lance_df.table.metadata.row_counts import live_rows
from lance_df.table.reading.deletions import deleted_offsets

if TYPE_CHECKING:
    import numpy.typing as npt

    from lance_df.encodings.plan import Rows
    from lance_df.format.fragments import Fragment
    from lance_df.table.table import Table

ROW_ID = "_rowid"
ROW_ADDRESS = "_rowaddr"
ROW_OFFSET = "_rowoffset"
CREATED_AT = "_row_created_at_version"
LAST_UPDATED_AT = "_row_last_updated_at_version"

SYSTEM_COLUMNS = (ROW_ID, ROW_ADDRESS, ROW_OFFSET, CREATED_AT, LAST_UPDATED_AT)
"""All are uint64. A table's own column of the same name hides the system column."""


def system_schema(schema: pa.Schema) -> pa.Schema:
    """Return ``schema`` with the system columns that it does not hide."""
    for name in SYSTEM_COLUMNS:
        if name not in schema.names:
            schema = schema.append(pa.field(name, pa.uint64()))
    return schema


def system_column(table: Table, position: int, name: str, rows: Rows) -> pa.Array:
    """Return a system column for physical rows of the fragment at a position of the table's list.

    Deleted rows also have ids here; the scan makes them null.
    """
    fragment = table.fragments[position]
    if name == ROW_OFFSET:
        before = int(live_rows(table, np.arange(position)).sum())
        return pa.array(_offsets(table, fragment, as_positions(rows)) + np.uint64(before))
    if name == ROW_ID and table.uses_stable_row_ids:
        runs = table.row_ids(fragment)
    elif name in (ROW_ID, ROW_ADDRESS):
        return pa.array(_addresses(fragment.id << 32, rows))
    else:
        created, updated = table.row_version_sequences(fragment)
        runs = created if name == CREATED_AT else updated
    if isinstance(rows, RowRange):
        return pa.array(runs.slice(rows.start, rows.stop))
    return pa.array(runs.take(rows))


def _offsets(table: Table, fragment: Fragment, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """Return how many live rows of the fragment precede each row."""
    deleted = table.deletion_vector(fragment)
    if deleted is not None and len(deleted):
        positions = positions - np.searchsorted(deleted_offsets(deleted), positions)
    return positions.astype(np.uint64)


def _addresses(first: int, rows: Rows) -> npt.NDArray[np.uint64]:
    if isinstance(rows, RowRange):
        return np.arange(first + rows.start, first + rows.stop, dtype=np.uint64)
    return rows.astype(np.uint64) + np.uint64(first)
