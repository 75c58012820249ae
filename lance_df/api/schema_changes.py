"""Change columns, and the metadata of the table, the schema and fields."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, TypedDict, cast

import pyarrow as pa

from lance_df.api.base import DatasetBase
from lance_df.api.transforms import open_transform
from lance_df.arguments import checked_flag, checked_mapping, checked_names, checked_text
from lance_df.errors import IncompatibleConflictError, InvalidInputError, NotFoundError
from lance_df.format.operations import UpdateConfig
from lance_df.interrupts import imports_finished, interrupted_once
from lance_df.table.evolution.add_columns import columns_added, null_columns
from lance_df.table.evolution.alter_columns import Alteration, columns_altered
from lance_df.table.evolution.drop_columns import columns_dropped
from lance_df.table.evolution.join import Lookup
from lance_df.table.evolution.live_rows import read_keys
from lance_df.table.evolution.metadata import field_metadata_update, map_update
from lance_df.table.maintenance.auto_cleanup import check_auto_cleanup
from lance_df.table.maintenance.zone_map_casts import with_zone_maps_of_casts
from lance_df.table.metadata.missing_files import check_same_table, conflict_if_gone
from lance_df.table.reading.batches import source_closed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lance_df.dataset import LanceDataset
    from lance_df.format.fragments import Fragment
    from lance_df.table.table import Table

_BATCH_ROWS = 64 * 1024


class AlterColumn(TypedDict, total=False):
    """An argument of `LanceDataset.alter_columns`: the ``path`` of a column and its changes."""

    path: str
    name: str | None
    nullable: bool | None
    data_type: pa.DataType | None


class SchemaChanges(DatasetBase):
    """Methods that change columns, and the metadata of the table, the schema and fields.

    Every method commits a version and moves this object to it. A method that fails leaves nothing behind.
    """

    # -- columns --------------------------------------------------------------------------------------------

    def add_columns(
        self,
        transforms: Any,
        read_columns: Sequence[str] | None = None,
        reader_schema: pa.Schema | None = None,
        batch_size: int | None = None,
    ) -> None:
        """Add columns.

        Parameters
        ----------
        transforms
            The new columns, as one of:

            - a dict of names and SQL expressions;
            - a function from a batch to a batch or frame of new columns, optionally wrapped by
              `lance_df.batch_udf`;
            - any Arrow data with one row for each row of the table;
            - a field, a list of fields or a schema, for columns of nulls.

            Columns of nulls need no data files. The same holds if all expressions are like ``CAST(NULL AS
            INT)``.
        read_columns
            The columns that a function receives; all columns by default. May include ``_rowid`` and
            ``_rowaddr``.
        reader_schema
            The schema of an iterable of batches.
        batch_size
            The maximum number of rows that are computed at a time.

        Raises
        ------
        InvalidInputError
            A column exists already or has a reserved name; an expression or a function does not compute one
            value for each row; or a value is null where the new column does not allow nulls.
        UnsupportedFeatureError
            The file version of the table cannot hold a type.
        ConflictError
            Another commit conflicts with this one.
        """
        schema = as_schema(transforms)
        if schema is not None:
            self._commit(null_columns(self._table, schema))
            return
        are_nulls = _are_nulls(transforms) and self._table.manifest.file_version != "0.1"
        transform = open_transform(
            cast("LanceDataset", self),
            transforms,
            read_columns=read_columns,
            reader_schema=reader_schema,
            batch_size=batch_size,
        )
        with closing(transform):
            if are_nulls:
                nullable = [field.with_nullable(True) for field in transform.schema]
                self._commit(null_columns(self._table, pa.schema(nullable)))
                return
            with columns_added(self._table, transform.schema, transform.rows_of) as operation:
                transform.check_end()
                self._commit(operation)
            transform.committed()

    def drop_columns(self, columns: Sequence[str]) -> None:
        """Drop columns, or fields of structs (``"a.b"``). Their data remains until the table is compacted.

        Raises
        ------
        ColumnNotFoundError
            There is no such column.
        InvalidInputError
            No column would remain.
        """
        with columns_dropped(self._table, checked_names(columns, "columns")) as operation:
            self._commit(operation)

    def alter_columns(self, *alterations: AlterColumn) -> None:
        """Rename columns, change whether they are nullable, or change their types.

        When the type of a column changes, its zone maps are rebuilt in a separate version.

        Parameters
        ----------
        *alterations
            Dicts with ``path`` and one or more of ``name``, ``nullable`` and ``data_type``.

        Raises
        ------
        ColumnNotFoundError
            There is no such column.
        InvalidInputError
            Names clash, a column that must not be null holds nulls, a value does not fit the new type, or the
            new type is of another kind.
        UnsupportedFeatureError
            A column whose type changes has an index other than a zone map.
        """
        before = self._table
        with interrupted_once():
            with columns_altered(before, [as_alteration(each) for each in alterations]) as operation:
                self._commit(operation)
            after = with_zone_maps_of_casts(before, self._table)
            if after is not self._table:
                self._follow(after)

    def merge(
        self, data_obj: Any, left_on: str, right_on: str | None = None, schema: pa.Schema | None = None
    ) -> None:
        """Add the columns of other data, joined by a key. Rows without a match get null.

        Parameters
        ----------
        data_obj
            Any Arrow data. It is held in memory. If several rows have the same key, the last one is used.
        left_on, right_on
            The key in this table and the key in the data, which is the same by default.

        Raises
        ------
        ColumnNotFoundError
            A key column does not exist.
        InvalidInputError
            The keys have different types, or a column exists already.
        """
        checked_text(left_on, "left_on", "a column name")
        lookup = open_lookup(data_obj, right_on or left_on, schema)
        with columns_added(
            self._table, lookup.schema, lambda fragment: joined(self._table, fragment, left_on, lookup)
        ) as operation:
            self._commit(operation)

    # -- maps -----------------------------------------------------------------------------------------------

    def update_config(self, values: Mapping[str, str | None], *, replace: bool = False) -> dict[str, str]:
        """Change the configuration of the table and return it. A value of None deletes its key.

        With ``replace``, the given values replace the whole configuration.

        Raises
        ------
        InvalidInputError
            A value is not a text, or the automatic clean-up cannot use it; pylance stores such a value and
            warns after every commit.
        """
        replace = checked_flag(replace, "replace")
        update = map_update(values, replace=replace)
        check_auto_cleanup({key: value for key, value in update.entries if value is not None})
        self._configure(UpdateConfig(config=update))
        return dict(self._table.manifest.config)

    def delete_config_keys(self, keys: Sequence[str]) -> None:
        """Delete keys of the configuration. Keys that do not exist are ignored."""
        self._configure(UpdateConfig(config=map_update(dict.fromkeys(checked_names(keys, "keys")))))

    def _configure(self, operation: UpdateConfig) -> None:
        """Commit new values of keys: the last writer wins.

        If this version was cleaned up, the commit is based on the newest version.
        """
        try:
            self._commit(operation)
        except IncompatibleConflictError as err:
            if not isinstance(err.__cause__, NotFoundError):
                raise
            with conflict_if_gone(self._table):
                latest = self._table.latest()
            check_same_table(self._table, latest.manifest_file)
            self._table = latest
            self._commit(operation)

    def update_metadata(self, values: Mapping[str, str | None], *, replace: bool = False) -> dict[str, str]:
        """Change the metadata of the table and return it; see `update_config`."""
        replace = checked_flag(replace, "replace")
        self._configure(UpdateConfig(table_metadata=map_update(values, replace=replace)))
        return dict(self._table.manifest.table_metadata)

    def update_schema_metadata(
        self,
        values: Mapping[str, str | None],
        *,
        replace: bool = False,
    ) -> dict[str, str]:
        """Change the metadata of the schema and return it; see `update_config`."""
        replace = checked_flag(replace, "replace")
        self._commit(UpdateConfig(schema_metadata=map_update(values, replace=replace)))
        metadata = self._table.schema.metadata
        return {key: value.decode("utf-8", "replace") for key, value in metadata.items()}

    def update_field_metadata(
        self, field_updates: Mapping[str, Mapping[str, str | None]], *, replace: bool = False
    ) -> None:
        """Change the metadata of fields, given by their paths (``"a.b"``); see `update_config`."""
        replace = checked_flag(replace, "replace")
        updates = checked_mapping(field_updates, "field_updates", "a dict of fields and their metadata")
        self._commit(field_metadata_update(self._table.schema, updates, replace=replace))

    def replace_schema_metadata(self, new_metadata: Mapping[str, str]) -> None:
        """Replace the metadata of the schema. Deprecated: use `update_schema_metadata`."""
        _deprecated("replace_schema_metadata", "update_schema_metadata(…, replace=True)")
        self.update_schema_metadata(new_metadata, replace=True)

    def replace_field_metadata(self, field_name: str, new_metadata: Mapping[str, str]) -> None:
        """Replace the metadata of a field. Deprecated: use `update_field_metadata`."""
        _deprecated("replace_field_metadata", "update_field_metadata(…, replace=True)")
        checked_text(field_name, "field_name")
        self.update_field_metadata({field_name: new_metadata}, replace=True)


def open_lookup(data: Any, key: str, schema: pa.Schema | None) -> Lookup:
    """Read the data of a join into memory."""
    from lance_df.sources import to_batches

    checked_text(key, "right_on", "a column name")
    given, batches = to_batches(data, schema)
    with source_closed(batches):
        return Lookup(pa.Table.from_batches(batches, given), key)


def joined(table: Table, fragment: Fragment, key: str, lookup: Lookup) -> Iterator[pa.RecordBatch]:
    """Yield the joined values for the keys of a fragment."""
    matches = lookup.find(read_keys(table, fragment, key))
    for start in range(0, len(matches), _BATCH_ROWS):
        yield lookup.take(matches.slice(start, _BATCH_ROWS))


def _are_nulls(transforms: Any) -> bool:
    """Return whether the new columns are given by SQL expressions that are all NULL of some type."""
    if not isinstance(transforms, Mapping) or not transforms:
        return False
    with imports_finished():
        from lance_df.sql.null_constants import is_typed_null

    return all(isinstance(text, str) and is_typed_null(text) for text in transforms.values())


def as_alteration(given: Any) -> Alteration:
    """Return the alteration that a dict like `AlterColumn` describes."""
    known = AlterColumn.__annotations__.keys()
    if not isinstance(given, Mapping) or "path" not in given:
        raise InvalidInputError(
            f"an alteration must be a dict with the keys {', '.join(known)}, got {given!r:.80}"
        )
    if unknown := sorted(given.keys() - known, key=str):
        raise InvalidInputError(
            f"Unknown key: {unknown[0]}; the keys of an alteration are {', '.join(known)}"
        )
    if given.get("nullable") is not None:
        given = {**given, "nullable": checked_flag(given["nullable"], "nullable")}
    return Alteration(**given)


def as_schema(transforms: Any) -> pa.Schema | None:
    """Return the schema of the new columns, if they are given as fields or as a schema."""
    if isinstance(transforms, pa.Field):
        return pa.schema([transforms])
    if isinstance(transforms, list) and transforms and all(isinstance(each, pa.Field) for each in transforms):
        return pa.schema(transforms)
    return transforms if isinstance(transforms, pa.Schema) else None


def _deprecated(name: str, instead: str) -> None:
    warnings.warn(f"{name} is deprecated, as in pylance; use {instead}", DeprecationWarning, stacklevel=3)
