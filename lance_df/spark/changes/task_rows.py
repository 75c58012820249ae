"""The changes of a task: remove rows from their fragments, and write new rows and new values."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import numpy as np

from lance_df.namespace.changes.staged import StagedPartitions, stage_partitions
from lance_df.namespace.member_tables import check_blobs_can_move
from lance_df.records import dataclass
from lance_df.table.changes.merge_rows import completed, updated_at
from lance_df.table.changes.moved_rows import fragment_runs, row_ids_at, with_row_ids
from lance_df.table.changes.removal import RemovedRows, rows_removed
from lance_df.table.changes.row_set import RowSet
from lance_df.table.changes.writing import rows_written
from lance_df.table.writing.job_names import files_named_for

if TYPE_CHECKING:
    import uuid
    from collections.abc import Iterable, Iterator, Mapping

    import numpy.typing as npt
    import pyarrow as pa

    from lance_df.format.fragments import Fragment
    from lance_df.format.operations import InsertedKeys
    from lance_df.format.schema import Schema
    from lance_df.spark.changes.targets import Targets
    from lance_df.table.changes.row_set import Addresses
    from lance_df.table.table import Table

_BATCH_ROWS = 64 * 1024


@dataclass(frozen=True, slots=True)
class TaskResult:
    """The result of a task whose files are written; it contains no rows.

    Attributes
    ----------
    left
        The removed rows, by the position of their table.
    fragments, staged
        The written rows of a table, or of the partitions of a namespace.
    num_inserted, num_updated, num_deleted
        Numbers of rows, counted when they were selected.
    keys
        The filter of inserted keys, for merges into tables.
    """

    left: dict[int, RemovedRows]
    fragments: tuple[Fragment, ...] = ()
    staged: StagedPartitions | None = None
    num_inserted: int = 0
    num_updated: int = 0
    num_deleted: int = 0
    keys: InsertedKeys | None = None


class ChangedRows:
    """Records the rows that a task changes, and completes new rows.

    Attributes
    ----------
    left
        The rows to remove from their fragments, by the position of their table.
    num_inserted, num_updated, num_deleted
        The numbers of rows so far.
    """

    def __init__(self, targets: Targets) -> None:
        self._targets = targets
        self._tables: dict[int, Table] = {}
        self._ids: list[npt.NDArray[np.uint64]] = [np.empty(0, np.uint64)]
        self.left: dict[int, RowSet] = {}
        self.num_inserted = 0
        self.num_updated = 0
        self.num_deleted = 0

    def table(self, number: int) -> Table:
        """Return a table, which is opened only once."""
        if number not in self._tables:
            self._tables[number] = self._targets.open(number)
        return self._tables[number]

    def row_ids(self) -> npt.NDArray[np.uint64]:
        """Return the stable row ids of the updated rows, in their order."""
        return np.concatenate(self._ids)

    def update(
        self, number: int, addresses: Addresses, values: pa.RecordBatch, given: Schema
    ) -> Iterator[pa.RecordBatch]:
        """Yield the whole rows at some addresses, with new values in some columns.

        Parameters
        ----------
        values, given
            The new values in stored types, and their columns.
        """
        table = self.table(number)
        if self._targets.schema is not None:
            check_blobs_can_move(table)
        for run in fragment_runs(addresses, max_rows=_BATCH_ROWS):
            here = addresses[run]
            part = values.slice(run.start, run.stop - run.start)
            self.left.setdefault(number, RowSet()).add(here)
            self.num_updated += len(here)
            if table.uses_stable_row_ids:
                self._ids.append(row_ids_at(table, here))
            yield updated_at(table, here, part, given)

    def delete(self, number: int, addresses: Addresses) -> None:
        """Record rows to delete."""
        self.left.setdefault(number, RowSet()).add(addresses)
        self.num_deleted += len(addresses)

    def insert(self, values: pa.RecordBatch, given: Schema, schema: Schema) -> pa.RecordBatch:
        """Return new rows with all columns."""
        self.num_inserted += values.num_rows
        return completed(values, given, schema, None)


def delete_rows(targets: Targets, job: uuid.UUID, rows: Mapping[int, Iterable[Addresses]]) -> TaskResult:
    """Write the deletion files for some rows of tables; after a failure, remove them."""
    changed = ChangedRows(targets)
    with files_named_for(job), ExitStack() as stack:
        removed: dict[int, RemovedRows] = {}
        for number, addresses in rows.items():
            for each in addresses:
                changed.delete(number, each)
            removed |= _removed(changed, stack, {number: changed.left.pop(number, RowSet())})
        return TaskResult(removed, num_deleted=changed.num_deleted)


def write_rows(
    targets: Targets, job: uuid.UUID, changed: ChangedRows, batches: Iterator[pa.RecordBatch]
) -> TaskResult:
    """Write whole rows, then the deletion files of the removed rows; after a failure, remove all files.

    Parameters
    ----------
    changed
        The record that the iteration over ``batches`` fills.
    """
    with files_named_for(job), ExitStack() as stack:
        fragments: tuple[Fragment, ...] = ()
        staged = None
        if targets.schema is None:
            table = changed.table(0)
            fragments = stack.enter_context(rows_written(table, table.schema, batches))
            if table.uses_stable_row_ids:
                fragments = with_row_ids(fragments, changed.row_ids())
        else:
            namespace = targets.source.open_namespace()
            columns = targets.schema.columns.to_arrow()
            staged = stage_partitions(
                namespace.root, namespace.manifest, columns, batches, str(job), statistics=True
            )
        return TaskResult(
            _removed(changed, stack, changed.left),
            fragments,
            staged,
            changed.num_inserted,
            changed.num_updated,
            changed.num_deleted,
        )


def _removed(changed: ChangedRows, stack: ExitStack, rows: Mapping[int, RowSet]) -> dict[int, RemovedRows]:
    removed = {}
    for number, of_table in rows.items():
        table = changed.table(number)
        removal = stack.enter_context(rows_removed(table, of_table))
        if removal.num_rows:
            counts = {id_: count for id_, count in of_table.live_counts(table).items() if count}
            removed[number] = RemovedRows(removal, counts)
    return removed
