"""Zone maps for new fragments: bounds of every column, collected while rows are written.

They are committed after the rows, in a separate version: without them the table is complete, only slower.
"""

from __future__ import annotations

import uuid
import warnings
from dataclasses import field
from typing import TYPE_CHECKING

import numpy as np
from pyroaring import BitMap

from lance_df.errors import LanceError, RetryableConflictError
from lance_df.format.operations import CreateIndex
from lance_df.format.transaction import Transaction
from lance_df.records import dataclass
from lance_df.storage.unsynced import Unsynced
from lance_df.table.commit.loop import commit
from lance_df.table.commit.row_account import NO_ROWS
from lance_df.table.maintenance.zone_map_files import (
    KIND,
    ZoneMapData,
    joined,
    read_segments,
    write_zone_map,
)
from lance_df.table.maintenance.zones import ZoneCollector, has_bounds
from lance_df.table.metadata.base_paths import BasePaths
from lance_df.table.metadata.history import History
from lance_df.table.metadata.index_coverage import indices_to_search
from lance_df.table.writing.uncommitted import uncommitted_files

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import pyarrow as pa

    from lance_df.format.fragments import Fragment
    from lance_df.format.manifest import IndexMetadata, Manifest
    from lance_df.format.schema import Field, Schema
    from lance_df.storage import Location
    from lance_df.table.commit.options import CommitOptions
    from lance_df.table.metadata.external_store import ExternalManifestStore
    from lance_df.table.metadata.manifest_io import ManifestFile
    from lance_df.table.writing.uncommitted import UncommittedFiles

_MAX_BOUND_BYTES = 4096
# Each append adds a segment, and readers search all of them, so they are joined from time to time.
_MAX_SEGMENTS = 8
_ATTEMPTS = 5


class ZoneMapBuilder:
    """Collects the bounds of all suitable top-level columns of new fragments.

    Parameters
    ----------
    without
        Ids of the columns to leave out.
    """

    def __init__(self, schema: Schema, *, without: Collection[int] = ()) -> None:
        self._columns = {
            position: ZoneCollector(field, max_bound_bytes=_MAX_BOUND_BYTES)
            for position, field in enumerate(schema.fields)
            if has_bounds(field) and field.id not in without
        }
        self._fragment = 0
        self._num_rows = 0

    def add(self, arrays: Sequence[pa.Array]) -> None:
        """Add rows, as one array for each field of the schema."""
        if not arrays:
            return
        stop = self._num_rows + len(arrays[0])
        offsets = np.arange(self._num_rows, stop, dtype=np.int64)
        for position, column in self._columns.items():
            column.add(self._fragment, arrays[position], offsets)
        self._num_rows = stop

    def copy_pending(self) -> None:
        """Copy the rows of incomplete zones, so that no other rows that were added stay in memory."""
        for column in self._columns.values():
            column.copy_pending()

    def end_fragment(self) -> None:
        """End the fragment; rows added later belong to the next one."""
        for column in self._columns.values():
            column.end_fragment()
        self._fragment += 1
        self._num_rows = 0

    def extend(self, other: ZoneMapBuilder) -> None:
        """Append the zones of another builder, for fragments that follow those of this one.

        It must have the same columns, and may come from another process, as builders can be pickled.
        """
        for position, column in self._columns.items():
            column.extend(other._columns[position], self._fragment)
        self._fragment += other._fragment

    def commit(
        self,
        table: Location,
        made: ManifestFile,
        fragments: Sequence[Fragment],
        external_store: ExternalManifestStore | None = None,
        options: CommitOptions | None = None,
        *,
        attempts: int = _ATTEMPTS,
    ) -> ManifestFile:
        """Write an index segment for each column, and publish them in one new version.

        Parameters
        ----------
        table
            The root of the table or branch.
        made
            The version that has the fragments.
        fragments
            The fragments as they were written, without ids.
        attempts
            How often to start again after conflicts with other commits.

        Returns
        -------
        The version that has the indices, or ``made`` if no column is suitable.

        Raises
        ------
        LanceError
            The indices could not be written or committed; their files are deleted.
        """
        latest = made
        for attempt in range(attempts):
            try:
                return self._commit(table, latest, fragments, external_store, options)
            except RetryableConflictError:
                if attempt == attempts - 1:
                    raise
                latest = History(table, external_store).open_latest()
        return made

    def write(
        self,
        table: Location,
        manifest: Manifest,
        fragments: Sequence[Fragment],
        unsynced: Unsynced,
        files: UncommittedFiles,
    ) -> tuple[IndexMetadata, ...]:
        """Write an index segment for each column, for a new table that is about to be created.

        Parameters
        ----------
        manifest
            The manifest of the table, with the ids of the fragments.
        unsynced
            Records the files for a later sync; they are not durable until then.
        files
            Registers the files before they are created.
        """
        by_path = {file.path: each for each in manifest.fragments for file in each.files}
        committed = [by_path.get(fragment.files[0].path) for fragment in fragments]
        entries = ((column.field, _data(column, fragments, committed)) for column in self._columns.values())
        return tuple(
            write_zone_map(
                table, manifest, field, data, name=_default_name(field), files=files, unsynced=unsynced
            )
            for field, data in entries
            if data is not None
        )

    def _commit(
        self,
        table: Location,
        latest: ManifestFile,
        fragments: Sequence[Fragment],
        external_store: ExternalManifestStore | None,
        options: CommitOptions | None,
    ) -> ManifestFile:
        by_path = {file.path: each for each in latest.manifest.fragments for file in each.files}
        committed = [by_path.get(fragment.files[0].path) for fragment in fragments]
        bases = BasePaths(table, latest.manifest.base_paths, source=latest.path)
        indices = indices_to_search(latest, bases)
        new: list[IndexMetadata] = []
        removed: list[IndexMetadata] = []
        # a separate one: files that are deleted after a refused commit must not be left to others to sync
        unsynced = Unsynced()
        with uncommitted_files() as files:
            for column in self._columns.values():
                data = _data(column, fragments, committed)
                name = _index_name(column.field, indices)
                if data is None or name is None:
                    continue
                former = [index for index in indices if index.name == name]
                parts = _to_join(bases, latest, column.field, former)
                removed += former if parts else []
                entry = joined([*parts, data])
                written = write_zone_map(
                    table,
                    latest.manifest,
                    column.field,
                    entry,
                    name=name,
                    files=files,
                    unsynced=unsynced,
                )
                new.append(written)
            if not new:
                return latest
            unsynced.sync()
            transaction = Transaction(
                read_version=latest.manifest.version,
                uuid=str(uuid.uuid4()),
                operation=CreateIndex(tuple(new), tuple(removed)),
            )
            return commit(table, transaction, rows=NO_ROWS, external_store=external_store, options=options)


@dataclass(frozen=True, slots=True)
class ZoneMaps:
    """Collected zone maps of rows, and their fragments as they were written, without ids."""

    builder: ZoneMapBuilder
    fragments: list[Fragment] = field(default_factory=list)

    def extend(self, other: ZoneMaps) -> None:
        """Append the zone maps of other fragments of the table."""
        self.builder.extend(other.builder)
        self.fragments.extend(other.fragments)


def with_zone_maps(
    table: Location,
    made: ManifestFile,
    zone_maps: ZoneMaps,
    external_store: ExternalManifestStore | None = None,
    options: CommitOptions | None = None,
) -> ManifestFile:
    """Add the zone maps of rows that are committed already; a failure is only a warning.

    Parameters
    ----------
    made
        The version that has the rows.
    """
    try:
        return zone_maps.builder.commit(table, made, zone_maps.fragments, external_store, options)
    except LanceError as err:
        version = made.manifest.version
        message = (
            f"{table.uri}: version {version} was committed, but its statistics could not be computed: {err}"
        )
        warnings.warn(message, RuntimeWarning, stacklevel=4)
        return made


def _data(
    column: ZoneCollector, written: Sequence[Fragment], committed: Sequence[Fragment | None]
) -> ZoneMapData | None:
    """Return the zones of the fragments that still have the column as it was written."""
    ids = {}
    for number, (before, now) in enumerate(zip(written, committed, strict=True)):
        file = None if now is None else now.file_of(column.field.id)
        if now is not None and file is not None and file.path == before.files[0].path:
            ids[number] = now.id
    if not column.is_worthwhile or not ids:
        return None
    return ZoneMapData(column.finish(ids), BitMap(ids.values()))


def _index_name(field: Field, existing: Sequence[IndexMetadata]) -> str | None:
    """Return the name for an index segment on the field, or None if another index has the name."""
    for index in existing:
        if index.kind == KIND and index.fields == (field.id,):
            return index.name
    name = _default_name(field)
    return None if any(index.name == name for index in existing) else name


def _default_name(field: Field) -> str:
    return f"{field.name}_zonemap"


def _to_join(
    bases: BasePaths, latest: ManifestFile, field: Field, segments: Sequence[IndexMetadata]
) -> list[ZoneMapData]:
    """Return the zones of an index's segments if there are many; an empty list if they stay separate."""
    if len(segments) < _MAX_SEGMENTS - 1:
        return []
    present = BitMap(latest.manifest.fragments.ids.tolist())
    return read_segments(segments, lambda entry: bases.index(entry.uuid, entry.base_id), field, present)
