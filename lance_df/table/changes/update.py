"""Update rows: write them with new values to new fragments, and delete the old rows."""

from __future__ import annotations

from contextlib import closing, contextmanager
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_df.encodings.arrays import in_halves, one_array
from lance_df.format.operations import Update
from lance_df.table.blobs.moved import take_whole
from lance_df.table.changes.moved_rows import fragment_runs, row_ids_at, with_row_ids
from lance_df.table.changes.removal import rows_removed
from lance_df.table.changes.retry import Change
from lance_df.table.changes.row_set import RowSet
from lance_df.table.changes.writing import rows_written
from lance_df.table.commit.row_account import RowChange
from lance_df.table.reading.prefetch import map_ahead
from lance_df.table.reading.system_columns import ROW_ADDRESS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import numpy.typing as npt

    from lance_df.table.changes.row_set import Addresses
    from lance_df.table.table import Table

_BATCH_ROWS = 64 * 1024
_BATCHES_AHEAD = 2
_COLUMNS_AT_ONCE = 4


@contextmanager
def row_update(table: Table, columns: list[str], values: Iterable[pa.RecordBatch]) -> Iterator[Change[int]]:
    """Compute an update; the result is the number of rows.

    Parameters
    ----------
    columns
        The top-level columns that get new values.
    values
        The ``_rowaddr`` of each row to update, and the new values of these columns, of the table's types.
        Consumed one batch at a time.

    Raises
    ------
    InvalidInputError
        There is a null in a column that is not nullable.
    """
    moved = MovedRows(table, columns)
    with rows_written(table, table.schema, moved.rows(values)) as fragments:
        assigned = {node.id for name in columns for node in table.schema.field(name).walk()}
        with rows_removed(table, moved.left) as removal:
            operation = Update(
                removal.removed_fragment_ids,
                removal.updated_fragments,
                with_row_ids(fragments, moved.row_ids()),
                fields_for_preserving_frag_bitmap=tuple(sorted(assigned)),
            )
            rows = RowChange(len(moved.left), moved.left.live_counts(table))
            yield Change(operation, rows, removal.num_rows)


class MovedRows:
    """Completes new values of some columns to whole rows, and records which rows they replace.

    Attributes
    ----------
    left
        The rows that were completed so far.
    """

    def __init__(self, table: Table, columns: list[str]) -> None:
        self.left = RowSet()
        self._table = table
        self._names = table.schema.names
        self._others = [name for name in self._names if name not in columns]
        self._ids: list[npt.NDArray[np.uint64]] = [np.empty(0, np.uint64)]

    def row_ids(self) -> npt.NDArray[np.uint64]:
        """Return the stable row ids of the rows that were completed so far."""
        return np.concatenate(self._ids)

    def rows(self, values: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield whole rows for batches of new values with their ``_rowaddr``."""
        runs = (
            batch.slice(run.start, run.stop - run.start)
            for batch in values
            # dictionaries of different fragments might not fit into one array
            for run in fragment_runs(batch.column(ROW_ADDRESS).to_numpy(), max_rows=_BATCH_ROWS)
        )
        with closing(map_ahead(self._completed, runs, ahead=_BATCHES_AHEAD)) as completed:
            for addresses, batch in chain.from_iterable(completed):
                self.left.add(addresses)
                if self._table.uses_stable_row_ids:
                    self._ids.append(row_ids_at(self._table, addresses))
                yield batch

    def _completed(self, values: pa.RecordBatch) -> list[tuple[Addresses, pa.RecordBatch]]:
        """Return whole rows in one batch, or in several if one array cannot hold them."""

        def complete(start: int, stop: int) -> tuple[Addresses, pa.RecordBatch]:
            part = values.slice(start, stop - start)
            addresses = part.column(ROW_ADDRESS).to_numpy()
            return addresses, _joined(part, self._stored(addresses), self._names)

        return list(in_halves(complete, 0, values.num_rows))

    def _stored(self, addresses: Addresses) -> dict[str, pa.ChunkedArray]:
        """Return the columns that are not updated.

        Pages are released after each group of columns: scattered rows touch most pages of a mapped file,
        which count as memory of the process until then.
        """
        columns: dict[str, pa.ChunkedArray] = {}
        fragments = [self._table.fragment(int(id_)) for id_ in np.unique(addresses >> np.uint64(32))]
        for start in range(0, len(self._others), _COLUMNS_AT_ONCE):
            names = self._others[start : start + _COLUMNS_AT_ONCE]
            taken = take_whole(self._table, addresses, columns=names)
            columns |= zip(names, taken.columns, strict=True)
            self._table.release_pages(fragments)
        return columns


def _joined(batch: pa.RecordBatch, others: Mapping[str, pa.ChunkedArray], names: list[str]) -> pa.RecordBatch:
    arrays = [batch.column(name) if name in batch.schema.names else one_array(others[name]) for name in names]
    return pa.RecordBatch.from_arrays(arrays, names)
