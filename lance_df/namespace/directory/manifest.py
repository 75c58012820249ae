"""The ``__manifest`` table as a directory of names: one row for each namespace and each table.

Changes add and delete rows. Other rows, additional columns and the table metadata stay unchanged. Each change
is committed only on top of the version from which it was computed, so no two rows have the same id. Spec:
directory namespace, V2; table format, chapter 15.
"""

from __future__ import annotations

import json
import re
import uuid
from contextlib import ExitStack, suppress
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.errors import (
    AlreadyExistsError,
    CorruptDataError,
    InvalidInputError,
    NotFoundError,
    UnsupportedFeatureError,
)
from lance_df.format.messages import parse_json
from lance_df.namespace.limits import NAMESPACE_LIMITS
from lance_df.namespace.manifest_rows import check_all_rows
from lance_df.namespace.manifest_table import (
    FILE_VERSION,
    NAMESPACE,
    TABLE,
    column_problem,
    manifest_schema,
    open_manifest_table,
)
from lance_df.namespace.metadata.runtime_properties import spec_properties, value_column, value_properties
from lance_df.namespace.names import MANIFEST_FOLDER, SEPARATOR
from lance_df.namespace.object_account import check_new, check_written
from lance_df.namespace.spec.partition_spec import KEY_PREFIX
from lance_df.records import dataclass
from lance_df.scan.request import Promise, ScanRequest
from lance_df.scan.run import run_tasks
from lance_df.table.commit.options import CommitOptions
from lance_df.table.reading.system_columns import ROW_ADDRESS
from lance_df.table.scan.plan import plan_scan

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lance_df.storage import Location
    from lance_df.table.table import Table

_FLAGS: Final = "lance.namespace.manifest."
_READER_FLAGS: Final = f"{_FLAGS}reader_feature_flags"
_WRITER_FLAGS: Final = f"{_FLAGS}writer_feature_flags"
_COLUMNS: Final = ("object_id", "object_type", "location", "metadata")
_SPEC_NAME: Final = re.compile(r"v[0-9]+", re.ASCII)
# The caller computes the change again from the newest version.
_STRICT: Final = CommitOptions(strict=True, max_retries=0)


@dataclass(frozen=True, slots=True)
class Entry:
    """A namespace, or a table with its folder relative to the root."""

    object_id: str
    object_type: str
    location: str | None = None
    properties: Mapping[str, str] | None = None

    @property
    def is_table(self) -> bool:
        """Whether it is a table."""
        return self.object_type == TABLE

    @property
    def is_namespace(self) -> bool:
        """Whether it is a namespace."""
        return self.object_type == NAMESPACE

    @property
    def metadata(self) -> str | None:
        """The properties as JSON text, as stored."""
        if not self.properties:
            return None
        return json.dumps(dict(self.properties), separators=(",", ":"), ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Edit:
    """A change of the directory: the ids of the rows to remove, and the entries to add.

    An added entry with a removed id keeps the values of the other columns.
    """

    added: Sequence[Entry] = ()
    removed: Sequence[str] = ()


class DirectoryManifest:
    """One version of ``__manifest``. Immutable.

    Raises
    ------
    UnsupportedFeatureError
        Reading it needs features that this release does not have.
    CorruptDataError
        A column is missing, or its feature flags are not numbers.
    """

    def __init__(self, table: Table) -> None:
        self.table = table
        if flags := _flags(table, _READER_FLAGS):
            raise UnsupportedFeatureError(f"{table.uri}: unknown reader feature flags: {flags}")
        types = {field.name: field.type for field in table.arrow_schema}
        for name in _COLUMNS:
            if types.get(name) != pa.string():
                column = pa.field(name, pa.string())
                raise CorruptDataError(f"{table.uri}: {column_problem(column, types.get(name))}")

    @classmethod
    def open(cls, root: Location) -> DirectoryManifest | None:
        """Open the newest version, or return None if the directory has no ``__manifest`` yet."""
        try:
            return cls(open_manifest_table(root))
        except NotFoundError:
            return None

    @classmethod
    def open_or_create(cls, root: Location) -> DirectoryManifest:
        """Open the newest version, or create the first one without rows."""
        if (manifest := cls.open(root)) is None:
            # readers do not need the modules that write
            from lance_df.format.operations import Overwrite
            from lance_df.format.transaction import Transaction
            from lance_df.table.commit.loop import create_table
            from lance_df.table.commit.row_account import RowChange

            transaction = Transaction(
                read_version=0, uuid=str(uuid.uuid4()), operation=Overwrite((), manifest_schema(()))
            )
            with suppress(AlreadyExistsError):
                create_table(
                    root / MANIFEST_FOLDER,
                    transaction,
                    rows=RowChange.replacing(0),
                    data_format=FILE_VERSION,
                )
            manifest = cls(open_manifest_table(root))
        return manifest

    def latest(self) -> DirectoryManifest:
        """Return the newest version: this object, if nothing was committed since."""
        table = self.table.latest()
        return self if table is self.table else DirectoryManifest(table)

    @property
    def root_properties(self) -> dict[str, str]:
        """The properties of the root; for a partitioned namespace, these are its specs and its schema."""
        metadata = self.table.manifest.table_metadata
        return {key: value for key, value in metadata.items() if not key.startswith(_FLAGS)}

    def runtime_properties(self, object_id: str) -> dict[str, str]:
        """Return the runtime properties of a namespace below a partitioned namespace."""
        metadata = self.table.manifest.table_metadata
        field_and_column = value_column(metadata, object_id)
        if field_and_column is None:
            return spec_properties(metadata, object_id)
        field_id, column = field_and_column
        if column not in self.table.schema.names:
            return {}
        rows = self._scan(ScanRequest(columns=("object_id", column), requires=Promise.COMPLETE))
        return value_properties(field_id, rows.filter(pc.equal(rows["object_id"], object_id))[column])

    def check_changeable(self, object_id: str | None = None) -> None:
        """Check that this program can change the table, and optionally one of its objects.

        Raises
        ------
        UnsupportedFeatureError
            Writing the table needs features that this release does not have.
        InvalidInputError
            The object belongs to a partitioned namespace.
        """
        check_writable(self.table)
        if object_id is not None and self.is_of_partitions(object_id):
            raise InvalidInputError(
                f"{object_id!r} belongs to a partitioned namespace and cannot be changed on its own"
            )

    def is_of_partitions(self, object_id: str) -> bool:
        """Whether an id is that of a spec version or is below one."""
        if not _SPEC_NAME.fullmatch(object_id.split(SEPARATOR, 1)[0]):
            return False
        return any(key.startswith(KEY_PREFIX) for key in self.table.manifest.table_metadata)

    def find(self, object_id: str) -> Entry | None:
        """Return the namespace or table with an id, or None.

        Raises
        ------
        CorruptDataError
            Several rows have the id, or the properties are not a JSON object of strings.
        """
        rows = self._rows.filter(pc.equal(self._rows["object_id"], object_id)).to_pylist()
        if len(rows) > 1:
            raise CorruptDataError(f"{self.table.uri}: {len(rows)} rows have the id {object_id!r}")
        if not rows:
            return None
        (row,) = rows
        source = f"{self.table.uri}: metadata of {object_id!r}"
        if row["object_type"] == TABLE and row["location"] is None:
            raise CorruptDataError(f"{self.table.uri}: table {object_id!r} has no location")
        properties = _properties(row["metadata"], source)
        location = None if row["location"] is None else row["location"].removesuffix("/")
        return Entry(object_id, row["object_type"], location, properties)

    def has_children(self, object_id: str) -> bool:
        """Whether a namespace is not empty."""
        return bool(pc.any(pc.starts_with(self._rows["object_id"], object_id + SEPARATOR)).as_py())

    def children(self, parent: Sequence[str], object_type: str) -> list[str]:
        """Return the names of the tables or namespaces directly in a namespace, in any order."""
        ids = self.ids(object_type)
        prefix = "".join(part + SEPARATOR for part in parent)
        is_child = pc.and_(
            pc.starts_with(ids, prefix), pc.equal(pc.count_substring(ids, SEPARATOR), len(parent))
        )
        return [name.removeprefix(prefix) for name in ids.filter(is_child).to_pylist()]

    def ids(self, object_type: str) -> pa.ChunkedArray:
        """Return the ids of all tables, or of all namespaces, in any order."""
        return self._rows.filter(pc.equal(self._rows["object_type"], object_type))["object_id"]

    def locations(self) -> dict[str, str]:
        """Return the locations of all tables by their ids."""
        tables = self._rows.filter(pc.equal(self._rows["object_type"], TABLE))
        pairs = zip(tables["object_id"].to_pylist(), tables["location"].to_pylist(), strict=True)
        return {name: location for name, location in pairs if location is not None}

    def changed(self, edit: Edit) -> DirectoryManifest:
        """Publish an edit that was computed from this version.

        Raises
        ------
        RetryableConflictError
            Another version was published meanwhile. Compute the edit again from that version.
        CommitStateUnknownError
            It is not known whether the edit was published.
        UnsupportedFeatureError
            Writing the table needs features that this release does not have.
        """
        from lance_df.format.operations import Update
        from lance_df.table.changes.removal import rows_removed
        from lance_df.table.changes.row_set import RowSet
        from lance_df.table.changes.writing import rows_written
        from lance_df.table.commit.loop import commit_change
        from lance_df.table.commit.row_account import RowChange

        self.check_changeable()
        going = pc.is_in(self._rows["object_id"], pa.array(edit.removed, pa.string()))
        moving = pc.and_not(self._in_small_fragments(), going)
        gone = RowSet.of([self._rows.filter(pc.or_(going, moving))[ROW_ADDRESS].to_numpy()])
        added = [self._row(entry, going) for entry in edit.added]
        if pc.any(moving).as_py():
            added.append(self._full_rows(moving))
        written = pa.concat_tables([self.table.arrow_schema.empty_table(), *added])
        ids, uri = self._rows["object_id"], self.table.uri
        new = pa.chunked_array([[entry.object_id for entry in edit.added]], pa.string())
        taken = ids.filter(pc.or_(going, moving))
        check_new(uri, before=ids, removed=edit.removed, added=new)
        check_written(uri, taken=taken, removed=edit.removed, added=new, written=written["object_id"])
        num_moved = len(ids.filter(moving))
        rows = RowChange(len(new) + num_moved, gone.live_counts(self.table))
        with ExitStack() as stack:
            fragments = stack.enter_context(rows_written(self.table, self.table.schema, written.to_batches()))
            removal = stack.enter_context(rows_removed(self.table, gone))
            operation = Update(removal.removed_fragment_ids, removal.updated_fragments, fragments)
            return DirectoryManifest(commit_change(self.table, operation, rows=rows, options=_STRICT))

    @cached_property
    def _rows(self) -> pa.Table:
        return self._scan(ScanRequest(columns=_COLUMNS, with_row_address=True, requires=Promise.COMPLETE))

    def _full_rows(self, wanted: pa.ChunkedArray) -> pa.Table:
        addresses = self._rows[ROW_ADDRESS].filter(wanted).combine_chunks()
        rows = self._scan(ScanRequest(with_row_address=True, requires=Promise.COMPLETE))
        return rows.filter(pc.is_in(rows[ROW_ADDRESS], addresses)).drop_columns([ROW_ADDRESS])

    def _scan(self, request: ScanRequest) -> pa.Table:
        """Return all rows, and check that none is missing: a rewrite of its fragment would lose it."""
        plan = plan_scan(self.table, request)
        rows = pa.Table.from_batches(run_tasks(plan.tasks), plan.schema).combine_chunks()
        check_all_rows(self.table, rows)
        return rows

    def _row(self, entry: Entry, going: pa.ChunkedArray) -> pa.Table:
        schema = self.table.arrow_schema
        same = pc.and_(going, pc.equal(self._rows["object_id"], entry.object_id))
        row = self._full_rows(same) if pc.any(same).as_py() else schema.empty_table()
        if not len(row):
            row = pa.table([pa.nulls(1, field.type) for field in schema], schema=schema)
        for name in _COLUMNS:
            index = schema.get_field_index(name)
            row = row.set_column(index, schema.field(index), pa.array([getattr(entry, name)], pa.string()))
        return row

    def _in_small_fragments(self) -> pa.ChunkedArray:
        """Return which rows are in small fragments; none if there are few such fragments."""
        fragments, limits = self.table.fragments, NAMESPACE_LIMITS.current
        small = fragments.ids[fragments.physical_rows <= limits.directory_small_fragment_rows]
        owners = self._rows[ROW_ADDRESS].to_numpy() >> np.uint64(32)
        if len(small) < limits.directory_small_fragments:
            return pa.chunked_array([np.zeros(len(owners), dtype=np.bool_)])
        return pa.chunked_array([np.isin(owners, small.astype(np.uint64))])


def check_writable(table: Table) -> None:
    """Check that this release can change a ``__manifest`` table.

    Raises
    ------
    UnsupportedFeatureError
        Writing the table needs features that this release does not have.
    CorruptDataError
        Its feature flags are not numbers.
    """
    if flags := _flags(table, _WRITER_FLAGS):
        raise UnsupportedFeatureError(f"{table.uri}: unknown writer feature flags: {flags}")


def _flags(table: Table, key: str) -> int:
    text = table.manifest.table_metadata.get(key, "0")
    if not (text.isascii() and text.isdecimal()):
        raise CorruptDataError(f"{table.uri}: {key} must be a number, got {text!r:.100}")
    return int(text) if len(text) <= 20 else -1


def _properties(text: str | None, source: str) -> dict[str, str] | None:
    if text is None:
        return None
    properties = parse_json(text, source)
    if not isinstance(properties, dict) or not all(isinstance(value, str) for value in properties.values()):
        raise CorruptDataError(f"{source}: expected a JSON object of strings, got {text:.100}")
    return properties
