"""Change a partitioned namespace: one change, or several at once."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from lance_df.api.merge_insert import key_columns
from lance_df.api.namespace_columns import ColumnMethods
from lance_df.api.namespace_rows import rows_to_store
from lance_df.api.row_changes import checked_updates, text_hint, updated_fields
from lance_df.api.row_filters import check_addressable, checked_filter
from lance_df.engine.pruning.pushed_condition import pushed_condition
from lance_df.engine.query import scan_with_sql
from lance_df.errors import InvalidInputError
from lance_df.interrupts import interrupted_once
from lance_df.namespace.changes.evolution import with_new_spec
from lance_df.namespace.changes.keyed_rows import Duplicates
from lance_df.namespace.changes.numbered_members import MEMBER, NumberedMembers
from lance_df.namespace.changes.stages import Stages
from lance_df.sql.expressions import with_quoted_columns
from lance_df.table.reading.batches import source_closed
from lance_df.table.reading.system_columns import ROW_ADDRESS

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc

    from lance_df.api.merge_insert import MergeResult
    from lance_df.api.row_changes import DeleteResult, UpdateResult
    from lance_df.format.schema import Field
    from lance_df.namespace.changes.column_changes import ColumnChange
    from lance_df.namespace.changes.delete import Deletion
    from lance_df.namespace.changes.partial_upsert import PartialUpsert
    from lance_df.namespace.changes.pending import Upsert
    from lance_df.namespace.changes.update import RowUpdate
    from lance_df.namespace.snapshot import NamespaceSnapshot
    from lance_df.namespace.spec.partition_by import PartitionBy
    from lance_df.table.changes.row_set import Addresses
    from lance_df.table.table import Table


class NamespaceTransaction(ColumnMethods):
    """Changes that show at once when the block ends, or never. Made by `PartitionedNamespace.transaction`.

    What comes after a change of columns knows them as they are then.
    """

    def __init__(self, stages: Stages) -> None:
        self._stages: Stages | None = stages

    def append(self, data: Any, *, statistics: bool | None = None) -> None:
        """Add rows; see `PartitionedNamespace.append`."""
        _check_statistics(statistics)
        stages = self._open()
        schema, batches = rows_to_store(data, stages.snapshot.manifest.schema.columns)
        with source_closed(batches):
            stages.rows.append(schema, batches, statistics=statistics)

    def overwrite_partitions(self, data: Any, *, statistics: bool | None = None) -> None:
        """Replace partitions; see `PartitionedNamespace.overwrite_partitions`."""
        _check_statistics(statistics)
        stages = self._open()
        schema, batches = rows_to_store(data, stages.snapshot.manifest.schema.columns)
        with source_closed(batches):
            stages.rows.overwrite_partitions(schema, batches, statistics=statistics)

    def delete(self, predicate: str | pc.Expression) -> None:
        """Delete rows, those that this transaction has added too; see `PartitionedNamespace.delete`."""
        self._delete(predicate)

    def _delete(self, predicate: str | pc.Expression) -> Deletion:
        where = checked_filter(predicate, "predicate")
        stages = self._open()
        snapshot = stages.snapshot
        where = _with_quoted_columns(where, snapshot)
        condition = pushed_condition(snapshot, where)
        return stages.rows.delete(
            condition, lambda tables: _matching_rows(snapshot, tables, where), text=str(where)
        )

    def upsert(self, data: Any, on: str | Iterable[str] | None = None, *, duplicates: str = "error") -> None:
        """Replace rows by their keys and add new ones; see `PartitionedNamespace.upsert`."""
        self._upsert(data, on, duplicates=duplicates)

    def _upsert(
        self, data: Any, on: str | Iterable[str] | None, *, duplicates: str
    ) -> Upsert | PartialUpsert:
        if duplicates not in list(Duplicates):
            known = ", ".join(repr(each.value) for each in Duplicates)
            raise InvalidInputError(f"duplicates is {duplicates!r}; use {known}")
        stages = self._open()
        columns = stages.snapshot.manifest.schema.columns
        names = key_columns(columns, on)
        schema, batches = rows_to_store(data, columns)
        with source_closed(batches):
            return stages.rows.upsert(schema, batches, on=names, duplicates=Duplicates(duplicates))

    def update(self, updates: Mapping[str, str], where: str | pc.Expression | None = None) -> None:
        """Give rows other values, those added here too; see `PartitionedNamespace.update`."""
        self._update(updates, where)

    def _update(self, updates: Mapping[str, str], where: str | pc.Expression | None) -> RowUpdate:
        expressions = written = checked_updates(updates)
        stages = self._open()
        snapshot = stages.snapshot
        schema = snapshot.manifest.schema.columns
        fields = updated_fields(schema, expressions)
        names = snapshot.arrow_schema.names
        expressions = {name: with_quoted_columns(text, names) for name, text in expressions.items()}
        if where is not None:
            where = _with_quoted_columns(checked_filter(where, "where"), snapshot)
        condition = None if where is None else pushed_condition(snapshot, where)

        def values(tables: Sequence[Table]) -> Iterator[tuple[int, pa.RecordBatch]]:
            return _rows_by_member(snapshot, tables, expressions, where, fields)

        # wrong expressions are an error at once, and where there are no rows, too
        with text_hint(written, fields, names):
            next(values(()), None)
        return stages.rows.update(
            list(expressions), condition, values, text=f"update {'' if where is None else where}"
        )

    def _change_columns(self, change: Callable[[NamespaceSnapshot], ColumnChange]) -> None:
        stages = self._open()
        stages.change_columns(change(stages.snapshot))

    def _open(self) -> Stages:
        if self._stages is None:
            raise InvalidInputError("the transaction has ended")
        return self._stages

    def _end(self) -> None:
        self._stages = None


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
        with interrupted_once(), Stages(snapshot) as stages:
            transaction = NamespaceTransaction(stages)
            try:
                yield transaction
            finally:
                transaction._end()
            self._table = snapshot.of(stages.publish(rebase=rebase))

    def append(self, data: Any, *, statistics: bool | None = None) -> None:
        """Add rows, to all partitions at once or to none.

        Parameters
        ----------
        data
            As for `lance_df.write_dataset`: frames, relations, files and globs among it; or batches. Columns
            that may be null may be missing; those of CSV files are read in the types of the namespace. Values
            of another width, unit or layout of the same kind are taken where they fit.
        statistics
            Whether to build zone map indices (smallest and largest value of every 8192 rows) for every column
            of a suitable type. By default for partitions that get more than 8192 rows.

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
            transaction.append(data, statistics=statistics)

    def overwrite_partitions(self, data: Any, *, statistics: bool | None = None) -> None:
        """Replace the partitions that occur in some rows with these rows; the others stay.

        A partition is what has the same values of the current spec: rows that earlier versions of the spec
        have stored elsewhere are replaced too.

        Raises
        ------
        InvalidInputError, ConflictError, CommitStateUnknownError
            See `append`.
        """
        with self.transaction() as transaction:
            transaction.overwrite_partitions(data, statistics=statistics)

    def delete(self, predicate: str | pc.Expression) -> DeleteResult:
        """Delete the rows for which a condition is true, in all partitions at once or in none.

        Parameters
        ----------
        predicate
            An SQL or pyarrow expression.

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

    def upsert(
        self, data: Any, on: str | Iterable[str] | None = None, *, duplicates: str = "error"
    ) -> MergeResult:
        """Replace the rows that have the keys of new ones, and add the other new ones: all at once.

        Rows are found wherever they are: in other partitions, if partition columns are no part of the key,
        and in those of earlier specs. Keys are compared as `LanceDataset.merge_insert` does: a key with a
        null in it is equal to none, so that its row is added; NaN equals NaN, and -0.0 is 0.0.

        Columns and fields of structs that the data lacks keep their values in rows of old keys, and are null
        in rows of new ones. Every row of a key gets the other values then, and goes where it belongs.

        Parameters
        ----------
        data
            As for `append`, with the key columns. Held in memory.
        on
            The key columns; by default the unenforced primary key of the schema.
        duplicates
            What to do when several rows of the data have one key: ``"error"``, or take the ``"first"`` or
            the ``"last"`` of them.

        Returns
        -------
        ``{"num_inserted_rows": …, "num_updated_rows": …, "num_deleted_rows": …}``: new rows that replaced
        none, new rows that replaced some, and replaced rows beyond the first of each key. Of data that lacks
        columns: new rows, rows that got other values, and 0.

        Raises
        ------
        InvalidInputError
            There is neither a key here nor in the schema, rows do not fit or share a key, or lack a column
            that must not be null.
        ColumnNotFoundError
            There is no such key column.
        UnsupportedFeatureError
            A key of a type that cannot be one.
        ConflictError, CommitStateUnknownError
            See `append`.
        """
        with self.transaction() as transaction:
            change = transaction._upsert(data, on, duplicates=duplicates)
        return {
            "num_inserted_rows": change.num_inserted,
            "num_updated_rows": change.num_updated,
            "num_deleted_rows": change.num_deleted,
        }

    def update(self, updates: Mapping[str, str], where: str | pc.Expression | None = None) -> UpdateResult:
        """Give the rows for which a condition is true other values; they go where they belong then.

        Updated rows are partitioned by the current spec.

        Parameters
        ----------
        updates
            Top-level columns and the SQL expressions of their new values, which see the old values of all
            columns, and are cast to the column's type.
        where
            An SQL or pyarrow expression; None for all rows.

        Returns
        -------
        ``{"num_rows_updated": …}``.

        Raises
        ------
        InvalidInputError, ColumnNotFoundError
            An expression is wrong, a value cannot be cast, or is null where the column allows none; or a
            field of a struct is to be updated.
        ConflictError, CommitStateUnknownError
            See `append`.
        """
        with self.transaction() as transaction:
            change = transaction._update(updates, where)
        return {"num_rows_updated": change.num_rows}

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


def _with_quoted_columns(where: str | pc.Expression, snapshot: NamespaceSnapshot) -> str | pc.Expression:
    return with_quoted_columns(where, snapshot.arrow_schema.names) if isinstance(where, str) else where


def _matching_rows(
    snapshot: NamespaceSnapshot, tables: Sequence[Table], where: str | pc.Expression
) -> Iterator[tuple[int, Addresses]]:
    """Yield positions of tables, and addresses of rows there for which a condition is true."""
    for number, rows in _rows_by_member(snapshot, tables, {}, where, {}):
        yield number, rows.column(ROW_ADDRESS).to_numpy()


def _rows_by_member(
    snapshot: NamespaceSnapshot,
    tables: Sequence[Table],
    columns: Mapping[str, str],
    where: str | pc.Expression | None,
    fields: Mapping[str, Field],
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield positions of tables, and columns of rows there for which a condition holds, with ``_rowaddr``."""
    for table in tables:
        check_addressable(table)
    asked = {**columns, MEMBER.name: MEMBER.name, ROW_ADDRESS: ROW_ADDRESS}
    members = NumberedMembers(snapshot, tables)
    with scan_with_sql(members, columns=asked, filter=where, fields=fields, for_change=True) as reader:
        for batch in reader:
            numbers = batch.column(MEMBER.name).to_numpy()
            rows = batch.select([*columns, ROW_ADDRESS])
            starts = np.flatnonzero(np.diff(numbers, prepend=-1)).tolist()
            for start, stop in itertools.pairwise([*starts, len(numbers)]):
                yield int(numbers[start]), rows.slice(start, stop - start)


def _check_statistics(statistics: object) -> None:
    if not isinstance(statistics, bool | None):
        raise InvalidInputError(f"statistics is {statistics!r:.60}, expected True, False or None")
