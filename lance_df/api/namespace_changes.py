"""Change a partitioned namespace: one change, or several at once."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from lance_df.api.row_filters import check_addressable
from lance_df.engine.pushed_condition import pushed_condition
from lance_df.engine.query import scan_with_sql
from lance_df.errors import InvalidInputError
from lance_df.namespace.changes import PendingChanges
from lance_df.namespace.evolution import with_new_spec
from lance_df.namespace.numbered_members import MEMBER, NumberedMembers
from lance_df.sources import to_batches
from lance_df.table.system_columns import ROW_ADDRESS

if TYPE_CHECKING:
    from lance_df.api.row_changes import DeleteResult
    from lance_df.namespace.delete import Deletion
    from lance_df.namespace.partition_by import PartitionBy
    from lance_df.namespace.snapshot import NamespaceSnapshot
    from lance_df.table.changes.row_set import Addresses
    from lance_df.table.table import Table


class NamespaceTransaction:
    """Changes that show at once when the block ends, or never. Made by `PartitionedNamespace.transaction`."""

    def __init__(self, snapshot: NamespaceSnapshot, pending: PendingChanges) -> None:
        self._snapshot = snapshot
        self._pending: PendingChanges | None = pending

    def append(self, data: Any) -> None:
        """Add rows; see `PartitionedNamespace.append`."""
        schema, batches = to_batches(data, None)
        self._open().append(schema, batches)

    def overwrite_partitions(self, data: Any) -> None:
        """Replace partitions; see `PartitionedNamespace.overwrite_partitions`."""
        schema, batches = to_batches(data, None)
        self._open().overwrite_partitions(schema, batches)

    def delete(self, predicate: str) -> None:
        """Delete rows, those that this transaction has added too; see `PartitionedNamespace.delete`."""
        self._delete(predicate)

    def _delete(self, predicate: str) -> Deletion:
        if not isinstance(predicate, str):
            raise InvalidInputError(f"predicate is an SQL expression, not {predicate!r:.60}")
        condition = pushed_condition(self._snapshot, predicate)
        return self._open().delete(
            condition, lambda tables: _matching_rows(self._snapshot, tables, predicate), text=predicate
        )

    def _open(self) -> PendingChanges:
        if self._pending is None:
            raise InvalidInputError("the transaction has ended")
        return self._pending

    def _end(self) -> None:
        self._pending = None


class NamespaceChanges:
    """Change a namespace. The object moves on to the version that a change makes.

    A change stands on the newest version. When others publish theirs first, it is made again on top of that,
    as far as it is not what it was: the result is that of one after the other.
    """

    def __init__(self, snapshot: NamespaceSnapshot) -> None:
        self._table = snapshot

    @contextmanager
    def transaction(self, *, rebase: bool = True) -> Iterator[NamespaceTransaction]:
        """Collect changes in a block, and publish all of them in one version when it ends.

        They are made in their order, and see what those before them did. When the block raises, nothing
        happens. Readers see all changes or none, this object too.

        Parameters
        ----------
        rebase
            Make the changes on top of the newest version, whatever others have published. With False they
            stand on the version that this object is at, and fail if there is another by then: for changes
            that follow from what was read.

        Raises
        ------
        RetryableConflictError
            Others have published a version, and ``rebase`` is False; or they have changed the schema.
        CommitStateUnknownError
            It is not known whether the changes were published.
        """
        snapshot = self._table.latest() if rebase else self._table
        with PendingChanges(snapshot.root, snapshot.manifest) as pending:
            transaction = NamespaceTransaction(snapshot, pending)
            try:
                yield transaction
            finally:
                transaction._end()
            self._table = snapshot.of(pending.publish(rebase=rebase))

    def append(self, data: Any) -> None:
        """Add rows, to all partitions at once or to none.

        Parameters
        ----------
        data
            As for `lance_df.write_dataset`. Columns that may be null may be missing.

        Raises
        ------
        InvalidInputError
            Rows that do not fit, or for which a partition expression fails.
        ConflictError
            The schema changed meanwhile, or others were faster again and again.
        CommitStateUnknownError
            It is not known whether the rows were added.
        """
        with self.transaction() as transaction:
            transaction.append(data)

    def overwrite_partitions(self, data: Any) -> None:
        """Replace the partitions that occur in some rows with these rows; the others stay.

        A partition is what has the same values of the current spec: rows that earlier versions of the spec
        have stored elsewhere are replaced too.

        Raises
        ------
        InvalidInputError, ConflictError, CommitStateUnknownError
            See `append`.
        """
        with self.transaction() as transaction:
            transaction.overwrite_partitions(data)

    def delete(self, predicate: str) -> DeleteResult:
        """Delete the rows for which an SQL expression is true, in all partitions at once or in none.

        Returns
        -------
        ``{"num_deleted_rows": …}``.

        Raises
        ------
        InvalidInputError, ColumnNotFoundError
            The predicate is wrong.
        ConflictError
            The schema changed meanwhile, or others were faster again and again.
        CommitStateUnknownError
            It is not known whether the rows were deleted.
        """
        with self.transaction() as transaction:
            deletion = transaction._delete(predicate)
        return {"num_deleted_rows": deletion.num_rows}

    def update_partition_spec(self, partition_by: Sequence[PartitionBy | str]) -> None:
        """Partition rows that are appended from now on in another way.

        What is there already stays where it is, and is found by the version of the spec that it was written
        with. A field that an earlier version has keeps its id.

        Raises
        ------
        ColumnNotFoundError, InvalidInputError
            A partition field does not fit the schema, or one of an earlier version.
        ConflictError
            Others were faster again and again.
        """
        latest = self._table.latest()
        self._table = latest.of(with_new_spec(latest.manifest, partition_by))


def _matching_rows(
    snapshot: NamespaceSnapshot, tables: Sequence[Table], where: str
) -> Iterator[tuple[int, Addresses]]:
    """Yield positions of tables, and addresses of rows there for which an SQL expression is true."""
    for table in tables:
        check_addressable(table)
    members = NumberedMembers(snapshot, tables)
    with scan_with_sql(members, columns=[MEMBER.name, ROW_ADDRESS], filter=where) as reader:
        for batch in reader:
            numbers, addresses = (column.to_numpy() for column in batch.columns)
            starts = np.flatnonzero(np.diff(numbers, prepend=-1)).tolist()
            for start, stop in itertools.pairwise([*starts, len(numbers)]):
                yield int(numbers[start]), addresses[start:stop]
