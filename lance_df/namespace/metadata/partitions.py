"""The metadata tables ``$partitions``, ``$files`` and ``$specs``."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np
import pyarrow as pa

from lance_df.namespace.manifest_table import READ_FIELDS
from lance_df.namespace.metadata.tables import MetadataTable
from lance_df.namespace.pruning.spec_members import spec_numbers
from lance_df.namespace.spec.partition_values import expression_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from lance_df.namespace.manifest_table import NamespaceManifest
    from lance_df.namespace.snapshot import NamespaceSnapshot
    from lance_df.table.table import Table

_SPEC: Final = pa.field("spec_version", pa.int32(), nullable=False)
_LOCATION: Final = (
    pa.field("object_id", pa.string(), nullable=False),
    pa.field("location", pa.string()),
    *READ_FIELDS,
)
_SIZES: Final = (
    pa.field("rows", pa.int64()),
    pa.field("fragments", pa.int64()),
    pa.field("files", pa.int64()),
    pa.field("bytes", pa.int64()),
)
_FILE: Final = (
    pa.field("fragment_id", pa.int64(), nullable=False),
    pa.field("path", pa.string(), nullable=False),
    pa.field("rows", pa.int64()),
    pa.field("deleted_rows", pa.int64()),
    pa.field("bytes", pa.int64()),
    pa.field("file_version", pa.string()),
)
_POSITION: Final = "lance_df:position"


class PartitionsTable(MetadataTable):
    """One row for each partition. Sizes are those of the version to read, and require opening the table."""

    kind: ClassVar[str] = "partitions"

    def columns(self) -> pa.Schema:
        """Return the columns: partition values by field id, the location of the table, and its sizes."""
        values = value_fields(self.snapshot, (*_LOCATION, *_SIZES))
        return pa.schema([_SPEC, *values, *_LOCATION, *_SIZES])

    def known(self) -> pa.Table:
        """Return the columns that ``__manifest`` has."""
        return members_table(self.snapshot, (*_LOCATION, *_SIZES))

    def completed(self, rows: pa.Table, names: frozenset[str]) -> pa.Table:
        """Add the sizes."""
        if not names.intersection(field.name for field in _SIZES):
            return rows
        tables = self.snapshot.open_members(rows[_POSITION].to_numpy())
        counts = [
            (table.count_rows(), len(table.fragments), table.fragments.num_files.sum(), _bytes(table))
            for table in tables
        ]
        columns = zip(*counts, strict=True) if counts else [()] * len(_SIZES)
        for field, values in zip(_SIZES, columns, strict=True):
            rows = rows.append_column(field, pa.array(values, field.type))
        return rows


class FilesTable(MetadataTable):
    """One row for each data file of each partition, in the version to read."""

    kind: ClassVar[str] = "files"

    def columns(self) -> pa.Schema:
        """Return the columns, which identify the partition and describe the file."""
        values = value_fields(self.snapshot, (*_LOCATION, *_FILE))
        return pa.schema([_SPEC, *values, *_LOCATION[:3], *_FILE])

    @property
    def is_complete(self) -> bool:
        """False: a partition has any number of files."""
        return False

    def known(self) -> pa.Table:
        """Return the partitions."""
        return members_table(self.snapshot, (*_LOCATION, *_FILE))

    def completed(self, rows: pa.Table, names: frozenset[str]) -> pa.Table:
        """Return the files of partitions."""
        tables = self.snapshot.open_members(rows[_POSITION].to_numpy())
        parts = [_files(table) for table in tables]
        numbers = [len(part) for part in parts]
        schema = pa.schema(_FILE)
        files = pa.concat_tables([schema.empty_table(), *parts])
        repeated = rows.take(pa.array(np.repeat(np.arange(len(rows)), numbers)))
        selected = [name for name in repeated.column_names if name in names]
        return pa.table(
            [*repeated.select(selected).columns, *files.columns],
            schema=_schema(repeated.select(selected), schema),
        )


class SpecsTable(MetadataTable):
    """One row for each partition field of each spec version."""

    kind: ClassVar[str] = "specs"

    def columns(self) -> pa.Schema:
        """Return the columns. Source columns have their current names, or NULL if they were dropped."""
        return pa.schema(
            [
                _SPEC,
                pa.field("is_current", pa.bool_(), nullable=False),
                pa.field("position", pa.int32(), nullable=False),
                pa.field("field_id", pa.string(), nullable=False),
                pa.field("source_ids", pa.list_(pa.int32()), nullable=False),
                pa.field("source_columns", pa.list_(pa.string()), nullable=False),
                pa.field("transform", pa.string()),
                pa.field("expression", pa.string()),
                pa.field("result_type", pa.string(), nullable=False),
            ]
        )

    def known(self) -> pa.Table:
        """Return all rows."""
        manifest = self.snapshot.manifest
        rows = []
        for spec in manifest.specs:
            for position, field in enumerate(spec.fields):
                paths = [manifest.schema.path(field_id) for field_id in field.source_ids]
                types = [_type_at(manifest.schema.arrow, path) for path in paths]
                rows.append(
                    {
                        "spec_version": spec.id,
                        "is_current": spec is manifest.specs.current,
                        "position": position,
                        "field_id": field.field_id,
                        "source_ids": list(field.source_ids),
                        "source_columns": [None if path is None else ".".join(path) for path in paths],
                        "transform": None if field.transform is None else str(field.transform),
                        "expression": expression_of(field, types),
                        "result_type": str(field.result_type),
                    }
                )
        return pa.Table.from_pylist(rows, self.arrow_schema)


def value_fields(snapshot: NamespaceSnapshot, others: tuple[pa.Field, ...]) -> list[pa.Field]:
    """Return a column for each partition field, named after it unless another column has that name."""
    names = value_names(snapshot.manifest, (_SPEC.name, *(field.name for field in others)))
    types = [field.result_type for field in snapshot.manifest.specs.fields.values()]
    return [pa.field(name, data_type) for name, data_type in zip(names, types, strict=True)]


def value_names(manifest: NamespaceManifest, others: Collection[str]) -> list[str]:
    """Return a column name for each partition field: its id, unless another column has that name.

    Parameters
    ----------
    others
        Names of other columns.
    """
    fields = manifest.specs.fields.values()
    taken = {*others, *(field.column for field in fields)}
    return [field.column if field.field_id in taken else field.field_id for field in fields]


def members_table(snapshot: NamespaceSnapshot, others: tuple[pa.Field, ...]) -> pa.Table:
    """Return the rows of ``__manifest`` for the partitions, with their locations."""
    members = snapshot.manifest.members
    fields = snapshot.manifest.specs.fields.values()
    specs = pa.array(spec_numbers(snapshot.manifest), pa.int32())
    locations = [field.name for field in _LOCATION]
    columns = [specs, *(members[field.column] for field in fields), *(members[name] for name in locations)]
    called = [_SPEC.name, *(field.name for field in value_fields(snapshot, others)), *locations]
    positions = pa.array(np.arange(len(members)))
    return pa.table([*columns, positions], [*called, _POSITION])


def _files(table: Table) -> pa.Table:
    rows = [
        (
            fragment.id,
            file.path,
            fragment.physical_rows or None,
            0 if fragment.deletion_file is None else fragment.deletion_file.num_deleted_rows,
            file.size_bytes or None,
            f"{file.major_version}.{file.minor_version}",
        )
        for fragment in table.fragments
        for file in fragment.files
    ]
    columns = zip(*rows, strict=True) if rows else [()] * len(_FILE)
    arrays = [pa.array(values, field.type) for field, values in zip(_FILE, columns, strict=True)]
    return pa.table(arrays, schema=pa.schema(_FILE))


def _bytes(table: Table) -> int | None:
    """Return the size of all data files in bytes, or None if a manifest does not have a size."""
    sizes = table.fragments.file_bytes
    return int(sizes.sum()) if (sizes > 0).all() else None


def _schema(left: pa.Table, right: pa.Schema) -> pa.Schema:
    return pa.schema([*left.schema, *right])


def _type_at(schema: pa.Schema, path: tuple[str, ...] | None) -> pa.DataType:
    if path is None:
        return pa.null()
    field = schema.field(path[0])
    for name in path[1:]:
        field = field.type.field(name)
    return field.type
