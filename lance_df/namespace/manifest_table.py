"""The ``__manifest`` table: one row for each namespace and each table of a partitioned namespace.

Spec: partitioning, "Manifest Table Schema" and appendices A and C; directory namespace, V2. Specs and schema
are in the table metadata, not in the metadata of the Arrow schema, which other writers drop.
"""

from __future__ import annotations

import dataclasses
import os
import time
import uuid
from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.cache import PROCESS, CacheKind, Entries, Footprint
from lance_df.errors import (
    CorruptDataError,
    DatasetNotFoundError,
    IncompatibleConflictError,
    NotFoundError,
)
from lance_df.format.schema import Schema, schema_from_arrow
from lance_df.namespace.limits import NAMESPACE_LIMITS
from lance_df.namespace.manifest_rows import NAMESPACE as NAMESPACE
from lance_df.namespace.manifest_rows import TABLE as TABLE
from lance_df.namespace.manifest_rows import ManifestRows
from lance_df.namespace.names import MANIFEST_FOLDER
from lance_df.namespace.object_account import check_new, check_none_lost, check_written
from lance_df.namespace.spec.namespace_schema import SCHEMA_KEY, NamespaceSchema
from lance_df.namespace.spec.partition_spec import PartitionSpecs
from lance_df.table.commit.options import CommitOptions
from lance_df.table.metadata.manifest_io import identity
from lance_df.table.metadata.refs import ResolvedRef
from lance_df.table.reading.row_ids import split_addresses
from lance_df.table.reading.system_columns import ROW_ADDRESS
from lance_df.table.shared import Shared
from lance_df.table.table import open_ref

if TYPE_CHECKING:
    from lance_df.storage import Location
    from lance_df.table.table import Table

FILE_VERSION: Final = "2.2"

_STORED_SECONDS: Final = 0.1
_KEY_METADATA: Final = {"lance-schema:unenforced-primary-key:position": b"0"}
BASE_FIELDS: Final = (
    pa.field("object_id", pa.string(), nullable=False),
    pa.field("object_type", pa.string(), nullable=False),
    pa.field("location", pa.string()),
    pa.field("metadata", pa.string()),
    pa.field("base_objects", pa.list_(pa.field("object_id", pa.string()))),
)
READ_FIELDS: Final = (
    pa.field("read_version", pa.uint64()),
    pa.field("read_branch", pa.string()),
    pa.field("read_tag", pa.string()),
)
# The caller checks the changes of other writers and starts again from the newest version.
STRICT: Final = CommitOptions(strict=True, max_retries=0)


def open_manifest_table(root: Location, version: int | None = None) -> Table:
    """Open the ``__manifest`` of a directory.

    Raises
    ------
    NotFoundError
        There is no ``__manifest``, or no such version of it.
    """
    with _named(root):
        return open_ref(Shared(root / MANIFEST_FOLDER), ResolvedRef(None, version))


@contextmanager
def _named(root: Location) -> Iterator[None]:
    try:
        yield
    except DatasetNotFoundError as err:
        raise NotFoundError(f"{root.uri}: not a namespace, there is no {MANIFEST_FOLDER} table") from err


_ROW_COPIES: Final = 3


class NamespaceManifest:
    """One version of the ``__manifest`` table of a partitioned namespace. Immutable.

    Parameters
    ----------
    former
        Another version, whose rows are reused where both versions have them.

    Attributes
    ----------
    footprint
        Counts the memory that the version uses.
    has_distinct_members
        Whether `check_distinct` has checked that all members are different tables.

    Raises
    ------
    NotFoundError
        The table is not a partitioned namespace: its metadata has no partition spec.
    CorruptDataError
        Its metadata is malformed, or it lacks columns that its specs require.
    """

    def __init__(self, table: Table, former: NamespaceManifest | None = None) -> None:
        self.table = table
        self.specs, self.schema = _described(table, former)
        self._known_rows = None if former is None else former._read_rows
        self.footprint = Footprint(table.num_bytes)
        self.has_distinct_members = False
        self._stored_at = float("-inf")
        self._folder, self._file = _folder_key(table), _file_key(table)
        self._check_columns()

    def is_stored(self) -> bool:
        """Return whether the store has this version, now or a moment ago: many members need it."""
        if time.monotonic() - self._stored_at > _STORED_SECONDS:
            if not self.table.is_stored():
                return False
            self._stored_at = time.monotonic()
        return True

    def is_unreplaced(self) -> bool:
        """Return whether the local folder still has the file of this version, or its clean-up removed it.

        True for stores, where this would take a request.
        """
        file = _file_key(self.table)
        if file is not None or not self.table.location.is_local:
            return file == self._file
        # a clean-up removes neither the folder nor the newest version
        return self._folder == _folder_key(self.table) and self.table.latest_version() > self.version

    @classmethod
    def open(cls, root: Location, version: int | None = None) -> NamespaceManifest:
        """Open the newest version or an older one.

        Rows that this process has already read are not read again.

        Raises
        ------
        NotFoundError
            There is no partitioned namespace.
        """
        former = _recent.find(root.identity)
        if version is not None or former is None:
            manifest = cls(open_manifest_table(root, version), former)
        else:
            with _named(root):
                manifest = former.latest()
        if version is None and manifest is not former:
            _recent.replace(root.identity, manifest, manifest.footprint)
        return manifest

    @classmethod
    def create(cls, root: Location, schema: NamespaceSchema, specs: PartitionSpecs) -> NamespaceManifest:
        """Create the table, with a row for each spec version.

        Raises
        ------
        AlreadyExistsError
            The table exists.
        InvalidInputError
            A partition field has an id that cannot be a column name. Nothing is created.
        """
        # readers do not need the modules that write
        from lance_df.format.operations import Overwrite
        from lance_df.format.transaction import Transaction
        from lance_df.table.commit.apply import create
        from lance_df.table.commit.loop import publish_first_version
        from lance_df.table.commit.row_account import RowChange
        from lance_df.table.writing.fragment_writer import FileLimits, fragments_written
        from lance_df.table.writing.schema_rules import check_schema

        location = root / MANIFEST_FOLDER
        columns = _schema_of_table(specs)
        check_schema(columns, FILE_VERSION)
        first = [{"object_id": spec.name, "object_type": NAMESPACE, "metadata": "{}"} for spec in specs]
        rows = pa.RecordBatch.from_pylist(first, columns.to_arrow())
        metadata = {**specs.to_metadata(), SCHEMA_KEY: schema.to_json()}
        with fragments_written(
            location, columns, [rows], version=FILE_VERSION, limits=FileLimits()
        ) as fragments:
            operation = Overwrite(fragments, columns)
            counted = RowChange.replacing(len(first))
            state = create(operation, data_format=FILE_VERSION, stable_row_ids=False)
            state = dataclasses.replace(
                state, manifest=dataclasses.replace(state.manifest, table_metadata=metadata)
            )
            transaction = Transaction(read_version=0, uuid=str(uuid.uuid4()), operation=operation)
            publish_first_version(location, state, transaction, rows=counted)
        return cls.open(root)

    @property
    def version(self) -> int:
        """The version of the namespace."""
        return self.table.version

    def latest(self) -> NamespaceManifest:
        """Return the newest version: this object, if nothing was committed since."""
        table = self.table.latest()
        return self if table is self.table else NamespaceManifest(table, self)

    def latest_for_change(self) -> NamespaceManifest:
        """Return the newest version, for a change of this one; see `check_follows`."""
        latest = self.latest()
        latest.check_follows(self)
        return latest

    def check_follows(self, read: NamespaceManifest) -> None:
        """Check that this is a later version of the namespace in ``read``.

        Raises
        ------
        IncompatibleConflictError
            The namespace in ``read`` was dropped, and another one was created in its place.
        """
        if self.table is read.table:
            return
        now = self.table.manifest_file
        if self.version > read.version:
            # the table may have been dropped since
            with suppress(NotFoundError):
                now = self.table.history.open(read.version)
            if now is self.table.manifest_file:
                return  # cleaned up: only later versions are known
        if identity(now) != identity(read.table.manifest_file):
            raise IncompatibleConflictError(
                f"{self.table.uri}: version {read.version}, which was read before, no longer exists; the "
                "namespace was dropped and created again; open it again"
            )

    def checkout(self, version: int) -> NamespaceManifest:
        """Return another version.

        Raises
        ------
        VersionNotFoundError
            There is none.
        """
        return NamespaceManifest(self.table.checkout(version), self)

    @cached_property
    def _rows(self) -> ManifestRows:
        known, self._known_rows = self._known_rows, None
        rows = ManifestRows.read(self.table, known)
        # including what is derived from the rows: those of members, and indexes by spec and partition
        self.footprint.add(_ROW_COPIES * rows.all.nbytes)
        return rows

    @property
    def _read_rows(self) -> ManifestRows | None:
        """The rows that were read for this version or an earlier one."""
        rows: ManifestRows | None = self.__dict__.get("_rows", self._known_rows)
        return rows

    @property
    def rows(self) -> pa.Table:
        """All rows, with their addresses in ``_rowaddr``."""
        return self._rows.all

    @cached_property
    def members(self) -> pa.Table:
        """The rows of member tables; other tables of the directory are not below a spec version.

        The columns that say which version to read are optional in the table; if missing, they are NULL here.

        Raises
        ------
        CorruptDataError
            A row does not name a folder, or is neither a namespace nor a table.
        """
        if (name := self._rows.untyped()) is not None:
            actual = self.rows.filter(pc.equal(self.rows["object_id"], name))["object_type"][0].as_py()
            raise CorruptDataError(
                f"{self.table.uri}: the object_type of {name} is {actual!r:.60}, expected 'namespace' or "
                "'table': repair the namespace"
            )
        tables = self._rows.members
        for field in READ_FIELDS:
            if field.name not in tables.column_names:
                tables = tables.append_column(field, pa.nulls(len(tables), field.type))
        if tables["location"].null_count:
            first = tables["object_id"].filter(pc.is_null(tables["location"]))[0]
            raise CorruptDataError(
                f"{self.table.uri}: table {first} has no location; a program that does not support "
                "partitions created or changed the row; repair the namespace"
            )
        return tables

    def changed(
        self, added: pa.Table, moved: Mapping[str, int], *, options: CommitOptions = STRICT
    ) -> NamespaceManifest:
        """Publish new rows and new versions of member tables in one commit.

        Parameters
        ----------
        added
            Rows with the columns of this table.
        moved
            The version of each changed member table, by object id.

        Raises
        ------
        RetryableConflictError
            Another version was published meanwhile. Read it, and start again.
        CommitStateUnknownError
            It is not known whether the change was published.
        RowCountMismatchError
            Namespaces or tables would be lost or duplicated.
        """
        from lance_df.format.operations import Update
        from lance_df.table.changes.removal import rows_removed
        from lance_df.table.changes.row_set import RowSet
        from lance_df.table.changes.writing import rows_written
        from lance_df.table.commit.loop import commit_change
        from lance_df.table.commit.row_account import RowChange

        names, uri = self.table.schema.names, self.table.uri
        wanted = pa.array(list(moved), pa.string())
        former = self.rows.filter(pc.is_in(self.rows["object_id"], wanted))
        check_none_lost(uri, before=pa.chunked_array([wanted]), after=former["object_id"])
        check_new(uri, before=self.rows["object_id"], removed=(), added=added["object_id"])
        merged = self._merged_fragments(len(added) + len(former))
        whole = self._rows.of_fragments(merged)
        rest = whole.filter(pc.invert(pc.is_in(whole["object_id"], wanted)))
        written = pa.concat_tables(
            [rest.select(names), _with_versions(former, moved).select(names), added.select(names)]
        )
        addresses = former[ROW_ADDRESS].to_numpy()
        is_left = ~np.isin(split_addresses(addresses)[0], merged)
        left = RowSet()
        left.add(addresses[is_left])
        taken = pa.concat_tables([whole, former.filter(pa.array(is_left))])["object_id"]
        check_written(uri, taken=taken, removed=(), added=added["object_id"], written=written["object_id"])
        # all rows of the fragments to rewrite must have been read; the row account takes their number from
        # the rows read
        sizes = self._rows.sizes()
        read = {fragment_id: sizes[fragment_id][0] for fragment_id in merged}
        rows = RowChange(len(taken) + len(added), {**read, **left.live_counts(self.table)})
        with (
            rows_written(self.table, self.table.schema, written.to_batches()) as fragments,
            rows_removed(self.table, left) as removal,
        ):
            gone = (*removal.removed_fragment_ids, *merged)
            operation = Update(gone, removal.updated_fragments, fragments)
            return NamespaceManifest(commit_change(self.table, operation, rows=rows, options=options), self)

    def _merged_fragments(self, num_new: int) -> list[int]:
        """Return the fragments to rewrite together with ``num_new`` new rows.

        These are small fragments, so that there are never many, and each row is rewritten only as often as
        the number of rows doubles; and fragments of which most rows are deleted.
        """
        sizes = self._rows.sizes()
        limits = NAMESPACE_LIMITS.current
        merged, num_rows = [], num_new
        for fragment_id, (num_live, num_deleted) in sorted(sizes.items(), key=lambda each: each[1][0]):
            if num_live <= max(limits.merge_ratio * num_rows, num_deleted, limits.small_fragment_rows):
                merged.append(fragment_id)
                num_rows += num_live
        return merged

    def _check_columns(self) -> None:
        types = {field.name: field.type for field in self.table.arrow_schema}
        for each in BASE_FIELDS[:3]:
            if types.get(each.name) != each.type:
                raise CorruptDataError(f"{self.table.uri}: {column_problem(each, types.get(each.name))}")
        wanted = {field.column: field.result_type for field in self.specs.fields.values()}
        wanted |= {field.name: field.type for field in READ_FIELDS if field.name in types}
        missing = [name for name, data_type in wanted.items() if types.get(name) != data_type]
        if missing:
            column = pa.field(missing[0], wanted[missing[0]])
            problem = column_problem(column, types.get(column.name))
            raise CorruptDataError(
                f"{self.table.uri}: version {self.table.version} has partition specs, but {problem}; a "
                "program that does not support them rewrote the table; repair the namespace"
            )


def column_problem(column: pa.Field, stored: pa.DataType | None) -> str:
    """Say that a column of ``__manifest`` is missing, for a type of None, or has another type."""
    if stored is None:
        return f"column {column.name} of type {column.type} is missing"
    return f"column {column.name} must be of type {column.type}, found {stored}"


def _described(table: Table, former: NamespaceManifest | None) -> tuple[PartitionSpecs, NamespaceSchema]:
    metadata = table.manifest.table_metadata
    if former is not None and former.table.manifest.table_metadata == metadata:
        return former.specs, former.schema
    specs = PartitionSpecs.from_metadata(metadata, source=table.uri)
    if specs is None:
        raise NotFoundError(f"{table.uri}: this is a directory namespace, without partition specs")
    if SCHEMA_KEY not in metadata:
        raise CorruptDataError(f"{table.uri}: the namespace has partition specs, but no schema")
    return specs, NamespaceSchema.from_json(metadata[SCHEMA_KEY], source=f"{table.uri}: {SCHEMA_KEY}")


def _with_versions(rows: pa.Table, versions: Mapping[str, int]) -> pa.Table:
    """Return the rows of members, changed to name versions of main."""
    if not versions:
        return rows
    new = pa.array([versions[name] for name in rows["object_id"].to_pylist()], pa.uint64())
    columns = {"read_version": new, "read_branch": pa.nulls(len(new)), "read_tag": pa.nulls(len(new))}
    for name, values in columns.items():
        index = rows.schema.get_field_index(name)
        rows = rows.set_column(index, rows.schema.field(index), values.cast(rows.schema.field(index).type))
    return rows


# the newest version that this process has seen of each namespace
_recent: Final[Entries[NamespaceManifest]] = PROCESS.entries(CacheKind.NAMESPACES)


def manifest_schema(more: Iterable[pa.Field]) -> Schema:
    """Return the schema of a ``__manifest`` table: the standard columns and ``more``."""
    key, *others = schema_from_arrow(pa.schema([*BASE_FIELDS, *more])).fields
    key = dataclasses.replace(key, primary_key_position=0, metadata=_KEY_METADATA)
    return Schema(fields=(key, *others))


def _schema_of_table(specs: PartitionSpecs) -> Schema:
    partition = [pa.field(field.column, field.result_type) for field in specs.fields.values()]
    return manifest_schema([*READ_FIELDS, *partition])


def _folder_key(table: Table) -> Hashable:
    """Return a key of the local folder of a table that differs for another folder of that name.

    None for stores, and for a folder that does not exist.
    """
    status = _status(table, table.location.path)
    return status and (status.st_dev, status.st_ino)


def _file_key(table: Table) -> Hashable:
    """Return a key of the local manifest file of a version that differs for another file of that name.

    None for stores, and for a file that does not exist.
    """
    status = _status(table, table.manifest_file.path)
    return status and (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size)


def _status(table: Table, path: str) -> os.stat_result | None:
    if not table.location.is_local:
        return None
    try:
        return os.stat(path)
    except OSError:
        return None
