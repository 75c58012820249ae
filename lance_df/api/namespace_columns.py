"""Change the columns of a partitioned namespace: of all members at once, under the same field ids."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lance_df.api.schema_changes import AlterColumn, as_alteration, as_schema
from lance_df.api.transforms import open_transform
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
    """Methods that change columns, by themselves or within a transaction."""

    @abstractmethod
    def _change_columns(self, change: Callable[[NamespaceSnapshot], ColumnChange]) -> None:
        """Make the change that is wanted of a version."""

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
            A field, a list of fields or a schema, for columns of nulls, for which no data is written; a dict
            of names and SQL expressions; or a function from a batch to a batch or frame of new columns, which
            `lance_df.batch_udf` may have wrapped. A function is called for one partition after the other.
        read_columns
            What a function is given; all columns by default.
        batch_size
            Upper bound for the rows that are computed at a time.

        Raises
        ------
        InvalidInputError
            A column exists already or has a reserved name; an expression or a function does not compute one
            value for each row; a null where the new column allows none.
        UnsupportedFeatureError
            A type that cannot be stored, values by position, a function that keeps its results in a file.
        ConflictError
            Others were faster again and again.
        CommitStateUnknownError
            It is not known whether the columns were added.
        """
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
                "columns of a namespace are computed from its rows, by SQL expressions or a function: rows "
                f"of several partitions have no order in which {type(transforms).__name__} could give values"
            )

    def drop_columns(self, columns: Sequence[str]) -> None:
        """Drop columns, or fields of structs (``"a.b"``). Their data stays until partitions are compacted.

        A partition field whose source is dropped takes it for NULL from then on; the partitions that there
        are stay what they are.

        Raises
        ------
        ColumnNotFoundError
            There is no such column.
        InvalidInputError
            Nothing would be left.
        ConflictError, CommitStateUnknownError
            See `add_columns`.
        """
        if isinstance(columns, str) or not isinstance(columns, Iterable):
            raise InvalidInputError(f"columns are a list of names, not {columns!r:.60}")
        self._change_columns(lambda _: DroppedColumns(tuple(columns)))

    def rename_column(self, old: str, new: str) -> None:
        """Give a column, or a field of a struct (``"a.b"``), another name.

        Raises
        ------
        ColumnNotFoundError
            There is no such column.
        InvalidInputError
            There is a column of the new name. `alter_columns` swaps names.
        ConflictError, CommitStateUnknownError
            See `add_columns`.
        """
        self.alter_columns({"path": old, "name": new})

    def alter_columns(self, *alterations: AlterColumn) -> None:
        """Rename columns, make them nullable or not, or give them a wider type; all at once.

        Types may widen: integers, floats, the precision of decimals, text and binary to their large forms,
        ``date32`` to ``date64``, times to finer units, and lists of these. Partition values that are the
        column's own widen with it.

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
            partition expression would give other values for it.
        UnsupportedFeatureError
            A type that is not wider.
        ConflictError, CommitStateUnknownError
            See `add_columns`.
        """
        if not alterations:
            raise InvalidInputError("there is nothing to alter")
        change = AlteredColumns(tuple(as_alteration(each) for each in alterations))
        self._change_columns(lambda _: change)


class NamespaceColumns(ColumnMethods):
    """Change columns. The object moves on to the version that a change makes.

    Readers see the columns and all members as they were, or as they will be; versions from before keep their
    columns. Field ids stay, and are never given to another column: partition fields follow a column that gets
    another name or a wider type, and take one that is gone for NULL.
    """

    _table: NamespaceSnapshot

    def _change_columns(self, change: Callable[[NamespaceSnapshot], ColumnChange]) -> None:
        latest = self._table.latest()
        self._table = latest.of(with_changed_columns(latest.root, latest.manifest, change(latest)))


def _of_expressions(
    snapshot: NamespaceSnapshot, expressions: Mapping[str, str], batch_size: int | None
) -> ComputedColumns:
    if not all(isinstance(text, str) for each in expressions.items() for text in each):
        raise InvalidInputError("new columns are a dict of names and SQL expressions")
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
        raise UnsupportedFeatureError("a checkpoint_file is of one table; a namespace has many")
    if udf.output_schema is None and snapshot.version & DETACHED:
        raise InvalidInputError(
            "the columns are changed before in this transaction, so that there are no rows yet to try the "
            "function on: it needs an output_schema"
        )
    if udf.output_schema is None:
        with scan_with_sql(snapshot, columns=read_columns, limit=1) as reader:
            sample = next((batch for batch in reader if batch.num_rows), None)
        if sample is None:
            raise InvalidInputError("the namespace is empty: the function needs an output_schema")
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
