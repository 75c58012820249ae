"""Change a partitioned namespace, with one change or several in a transaction."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from lance_df.api.merge_insert import key_columns
from lance_df.api.namespaces.columns import ColumnMethods
from lance_df.api.namespaces.rows import rows_to_store
from lance_df.api.row_changes import advising_quotes, checked_updates, updated_fields
from lance_df.api.row_filters import check_addressable, checked_filter
from lance_df.arguments import checked_flag
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
    """A transaction, as `PartitionedNamespace.transaction` returns it.

    Its changes become visible together when the block ends, or not at all. Changes that follow a change of
    columns use the new columns.
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
        """Delete rows, including rows that this transaction added; see `PartitionedNamespace.delete`."""
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
            raise InvalidInputError(f"duplicates must be one of {known}, got {duplicates!r}")
        stages = self._open()
        columns = stages.snapshot.manifest.schema.columns
        names = key_columns(columns, on)
        schema, batches = rows_to_store(data, columns)
        with source_closed(batches):
            return stages.rows.upsert(schema, batches, on=names, duplicates=Duplicates(duplicates))

    def update(self, updates: Mapping[str, str], where: str | pc.Expression | None = None) -> None:
        """Update rows, including rows that this transaction added; see `PartitionedNamespace.update`."""
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
        with advising_quotes(written, fields, names):
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
    """Methods that change a namespace. The object moves to the version that a change makes.

    A change is based on the newest version. If other writers publish a version first, the change is rebased
    on top of it: the parts that the other version affects are computed again. The result is the same as if
    the changes had run one after the other.

    If the namespace of the object was dropped and created again, a change raises `IncompatibleConflictError`.
    """

    def __init__(self, snapshot: NamespaceSnapshot) -> None:
        self._table = snapshot

    @contextmanager
    def transaction(self, *, rebase: bool = True) -> Iterator[NamespaceTransaction]:
        """Collect changes in a ``with`` block, and publish all of them in one version when the block ends.

        The changes run in order, and each sees the results of those before it. If the block raises an
        exception, nothing is published. Readers, including this object, see all of the changes or none.

        Parameters
        ----------
        rebase
            If True, apply the changes to the newest version, even if other writers have published versions.
            If False, apply them to the version of this object, and raise an error if a newer version exists
            by then. Use False for changes that depend on rows that were read.

        Raises
        ------
        RetryableConflictError
            ``rebase`` is False and another writer has published a version; or another writer has changed the
            schema.
        CommitStateUnknownError
            It is not known whether the changes were published.
        """
        snapshot = self._table.latest_for_change() if checked_flag(rebase, "rebase") else self._table
        with interrupted_once(), Stages(snapshot) as stages:
            transaction = NamespaceTransaction(stages)
            try:
                yield transaction
            finally:
                transaction._end()
            self._table = snapshot.of(stages.publish(rebase=rebase))

    def append(self, data: Any, *, statistics: bool | None = None) -> None:
        """Add rows to all affected partitions at once, or to none.

        Parameters
        ----------
        data
            Any data that `lance_df.write_dataset` accepts, such as frames, relations, files and globs; or
            batches. Nullable columns may be missing. CSV files are read with the types of the namespace.
            Values of the same kind with another width, unit or layout are accepted if they fit.
        statistics
            Whether to build zone map indices (minimum and maximum of every 8192 rows) for every column of a
            suitable type. By default they are built for partitions that receive more than 8192 rows.

        Raises
        ------
        InvalidInputError
            Rows do not fit the namespace, or a partition expression fails for them.
        ConflictError
            The schema changed in the meantime, or other writers kept committing first.
        CommitStateUnknownError
            It is not known whether the rows were added.
        """
        with self.transaction() as transaction:
            transaction.append(data, statistics=statistics)

    def overwrite_partitions(self, data: Any, *, statistics: bool | None = None) -> None:
        """Replace the partitions that occur in the given rows by these rows. Other partitions remain.

        A partition is identified by its values in the current spec. Rows with these values that were stored
        under earlier versions of the spec are replaced too.

        Raises
        ------
        InvalidInputError, ConflictError, CommitStateUnknownError
            See `append`.
        """
        with self.transaction() as transaction:
            transaction.overwrite_partitions(data, statistics=statistics)

    def delete(self, predicate: str | pc.Expression) -> DeleteResult:
        """Delete the rows for which a condition is true, from all partitions at once or from none.

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
            The predicate is invalid.
        ConflictError
            The schema changed in the meantime, or other writers kept committing first.
        CommitStateUnknownError
            It is not known whether the rows were deleted.
        """
        with self.transaction() as transaction:
            deletion = transaction._delete(predicate)
        return {"num_deleted_rows": deletion.num_rows}

    def upsert(
        self, data: Any, on: str | Iterable[str] | None = None, *, duplicates: str = "error"
    ) -> MergeResult:
        """Replace rows that have the same keys as new rows, and add the other new rows, all at once.

        Existing rows are found in all partitions: in other partitions, if the partition columns are not part
        of the key, and in partitions of earlier specs. Keys are compared as in `LanceDataset.merge_insert`. A
        key that contains a null equals no other key, so its row is added. NaN equals NaN, and -0.0 equals
        0.0.

        The data may lack columns or fields of structs. Existing rows then keep their values in these columns,
        and added rows get null. In this case all existing rows with a key are updated, and each moves to the
        partition it belongs to.

        Parameters
        ----------
        data
            As for `append`, including the key columns. The data is held in memory.
        on
            The key columns. The default is the unenforced primary key of the schema.
        duplicates
            What to do if several rows of the data have the same key: raise an ``"error"``, or use the
            ``"first"`` or the ``"last"`` of them.

        Returns
        -------
        ``{"num_inserted_rows": …, "num_updated_rows": …, "num_deleted_rows": …}``: the number of new rows
        that replaced none, the number of new rows that replaced some, and the number of replaced rows beyond
        the first of each key. If the data lacks columns: the number of added rows, the number of updated
        rows, and 0.

        Raises
        ------
        InvalidInputError
            No key is given and the schema has none; rows do not fit the namespace or have the same key; or
            rows lack a column that must not be null.
        ColumnNotFoundError
            There is no such key column.
        UnsupportedFeatureError
            The type of a key column is not supported for keys.
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
        """Set columns to new values in the rows for which a condition is true.

        Updated rows are partitioned by the current spec and move to the partition they belong to.

        Parameters
        ----------
        updates
            A dict of top-level columns and the SQL expressions of their new values. The expressions see the
            old values of all columns. Their results are cast to the type of the column.
        where
            An SQL or pyarrow expression; None for all rows.

        Returns
        -------
        ``{"num_rows_updated": …}``.

        Raises
        ------
        InvalidInputError, ColumnNotFoundError
            An expression is invalid, a value cannot be cast, a value is null in a column that does not allow
            nulls, or ``updates`` names a field of a struct.
        ConflictError, CommitStateUnknownError
            See `append`.
        """
        with self.transaction() as transaction:
            change = transaction._update(updates, where)
        return {"num_rows_updated": change.num_rows}

    def update_partition_spec(self, partition_by: Sequence[PartitionBy | str]) -> None:
        """Change the partition spec for rows that are written from now on.

        Existing rows stay in their partitions, and are found by the version of the spec they were written
        with. A field that an earlier version of the spec has keeps its id.

        Raises
        ------
        ColumnNotFoundError, InvalidInputError
            A partition field does not fit the schema, or contradicts a field of an earlier version.
        ConflictError
            Other writers kept committing first.
        """
        latest = self._table.latest_for_change()
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
    selected = {**columns, MEMBER.name: MEMBER.name, ROW_ADDRESS: ROW_ADDRESS}
    members = NumberedMembers(snapshot, tables)
    with scan_with_sql(members, columns=selected, filter=where, fields=fields, for_change=True) as reader:
        for batch in reader:
            numbers = batch.column(MEMBER.name).to_numpy()
            rows = batch.select([*columns, ROW_ADDRESS])
            starts = np.flatnonzero(np.diff(numbers, prepend=-1)).tolist()
            for start, stop in itertools.pairwise([*starts, len(numbers)]):
                yield int(numbers[start]), rows.slice(start, stop - start)


def _check_statistics(statistics: object) -> None:
    if statistics is not None:
        checked_flag(statistics, "statistics")
