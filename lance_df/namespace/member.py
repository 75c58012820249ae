"""Member tables: one ordinary Lance table for each partition, read at the version that the namespace names.

A commit to a member becomes visible only when the namespace publishes the new version. So a commit builds on
the published version. Newer versions, of a writer that was interrupted or has not finished, are first undone
by a separate version.
"""

from __future__ import annotations

import dataclasses
import time
import uuid
from functools import partial
from typing import TYPE_CHECKING, Final

from lance_df.errors import AlreadyExistsError, RetryableConflictError
from lance_df.format.fragment_list import FragmentList
from lance_df.format.operations import Overwrite, Restore
from lance_df.format.transaction import Transaction
from lance_df.namespace.member_tables import check_can_take_rows as check_can_take_rows
from lance_df.namespace.member_tables import check_columns as check_columns
from lance_df.namespace.member_tables import in_columns_of as in_columns_of
from lance_df.namespace.member_tables import open_member as open_member
from lance_df.table.commit.apply import create
from lance_df.table.commit.loop import commit_change
from lance_df.table.commit.manifest_bytes import make_manifest_file
from lance_df.table.commit.numbering import highest_id, numbered
from lance_df.table.commit.options import CommitOptions
from lance_df.table.commit.publish import is_absent, publish_manifest
from lance_df.table.commit.row_account import RowAccount, RowChange
from lance_df.table.commit.state import TableState, library_version
from lance_df.table.metadata.versions import VERSIONS_DIR, NamingScheme
from lance_df.table.writing.uncommitted import publishing, uncommitted_files

if TYPE_CHECKING:
    from collections.abc import Callable

    from lance_df.format.fragments import Fragment
    from lance_df.format.manifest import IndexMetadata
    from lance_df.format.operations import Operation
    from lance_df.format.schema import Schema
    from lance_df.storage import Location
    from lance_df.storage.unsynced import Unsynced
    from lance_df.table.table import Table
    from lance_df.table.writing.zone_map_writer import ZoneMaps

FILE_VERSION: Final = "2.2"
# A property of transactions whose versions become visible only when the namespace publishes them.
STAGED_KEY: Final = "lance_df:staged"
# No other writer may commit in between.
MEMBER_COMMIT: Final = CommitOptions(
    strict=True, max_retries=0, properties={STAGED_KEY: "true"}, is_part=True
)
_ATTEMPTS: Final = 20


class NewMembers:
    """Creates the tables of new partitions.

    Parameters
    ----------
    schema
        The schema of all tables.
    """

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        state = create(Overwrite((), schema), data_format=FILE_VERSION, stable_row_ids=False)
        manifest = dataclasses.replace(state.manifest, writer_version=library_version())
        # the parts that all of them share are converted to protobuf once
        _, self._empty = manifest.serialized(index_section=None, transaction_section=None)

    def create(
        self,
        location: Location,
        fragments: tuple[Fragment, ...],
        unsynced: Unsynced,
        zone_maps: ZoneMaps | None = None,
        *,
        num_rows: int,
    ) -> int:
        """Create a table in a folder that no other writer knows, and return its version.

        Parameters
        ----------
        fragments
            Their files have the version `FILE_VERSION`.
        unsynced
            Records local files, which are not durable yet.
        zone_maps
            The zone maps of some of the fragments, if there are any.
        num_rows
            How many rows were passed to the writer.

        Raises
        ------
        AlreadyExistsError
            The folder has a table.
        RowCountMismatchError
            The fragments have another number of rows.
        """
        added = numbered(self._empty, fragments)
        manifest = dataclasses.replace(
            self._empty,
            fragments=FragmentList.of(added),
            max_fragment_id=highest_id(self._empty, added),
            timestamp_ns=time.time_ns(),
        )
        operation = Overwrite(fragments, self._schema)
        rows = RowChange.replacing(num_rows)
        RowAccount(location.uri, 0, self._empty.fragments, operation, rows).check(manifest.fragments)
        with uncommitted_files() as files:
            indices: tuple[IndexMetadata, ...] = ()
            if zone_maps is not None:
                indices = zone_maps.builder.write(location, manifest, zone_maps.fragments, unsynced, files)
            self._publish(location, TableState(manifest, indices), operation, unsynced)
        return manifest.version

    def _publish(
        self, location: Location, state: TableState, operation: Operation, unsynced: Unsynced
    ) -> None:
        version = state.manifest.version
        transaction = Transaction(read_version=0, uuid=str(uuid.uuid4()), operation=operation)
        file = location / VERSIONS_DIR / NamingScheme.V2.file_name(version)
        data, _ = make_manifest_file(file.uri, state, transaction.serialize())
        look = partial(is_absent, file, data) if file.is_local else None
        with publishing(
            state.manifest, state.indices, location.uri, transaction.uuid, is_part=True, is_absent=look
        ) as attempt:
            if location.is_local:
                attempt.is_published = unsynced.create(file, data)
            else:
                attempt.is_published = publish_manifest(location, version, NamingScheme.V2, data)
            attempt.is_refused = not attempt.is_published
        if attempt.is_refused:
            raise AlreadyExistsError(f"{location.uri}: table already exists")


def commit_to_member(location: Location, published: int, operation: Operation, rows: RowChange) -> int:
    """Commit an operation that was computed from the published version, and return the version it became.

    Parameters
    ----------
    rows
        How many rows the operation adds and deletes, counted where they were selected.

    Raises
    ------
    RetryableConflictError
        Other writers were faster again and again.
    """
    return commits_to_member(
        location, published, lambda base: commit_change(base, operation, rows=rows, options=MEMBER_COMMIT)
    )


def commits_to_member(location: Location, published: int, commit: Callable[[Table], Table]) -> int:
    """Make commits on top of the published version, and return the last version.

    Parameters
    ----------
    commit
        Receives the newest version, which has the content of the published one, and commits with
        `MEMBER_COMMIT`. Called again if another writer commits first.

    Raises
    ------
    RetryableConflictError
        Other writers were faster again and again.
    """
    attempt = 0
    while True:
        try:
            base = open_member(location, published)
            latest = base.latest()
            if latest.version != published:
                rows = RowChange.restoring(base)
                base = commit_change(latest, Restore(published), rows=rows, options=MEMBER_COMMIT)
            return commit(base).version
        except RetryableConflictError:
            attempt += 1
            if attempt == _ATTEMPTS:
                raise
            MEMBER_COMMIT.wait(attempt)
