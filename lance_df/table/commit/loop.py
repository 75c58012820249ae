"""Publish a new version: check what others committed, rebase, put the manifest if its name is free, repeat.

Spec: table format, chapter 8. Data files must be durable before. All or nothing: a manifest appears whole,
under a name that nobody else can take, and only then is the commit there.
"""

from __future__ import annotations

import dataclasses
import json
import random
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lance_df.errors import (
    AlreadyExistsError,
    CommitStateUnknownError,
    IncompatibleConflictError,
    LanceError,
    NotFoundError,
    RetryableConflictError,
    StorageError,
)
from lance_df.format.feature_flags import FeatureFlag, check_writable
from lance_df.format.operations import Overwrite, Restore
from lance_df.format.transaction import Transaction
from lance_df.storage.put_if_absent import put_if_absent
from lance_df.table.commit.apply import apply, create
from lance_df.table.commit.conflicts import check_conflict
from lance_df.table.commit.manifest_bytes import serialize_manifest_file
from lance_df.table.commit.state import TableState, library_version
from lance_df.table.manifest_io import read_manifest
from lance_df.table.versions import VERSIONS_DIR, NamingScheme, list_versions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lance_df.format.operations import Operation
    from lance_df.storage import Location
    from lance_df.table.manifest_io import ManifestFile
    from lance_df.table.table import Table
    from lance_df.table.versions import VersionListing

TRANSACTIONS_DIR = "_transactions"
_HINT = "latest_version_hint.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitOptions:
    """How a commit behaves.

    Attributes
    ----------
    max_attempts
        How often another writer may win before this one gives up.
    clock_ns, sleep
        Time, for the timestamp and for waiting between attempts.
    """

    max_attempts: int = 20
    clock_ns: Callable[[], int] = time.time_ns
    sleep: Callable[[float], None] = time.sleep


def create_table(
    table: Location,
    transaction: Transaction,
    *,
    data_format: str,
    stable_row_ids: bool = False,
    scheme: NamingScheme = NamingScheme.V2,
    options: CommitOptions | None = None,
) -> int:
    """Publish version 1 of a new table.

    Parameters
    ----------
    table
        Its root.
    transaction
        An overwrite with read version 0.
    data_format
        File version of its data files.

    Raises
    ------
    AlreadyExistsError
        There is a table already, or another writer made one meanwhile.
    CommitStateUnknownError
        The store failed in a way that leaves open whether the table was made. Nothing may be deleted.
    StorageError
        The store failed; the table was not made.
    """
    if not isinstance(transaction.operation, Overwrite):
        raise TypeError("tables are created by an overwrite")
    options = options or CommitOptions()
    if list_versions(table).latest is not None:
        raise AlreadyExistsError(f"{table.uri}: there is a table already; pass mode='append' or 'overwrite'")
    state = create(transaction.operation, data_format=data_format, stable_row_ids=stable_row_ids)
    with _tidied(table, transaction):
        if not _publish(table, state, transaction, scheme, options):
            raise AlreadyExistsError(f"{table.uri}: another writer created a table here meanwhile")
    return state.manifest.version


def commit(
    table: Location,
    transaction: Transaction,
    *,
    data_format: str | None = None,
    options: CommitOptions | None = None,
) -> int:
    """Publish a transaction on top of the latest version of an existing table.

    Parameters
    ----------
    table
        The root of the table or branch.
    transaction
        Computed from its ``read_version``.
    data_format
        For an overwrite: the file version of the new content.

    Returns
    -------
    The version that was made.

    Raises
    ------
    RetryableConflictError
        Another commit forbids this one as it is; or other writers won too often.
    IncompatibleConflictError
        Another commit makes this one meaningless.
    CommitStateUnknownError
        The store failed in a way that leaves open whether the version was made. Nothing may be deleted.
    UnsupportedFeatureError
        The table needs a writer that knows more.
    """
    options = options or CommitOptions()
    with _tidied(table, transaction):
        return _commit(table, transaction, data_format, options)


def commit_change(
    table: Table,
    operation: Operation,
    *,
    properties: Mapping[str, str] | None = None,
    options: CommitOptions | None = None,
) -> Table:
    """Publish an operation that was computed from a table, and return the table at the version it became.

    Parameters
    ----------
    table
        The version that the operation was computed from; it need not be the newest one.
    properties
        Kept with the transaction.

    Raises
    ------
    ConflictError, CommitStateUnknownError, UnsupportedFeatureError
        See :func:`commit`.
    """
    transaction = Transaction(
        read_version=table.version,
        uuid=str(uuid.uuid4()),
        operation=operation,
        properties=properties or {},
    )
    return table.checkout((table.branch, commit(table.location, transaction, options=options)))


def _commit(
    table: Location, transaction: Transaction, data_format: str | None, options: CommitOptions
) -> int:
    checked = transaction.read_version
    for attempt in range(options.max_attempts):
        listing = list_versions(table)
        if listing.latest is None or listing.latest < checked:
            raise IncompatibleConflictError(
                f"{table.uri}: version {checked} was read, but is no longer there"
            )
        latest = open_manifest(table, listing.latest, listing.scheme)
        for version in range(checked + 1, listing.latest + 1):
            theirs = _transaction_of(table, version, latest, listing)
            if theirs is not None and theirs.uuid == transaction.uuid:
                return version
            check_conflict(
                transaction.operation,
                None if theirs is None else theirs.operation,
                version=version,
                table=table.uri,
            )
        checked = listing.latest
        check_writable(writer=latest.manifest.writer_feature_flags, source=latest.path)
        state = apply(
            TableState(latest.manifest, latest.read_indices()),
            transaction.operation,
            data_format=data_format,
            restored=_restored(table, transaction.operation, listing),
        )
        if _publish(table, state, transaction, listing.scheme, options):
            return state.manifest.version
        options.sleep(random.uniform(0, min(1.0, 0.01 * 2**attempt)))
    raise RetryableConflictError(
        f"{table.uri}: other writers committed first {options.max_attempts} times in a row; try again"
    )


def _restored(table: Location, operation: Operation, listing: VersionListing) -> TableState | None:
    """Return the version that a restore returns to."""
    if not isinstance(operation, Restore):
        return None
    file = open_manifest(table, operation.version, listing.scheme)
    return TableState(file.manifest, file.read_indices())


def _transaction_of(
    table: Location, version: int, latest: ManifestFile, listing: VersionListing
) -> Transaction | None:
    """Return what a version did; None when it does not say so, or is gone."""
    if version == listing.latest:
        return read_transaction(table, latest)
    if version not in listing.entries:
        return None
    return read_transaction(table, open_manifest(table, version, listing.scheme))


@contextmanager
def _tidied(table: Location, transaction: Transaction) -> Iterator[None]:
    """Remove the transaction file when the commit certainly did not happen."""
    try:
        yield
    except CommitStateUnknownError:
        raise
    except BaseException:
        with suppress(LanceError):
            (table / TRANSACTIONS_DIR / transaction.file_name).remove()
        raise


def open_manifest(table: Location, version: int, scheme: NamingScheme) -> ManifestFile:
    """Read the manifest of a version."""
    return read_manifest((table / VERSIONS_DIR / scheme.file_name(version)).open())


def read_transaction(table: Location, file: ManifestFile) -> Transaction | None:
    """Return the transaction that made a version: from the manifest file, else from its own file."""
    inline = file.read_transaction()
    name = file.manifest.transaction_file
    if inline is not None or not name:
        return inline
    location = (table / TRANSACTIONS_DIR).child(name)
    try:
        return Transaction.parse(location.read(), source=location.uri)
    except NotFoundError:
        return None


def _publish(
    table: Location, state: TableState, transaction: Transaction, scheme: NamingScheme, options: CommitOptions
) -> bool:
    """Write the transaction file and the manifest; return whether the version is ours."""
    manifest = state.manifest
    with_file = not manifest.writer_feature_flags & FeatureFlag.NO_TRANSACTION_FILE
    state = dataclasses.replace(
        state,
        manifest=dataclasses.replace(
            manifest,
            timestamp_ns=options.clock_ns(),
            writer_version=library_version(),
            transaction_file=transaction.file_name if with_file else "",
        ),
    )
    transaction_file = table / TRANSACTIONS_DIR / transaction.file_name
    name = table / VERSIONS_DIR / scheme.file_name(manifest.version)
    data = serialize_manifest_file(state, transaction)
    if with_file:
        transaction_file.put(transaction.serialize())
    failure = None
    try:
        ours = put_if_absent(name, data)
    except StorageError as err:
        if name.is_local or isinstance(err.__cause__, PermissionError):
            raise  # the name was not taken, and no request is still on its way
        ours, failure = False, err
    if not ours:
        ours = _is_ours(table, name, transaction, failure)
    if ours:
        _write_hint(table, manifest.version)
    return ours


def _write_hint(table: Location, version: int) -> None:
    # it saves slow listings, and may be missing or stale
    with suppress(LanceError):
        (table / VERSIONS_DIR / _HINT).put(json.dumps({"version": version}, separators=(",", ":")).encode())


def _is_ours(table: Location, name: Location, transaction: Transaction, failure: StorageError | None) -> bool:
    """Whether the manifest that has the name comes from this very transaction, of which the reply was lost.

    Raises
    ------
    CommitStateUnknownError
        There is none, or it cannot be read, so that a request may still be on its way.
    """
    try:
        found = read_manifest(name.open()).read_transaction()
    except (StorageError, NotFoundError) as err:
        raise CommitStateUnknownError(
            f"{table.uri}: the store failed while {name.name} was written; whether transaction "
            f"{transaction.uuid} was committed is not known: look at the table before trying again"
        ) from (failure or err)
    return found is not None and found.uuid == transaction.uuid
