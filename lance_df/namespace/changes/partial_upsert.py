"""Upsert rows without all columns: existing rows keep their values there, and new rows get NULL."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lance_df.namespace.changes.update import RowsRewritten
from lance_df.table.changes.merge_rows import Source, inserted_rows, updated_rows
from lance_df.table.changes.row_set import RowSet

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from lance_df.format.schema import Schema
    from lance_df.namespace.changes.keyed_rows import KeyedRows
    from lance_df.namespace.spec.partition_spec import PartitionSpec
    from lance_df.table.changes.matching import Matches
    from lance_df.table.table import Table


class PartialUpsert(RowsRewritten):
    """The change that updates some columns of the rows with some keys, and adds rows with new keys.

    Parameters
    ----------
    spec
        The spec that partitions the rows.
    rows
        The rows with the keys. The columns that they lack must be nullable.
    """

    def __init__(self, spec: PartitionSpec, rows: KeyedRows, *, text: str) -> None:
        super().__init__(spec, rows.candidates, text=text)
        self._keyed = rows
        self._source = Source(rows.rows, rows.schema)

    @property
    def num_updated(self) -> int:
        """The number of updated rows."""
        return self.num_rows

    def _rewritten(
        self, schema: Schema, tables: Sequence[Table]
    ) -> tuple[Iterator[pa.RecordBatch], Sequence[RowSet]]:
        matched = self._keyed.matches(tables)
        is_new = np.ones(self._source.rows.num_rows, np.bool_)
        for matches in matched:
            is_new[matches.rows] = False
        self.num_inserted = int(is_new.sum())
        left = [RowSet.of([matches.addresses]) for matches in matched]
        return self._batches(schema, tables, matched, np.flatnonzero(is_new)), left

    def _batches(
        self, schema: Schema, tables: Sequence[Table], matched: Sequence[Matches], new: np.ndarray
    ) -> Iterator[pa.RecordBatch]:
        for table, matches in zip(tables, matched, strict=True):
            yield from updated_rows(table, self._source, matches)
        yield from inserted_rows(schema, self._source, new)
