"""Update, delete and insert rows that a query has computed, in one commit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_df.format.operations import InsertedKeys, Update
from lance_df.records import dataclass
from lance_df.table.changes.merge_rows import Source, check_insertable, inserted_rows
from lance_df.table.changes.moved_rows import with_row_ids
from lance_df.table.changes.removal import rows_removed
from lance_df.table.changes.retry import Change
from lance_df.table.changes.row_set import RowSet
from lance_df.table.changes.update import MovedRows
from lance_df.table.changes.writing import rows_written
from lance_df.table.commit.row_account import RowChange

if TYPE_CHECKING:
    from lance_df.format.schema import Schema
    from lance_df.table.changes.row_set import Addresses
    from lance_df.table.table import Table

_ANY_KEYS = InsertedKeys((), None, is_primary=False)


@dataclass(frozen=True, slots=True)
class MergedRows:
    """The changes that a merge makes to the rows of some tables.

    Attributes
    ----------
    updated
        By position of the table, new values of some columns of its rows, with ``_rowaddr``.
    deleted
        By position of the table, addresses of its rows.
    inserted
        New rows; nullable columns may be missing.
    """

    updated: tuple[tuple[int, pa.RecordBatch], ...]
    deleted: tuple[tuple[int, Addresses], ...]
    inserted: pa.Table

    @property
    def num_deleted(self) -> int:
        """The number of deleted rows."""
        return sum(len(addresses) for _, addresses in self.deleted)

    def new_rows(self, schema: Schema) -> Iterator[pa.RecordBatch]:
        """Yield the inserted rows with all columns of a schema.

        Raises
        ------
        InvalidInputError
            They lack a column that is not nullable.
        """
        if not self.inserted.num_rows:
            return
        source = Source.of(self.inserted, schema)
        check_insertable(source, schema)
        yield from inserted_rows(schema, source, np.arange(self.inserted.num_rows))


@contextmanager
def rows_merged(table: Table, columns: list[str], rows: MergedRows) -> Iterator[Change[int]]:
    """Compute the merge of one table; the result is the number of changed rows.

    Parameters
    ----------
    columns
        The columns that are updated.
    """
    moved = MovedRows(table, columns)
    # inserted rows have values of all fields, by which other merges notice the keys
    assigned_columns = table.schema.names if rows.inserted.num_rows else columns
    assigned = {node.id for name in assigned_columns for node in table.schema.field(name).walk()}
    updated = moved.rows(batch for _, batch in rows.updated)
    with rows_written(table, table.schema, chain(updated, rows.new_rows(table.schema))) as fragments:
        removed = moved.left.union(RowSet.of(addresses for _, addresses in rows.deleted))
        new = with_row_ids(fragments, moved.row_ids()) if table.uses_stable_row_ids else fragments
        with rows_removed(table, removed) as removal:
            operation = Update(
                removal.removed_fragment_ids,
                removal.updated_fragments,
                new,
                fields_for_preserving_frag_bitmap=tuple(sorted(assigned)),
                inserted_keys=_ANY_KEYS if rows.inserted.num_rows else None,
            )
            num_new = len(moved.left) + rows.inserted.num_rows
            changed = RowChange(num_new, removed.live_counts(table))
            yield Change(operation, changed, removal.num_rows + rows.inserted.num_rows)
