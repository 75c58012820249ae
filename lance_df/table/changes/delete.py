"""Delete rows."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from lance_df.format.operations import Delete
from lance_df.table.changes.removal import rows_removed
from lance_df.table.changes.retry import Change
from lance_df.table.commit.row_account import RowChange

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lance_df.table.changes.row_set import RowSet
    from lance_df.table.table import Table


@contextmanager
def deletion(table: Table, rows: RowSet, *, predicate: str) -> Iterator[Change[int]]:
    """Compute the deletion of rows; the result is their number.

    Parameters
    ----------
    predicate
        The text that the transaction records; it is not evaluated.
    """
    with rows_removed(table, rows) as removal:
        operation = Delete(removal.updated_fragments, removal.removed_fragment_ids, predicate)
        yield Change(operation, RowChange(deleted=rows.live_counts(table)), removal.num_rows)
