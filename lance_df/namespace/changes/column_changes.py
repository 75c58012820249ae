"""Changes of the columns of a namespace: their effect on the schema and on each member table.

Members have the columns of the schema with the same field ids, before and after a change. Spec: partitioning,
"Schema".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lance_df.errors import InvalidInputError, UnsupportedFeatureError
from lance_df.format.fragments import Fragment
from lance_df.format.operations import Operation
from lance_df.namespace.keys import value_keys
from lance_df.namespace.member import FILE_VERSION
from lance_df.namespace.spec.partition_values import partition_values
from lance_df.namespace.spec.promotion import is_widening
from lance_df.records import dataclass
from lance_df.scan.request import Promise, ScanRequest
from lance_df.scan.run import run_tasks
from lance_df.table.evolution.add_columns import columns_added, null_columns
from lance_df.table.evolution.alter_columns import Alteration, altered_schema, columns_altered
from lance_df.table.evolution.drop_columns import columns_dropped, schema_without
from lance_df.table.evolution.fields import find_field, with_new_fields
from lance_df.table.scan.plan import plan_scan

if TYPE_CHECKING:
    from lance_df.namespace.manifest_table import NamespaceManifest
    from lance_df.namespace.spec.namespace_schema import NamespaceSchema
    from lance_df.namespace.spec.partition_spec import PartitionField
    from lance_df.table.table import Table

    Rows: TypeAlias = Callable[[Fragment], Iterable[pa.RecordBatch]]


class ColumnChange(Protocol):
    """A change of columns."""

    @property
    def runs_in_turn(self) -> bool:
        """Whether members are changed one after another."""
        ...

    @property
    def is_by_id(self) -> bool:
        """Whether unchanged members have the new schema for readers that match columns by field id."""
        ...

    def schema_after(self, schema: NamespaceSchema) -> NamespaceSchema:
        """Return the schema after the change."""
        ...

    def operation(self, table: Table, manifest: NamespaceManifest) -> AbstractContextManager[Operation]:
        """Return the operation that changes a member with the schema of a namespace.

        The result is a context manager, which removes the written files if it ends with an error.
        """
        ...


@dataclass(frozen=True, slots=True)
class NullColumns:
    """New columns in which all values are NULL; no data is written."""

    given: pa.Schema
    runs_in_turn: bool = False
    is_by_id: bool = True

    def schema_after(self, schema: NamespaceSchema) -> NamespaceSchema:
        for field in self.given:
            if not field.nullable:
                raise InvalidInputError(
                    f"new column {field.name!r} is filled with nulls, so it must be nullable"
                )
        return _with_fields(schema, self.given, in_lists=True)

    @contextmanager
    def operation(self, table: Table, manifest: NamespaceManifest) -> Iterator[Operation]:
        yield null_columns(table, self.given, first_id=manifest.schema.max_field_id + 1)


@dataclass(frozen=True, slots=True)
class ComputedColumns:
    """New columns whose values are computed from each member.

    Attributes
    ----------
    given
        The new columns.
    rows_of
        Computes them for a member, fragment by fragment, with one row for each live row.
    """

    given: pa.Schema
    rows_of: Callable[[Table], Rows]
    runs_in_turn: bool
    is_by_id: bool = False

    def schema_after(self, schema: NamespaceSchema) -> NamespaceSchema:
        return _with_fields(schema, self.given, in_lists=False)

    @contextmanager
    def operation(self, table: Table, manifest: NamespaceManifest) -> Iterator[Operation]:
        first_id = manifest.schema.max_field_id + 1
        with columns_added(table, self.given, self.rows_of(table), first_id=first_id) as operation:
            yield operation


def _with_fields(schema: NamespaceSchema, given: pa.Schema, *, in_lists: bool) -> NamespaceSchema:
    new = with_new_fields(
        schema.columns,
        given,
        first_id=schema.max_field_id + 1,
        data_format=FILE_VERSION,
        in_lists=in_lists,
    )
    return schema.with_columns(new.schema)


@dataclass(frozen=True, slots=True)
class DroppedColumns:
    """Columns or struct fields that are dropped."""

    paths: tuple[str, ...]
    runs_in_turn: bool = False
    is_by_id: bool = True

    def schema_after(self, schema: NamespaceSchema) -> NamespaceSchema:
        return schema.with_columns(schema_without(schema.columns, self.paths, source="the namespace"))

    @contextmanager
    def operation(self, table: Table, manifest: NamespaceManifest) -> Iterator[Operation]:  # noqa: ARG002
        with columns_dropped(table, self.paths) as operation:
            yield operation


@dataclass(frozen=True, slots=True)
class AlteredColumns:
    """Columns with another name, nullability or wider type; field ids do not change."""

    alterations: tuple[Alteration, ...]
    runs_in_turn: bool = False

    @property
    def is_by_id(self) -> bool:
        """Whether the change only renames columns or makes them nullable."""
        return all(each.data_type is None and each.nullable is not False for each in self.alterations)

    def schema_after(self, schema: NamespaceSchema) -> NamespaceSchema:
        for alteration in self.alterations:
            field, new = find_field(schema.columns, alteration.path)[-1], alteration.data_type
            if new is not None and not is_widening(field.arrow_type(), new):
                raise UnsupportedFeatureError(
                    f"column {alteration.path!r} of type {field.arrow_type()} cannot be changed to {new}: "
                    "columns of a namespace can only be widened, to keep partition values and hashes "
                    "unchanged"
                )
        return schema.with_columns(altered_schema(schema.columns, self.alterations))

    @contextmanager
    def operation(self, table: Table, manifest: NamespaceManifest) -> Iterator[Operation]:
        after = self.schema_after(manifest.schema)
        for field in _expressions_of(manifest, after):
            _check_same_values(table, field, manifest.schema, after)
        with columns_altered(table, self.alterations, keeps_ids=True) as operation:
            yield operation


def _expressions_of(manifest: NamespaceManifest, after: NamespaceSchema) -> list[PartitionField]:
    """Return the partition expressions over columns whose type changes."""
    types = {field.id: field.arrow_type() for field in after.columns.walk()}
    wider = {
        field.id
        for field in manifest.schema.columns.walk()
        if field.id in types and field.arrow_type() != types[field.id]
    }
    return [
        field
        for field in manifest.specs.fields.values()
        if field.expression is not None and not wider.isdisjoint(field.source_ids)
    ]


def _check_same_values(
    table: Table, field: PartitionField, before: NamespaceSchema, after: NamespaceSchema
) -> None:
    """Check that an expression has the same results for the rows of a member with the new types."""
    paths = [before.path(field_id) for field_id in field.source_ids]
    types = {each.id: each.arrow_type() for each in after.columns.walk()}
    names = tuple(dict.fromkeys(path[0] for path in paths if path is not None))
    for batch in run_tasks(plan_scan(table, ScanRequest(columns=names, requires=Promise.COMPLETE)).tasks):
        narrow = [_source(batch, path) for path in paths]
        wide = [
            column.cast(types[field_id]) if field_id in types else column
            for field_id, column in zip(field.source_ids, narrow, strict=True)
        ]
        values = [value_keys([partition_values(field, columns)]) for columns in (narrow, wide)]
        if not pc.all(pc.equal(*values)).as_py():
            raise InvalidInputError(
                f"{table.uri}: partition field {field} would have different values with the new types of "
                "its columns, so rows would be searched in the wrong partitions"
            )


def _source(batch: pa.RecordBatch, path: Sequence[str] | None) -> pa.Array:
    if path is None:
        return pa.nulls(batch.num_rows)
    column = batch.column(path[0])
    return pc.struct_field(column, list(path[1:])) if path[1:] else column
