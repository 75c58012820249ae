"""Change the columns of a partitioned namespace: of all members at once, with the same field ids."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lance_df.api.schema_changes import AlterColumn, as_alteration, as_schema
from lance_df.api.transforms import open_transform
from lance_df.arguments import checked_integer, checked_names
from lance_df.engine.query import scan_with_sql
from lance_df.errors import InvalidInputError, UnsupportedFeatureError
from lance_df.namespace.changes.column_changes import (
    AlteredColumns,
    ComputedColumns,
    DroppedColumns,
    NullColumns,
)
from lance_df.namespace.changes.numbered_members import NumberedMembers
from lance_df.namespace.changes.schema_publish import with_changed_columns
from lance_df.sql.expressions import with_quoted_columns
from lance_df.table.metadata.versions import DETACHED
from lance_df.udf import BatchUDF

if TYPE_CHECKING:
    from lance_df.namespace.changes.column_changes import ColumnChange, Rows
    from lance_df.namespace.snapshot import NamespaceSnapshot
    from lance_df.table.table import Table


class ColumnMethods(ABC):
    """Methods that change columns, alone or within a transaction."""

    @abstractmethod
    def _change_columns(self, change: Callable[[NamespaceSnapshot], ColumnChange]) -> None:
        """Apply a change of columns that is computed from a version."""

    def add_columns(
        self,
        transforms: Any,
        read_columns: Sequence[str] | None = None,
        *,
        batch_size: int | None = None,
    ) -> None:
        """Add columns.

        Parameters
        ----------
        transforms
            The new columns, as one of:

            - a field, a list of fields or a schema, for columns of nulls, which need no data files;
            - a dict of names and SQL expressions;
            - a function from a batch to a batch or frame of new columns, optionally wrapped by
              `lance_df.batch_udf`. It is called for one partition after the other.
        read_columns
            The columns that a function receives; all columns by default.
        batch_size
            The maximum number of rows that are computed at a time.

        Raises
        ------
        InvalidInputError
            A column exists already or has a reserved name; an expression or a function does not compute one
            value for each row; or a value is null where the new column does not allow nulls.
        UnsupportedFeatureError
            A type cannot be stored, values are given by position, or a function keeps its results in a file.
        ConflictError
            Other writers kept committing first.
        CommitStateUnknownError
            It is not known whether the columns were added.
        """
        if batch_size is not None:
            batch_size = checked_integer(batch_size, "batch_size", 1)
        if read_columns is not None:
            read_columns = checked_names(read_columns, "read_columns")
        schema = as_schema(transforms)
        if schema is not None:
            self._change_columns(lambda _: NullColumns(schema))
        elif isinstance(transforms, Mapping) and transforms:
            self._change_columns(lambda snapshot: _of_expressions(snapshot, transforms, batch_size))
        elif callable(transforms):
            self._change_columns(
                lambda snapshot: _of_function(snapshot, transforms, read_columns, batch_size)
            )
        else:
            raise UnsupportedFeatureError(
                f"columns of a namespace cannot be added from a {type(transforms).__name__}, because rows of "
                "several partitions have no common order; use SQL expressions or a function"
            )

    def drop_columns(self, columns: Sequence[str]) -> None:
        """Drop columns, or fields of structs (``"a.b"``). Their data remains until partitions are compacted.

        If the source column of a partition field is dropped, the field is computed from NULL for rows that
        are written afterwards. Existing partitions keep their values.

        Raises
        ------
        ColumnNotFoundError
            There is no such column.
        InvalidInputError
            No column would remain.
        ConflictError, CommitStateUnknownError
            See `add_columns`.
        """
        names = tuple(checked_names(columns, "columns"))
        self._change_columns(lambda _: DroppedColumns(names))

    def rename_column(self, old: str, new: str) -> None:
        """Rename a column or a field of a struct (``"a.b"``).

        Raises
        ------
        ColumnNotFoundError
            There is no such column.
        InvalidInputError
            A column with the new name exists. Use `alter_columns` to swap names.
        ConflictError, CommitStateUnknownError
            See `add_columns`.
        """
        self.alter_columns({"path": old, "name": new})

    def alter_columns(self, *alterations: AlterColumn) -> None:
        """Rename columns, change whether they are nullable, or widen their types, all at once.

        These types can be widened: integers, floats, the precision of decimals, text and binary to their
        large forms, ``date32`` to ``date64``, times to finer units, and lists of these types. Partition
        values that are the values of the column itself are widened with it.

        Parameters
        ----------
        *alterations
            Dicts with ``path`` and one or more of ``name``, ``nullable`` and ``data_type``.

        Raises
        ------
        ColumnNotFoundError
            There is no such column.
        InvalidInputError
            Names clash, a column that must not be null holds nulls, a value does not fit the new type, or a
            partition expression would return other values for the new type.
        UnsupportedFeatureError
            The new type is not wider.
        ConflictError, CommitStateUnknownError
            See `add_columns`.
        """
        if not alterations:
            raise InvalidInputError("alter_columns needs at least one alteration")
        change = AlteredColumns(tuple(as_alteration(each) for each in alterations))
        self._change_columns(lambda _: change)


class NamespaceColumns(ColumnMethods):
    """Methods that change columns. The object moves to the version that a change makes.

    Readers see the columns and all members either before or after the change. Earlier versions keep their
    columns. Field ids do not change and are never reused. A partition field therefore follows a column that
    is renamed or widened, and is computed from NULL if the column is dropped.
    """

    _table: NamespaceSnapshot

    def _change_columns(self, change: Callable[[NamespaceSnapshot], ColumnChange]) -> None:
        latest = self._table.latest_for_change()
        self._table = latest.of(with_changed_columns(latest.root, latest.manifest, change(latest)))


def _of_expressions(
    snapshot: NamespaceSnapshot, expressions: Mapping[str, str], batch_size: int | None
) -> ComputedColumns:
    if not all(isinstance(text, str) for each in expressions.items() for text in each):
        raise InvalidInputError("new columns must be a dict of names and SQL expressions")
    names = snapshot.arrow_schema.names
    expressions = {name: with_quoted_columns(text, names) for name, text in expressions.items()}
    with scan_with_sql(NumberedMembers(snapshot, ()), columns=expressions) as reader:
        schema = reader.schema
    return ComputedColumns(
        schema, lambda table: _rows_of(table, expressions, None, batch_size), runs_in_turn=False
    )


def _of_function(
    snapshot: NamespaceSnapshot,
    function: Callable[..., Any],
    read_columns: Sequence[str] | None,
    batch_size: int | None,
) -> ComputedColumns:
    udf = function if isinstance(function, BatchUDF) else BatchUDF(function)
    if udf.cache is not None:
        raise UnsupportedFeatureError(
            "a checkpoint_file is not supported for a namespace, only for a single table"
        )
    if udf.output_schema is None and snapshot.version & DETACHED:
        raise InvalidInputError(
            "the function needs an output_schema: this transaction has changed the columns before, and the "
            "function cannot be tried on rows that do not exist yet"
        )
    if udf.output_schema is None:
        with scan_with_sql(snapshot, columns=read_columns, limit=1) as reader:
            sample = next((batch for batch in reader if batch.num_rows), None)
        if sample is None:
            raise InvalidInputError("the function needs an output_schema, because the namespace is empty")
        udf = udf.with_schema_of(sample)
    schema = udf.output_schema or pa.schema([])
    return ComputedColumns(
        # frames bring a description of themselves, which is not the namespace's
        schema.remove_metadata(),
        lambda table: _rows_of(table, udf, read_columns, batch_size),
        runs_in_turn=True,
    )


def _rows_of(
    table: Table,
    transforms: Mapping[str, str] | BatchUDF,
    read_columns: Sequence[str] | None,
    batch_size: int | None,
) -> Rows:
    from lance_df.dataset import LanceDataset

    transform = open_transform(
        LanceDataset._of(table, table.uri, None, None),
        transforms,
        read_columns=read_columns,
        reader_schema=None,
        batch_size=batch_size,
    )
    return transform.rows_of
