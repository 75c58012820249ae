"""Update, delete and insert rows of many partitions that a query has computed."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from lance_df.namespace.changes.update import RowsRewritten
from lance_df.table.changes.update import MovedRows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    from lance_df.format.schema import Schema
    from lance_df.namespace.spec.partition_spec import PartitionSpec
    from lance_df.table.changes.merged_rows import MergedRows
    from lance_df.table.changes.row_set import RowSet
    from lance_df.table.table import Table


class RowMerge(RowsRewritten):
    """The change that applies a merge.

    Parameters
    ----------
    spec
        The spec that partitions inserted and updated rows.
    columns
        Top-level columns that are updated.
    compute
        Computes the changes of rows, given the tables of all members.
    text
        See `RowsReplaced`.
    """

    def __init__(
        self,
        spec: PartitionSpec,
        columns: Sequence[str],
        compute: Callable[[Sequence[Table]], MergedRows],
        *,
        text: str,
    ) -> None:
        super().__init__(spec, lambda draft: draft.members_that_may_match(None), text=text)
        self._columns = list(columns)
        self._compute = compute

    def _rewritten(
        self, schema: Schema, tables: Sequence[Table]
    ) -> tuple[Iterator[pa.RecordBatch], Sequence[RowSet]]:
        rows = self._compute(tables)
        self.num_inserted, self.num_deleted = rows.inserted.num_rows, rows.num_deleted
        moved = [MovedRows(table, self._columns) for table in tables]
        for number, addresses in rows.deleted:
            moved[number].left.add(addresses)
        updated = (batch for number, values in rows.updated for batch in moved[number].rows([values]))
        return chain(updated, rows.new_rows(schema)), [each.left for each in moved]
