"""Publish a new version: check what others committed, rebase, put the manifest if its name is free, repeat.

Spec: table format, chapter 8. Data files must be durable before. All or nothing: a manifest appears whole,
under a name that nobody else can take, and only then is the commit there.
"""

from __future__ import annotations

import dataclasses
import json
import secrets
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from lance_df.errors import (
    AlreadyExistsError,
    CommitStateUnknownError,
    DatasetNotFoundError,
    IncompatibleConflictError,
    LanceError,
    NotFoundError,
    RetryableConflictError,
    VersionNotFoundError,
)
from lance_df.format.feature_flags import FeatureFlag, check_writable
from lance_df.format.operations import Operation, Overwrite, Restore
from lance_df.format.transaction import Transaction
from lance_df.table.commit.apply import apply, create
from lance_df.table.commit.conflicts import check_conflict
from lance_df.table.commit.manifest_bytes import serialize_manifest_file
from lance_df.table.commit.options import CommitOptions as CommitOptions
from lance_df.table.commit.publish import publish_manifest
from lance_df.table.commit.rebase import Rebase
from lance_df.table.commit.state import TableState, library_version
from lance_df.table.history import History
from lance_df.table.manifest_io import read_manifest
from lance_df.table.parallel import map_reads
from lance_df.table.table import Shared, Table
from lance_df.table.versions import DETACHED, VERSIONS_DIR, NamingScheme, parse_manifest_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lance_df.storage import Location
    from lance_df.table.external_store import ExternalManifestStore
    from lance_df.table.manifest_io import ManifestFile

TRANSACTIONS_DIR = "_transactions"
FIRST_VERSION = 1
_HINT = "latest_version_hint.json"
_MANIFEST_SUFFIX = ".manifest"


def create_table(
    table: Location,
    transaction: Transaction,
    *,
    data_format: str,
    stable_row_ids: bool = False,
    scheme: NamingScheme = NamingScheme.V2,
    external_store: ExternalManifestStore | None = None,
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
    external_store
        What decides on versions, where the store of the files cannot.

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
    publish_first_version(
        table,
        create(transaction.operation, data_format=data_format, stable_row_ids=stable_row_ids),
        transaction,
        scheme=scheme,
        external_store=external_store,
        options=options,
    )
    return FIRST_VERSION


def publish_first_version(
    table: Location,
    state: TableState,
    transaction: Transaction,
    *,
    scheme: NamingScheme = NamingScheme.V2,
    external_store: ExternalManifestStore | None = None,
    options: CommitOptions | None = None,
) -> None:
    """Publish the version that a table or branch starts with; that of a clone keeps its number.

    Raises
    ------
    AlreadyExistsError
        There is a table already, or another writer made one meanwhile.
    CommitStateUnknownError
        The store failed in a way that leaves open whether the table was made. Nothing may be deleted.
    StorageError
        The store failed; the table was not made.
    """
    committer = _Committer(table, transaction, external_store, options or CommitOptions())
    with suppress(DatasetNotFoundError):
        committer.history.latest_version()
        raise AlreadyExistsError(f"{table.uri}: there is a table already; pass mode='append' or 'overwrite'")
    with committer.tidied():
        if not committer.publish(state, transaction, scheme):
            raise AlreadyExistsError(f"{table.uri}: another writer created a table here meanwhile")


def commit(
    table: Location,
    transaction: Transaction,
    *,
    read: ManifestFile | None = None,
    data_format: str | None = None,
    external_store: ExternalManifestStore | None = None,
    options: CommitOptions | None = None,
) -> int:
    """Publish a transaction on top of the latest version of an existing table.

    Parameters
    ----------
    table
        The root of the table or branch.
    transaction
        Computed from its ``read_version``.
    read
        The manifest of that version, where the caller has it: a table that was dropped and made anew since
        is then told from the one that was read.
    data_format
        For an overwrite: the file version of the new content.
    external_store
        What decides on versions, where the store of the files cannot.

    Returns
    -------
    The version that was made.

    Raises
    ------
    RetryableConflictError
        Another commit forbids this one as it is; or other writers won too often.
    IncompatibleConflictError
        Another commit makes this one meaningless, or the table is not the one that was read.
    CommitStateUnknownError
        The store failed in a way that leaves open whether the version was made. Nothing may be deleted.
    UnsupportedFeatureError
        The table needs a writer that knows more.
    InvalidInputError
        The operation contradicts the table.
    """
    committer = _Committer(table, transaction, external_store, options or CommitOptions())
    base = None if read is None else committer.table_of(read)
    with committer.tidied():
        return committer.commit(base, data_format)


def commit_change(
    table: Table,
    operation: Operation,
    *,
    properties: Mapping[str, str] | None = None,
    data_format: str | None = None,
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
    ConflictError, CommitStateUnknownError, UnsupportedFeatureError, InvalidInputError
        See :func:`commit`.
    """
    transaction = Transaction(
        read_version=table.version,
        uuid=str(uuid.uuid4()),
        operation=operation,
        properties=properties or {},
    )
    committer = _Committer(
        table.location, transaction, table.shared.external_store, options or CommitOptions(), table.shared
    )
    with committer.tidied():
        version = committer.commit(table, data_format)
    return table.checkout((table.branch, version))


class _Committer:
    """One transaction on its way into a table."""

    def __init__(
        self,
        location: Location,
        transaction: Transaction,
        external_store: ExternalManifestStore | None,
        options: CommitOptions,
        shared: Shared | None = None,
    ) -> None:
        self.location = location
        self.history = History(location, external_store)
        self._transaction = transaction
        self._external_store = external_store
        self._options = options
        self._shared = shared or Shared(location, external_store)
        self._rebase: Rebase | None = None
        self._transaction_file: bytes | None = None

    def table_of(self, file: ManifestFile) -> Table:
        """Return a version as a table."""
        branch = file.manifest.branch
        return Table(file, location=self.location, branch=branch, shared=self._shared)

    def commit(self, base: Table | None, data_format: str | None) -> int:
        """Publish the transaction; ``base`` is the version that it was computed from, if it is at hand."""
        if self._options.detached:
            return self._commit_detached(base, data_format)
        begin = self._options.monotonic()
        # others' operations since the read version, and how far that is
        others: list[Operation] = []
        known = base
        checked = self._transaction.read_version
        for attempt in range(self._options.max_retries + 1):
            latest = self._latest(checked)
            known = self._same_table(known, latest, checked)
            for version, theirs in self._transactions(checked, latest):
                if theirs is not None and theirs.uuid == self._transaction.uuid:
                    return version
                others.append(self._checked(theirs, version, latest))
            known, checked = latest, latest.version
            if base is None and checked == self._transaction.read_version:
                base = latest
            operation = self._rebased(base, latest, others)
            state = self._applied(latest, operation, data_format)
            transaction = dataclasses.replace(self._transaction, operation=operation)
            if self.publish(state, transaction, _scheme_of(latest)):
                return state.manifest.version
            timeout = self._options.commit_timeout
            if timeout is not None and self._options.monotonic() - begin > timeout.total_seconds():
                break
            if attempt < self._options.max_retries:
                self._options.wait(attempt)
        raise RetryableConflictError(
            f"{self.location.uri}: other writers committed first {attempt + 1} times in a row; try again"
        )

    def publish(self, state: TableState, transaction: Transaction, scheme: NamingScheme) -> bool:
        """Write the transaction file and the manifest; return whether the version is ours."""
        with_file = not state.manifest.writer_feature_flags & FeatureFlag.NO_TRANSACTION_FILE
        manifest = dataclasses.replace(
            state.manifest,
            timestamp_ns=self._options.clock_ns(),
            writer_version=library_version(),
            transaction_file=transaction.file_name if with_file else "",
        )
        if with_file:
            self._put_transaction(transaction)
        ours = publish_manifest(
            self.location,
            manifest.version,
            scheme,
            serialize_manifest_file(TableState(manifest, state.indices), transaction),
            external_store=None if manifest.version & DETACHED else self._external_store,
        )
        if ours and not manifest.version & DETACHED:
            self._write_hint(manifest.version)
        return ours

    @contextmanager
    def tidied(self) -> Iterator[None]:
        """Remove what the commit wrote for itself, when it certainly did not happen."""
        try:
            yield
        except CommitStateUnknownError:
            raise
        except BaseException:
            if self._rebase is not None:
                self._rebase.undo()
            if self._transaction_file is not None:
                with suppress(LanceError):
                    (self.location / TRANSACTIONS_DIR / self._transaction.file_name).remove()
            raise

    def _commit_detached(self, base: Table | None, data_format: str | None) -> int:
        read_version = self._transaction.read_version
        base = base or self.table_of(self.history.open(read_version))
        state = self._applied(base, self._transaction.operation, data_format)
        manifest = dataclasses.replace(state.manifest, version=DETACHED | secrets.randbits(63))
        state = TableState(manifest, state.indices)
        if not self.publish(state, self._transaction, NamingScheme.V2):
            raise RetryableConflictError(
                f"{self.location.uri}: detached version {manifest.version} is taken; try again"
            )
        return manifest.version

    def _latest(self, checked: int) -> Table:
        try:
            latest = self.table_of(self.history.open_latest())
        except DatasetNotFoundError as err:
            raise self._gone(checked) from err
        if latest.version < checked:
            raise self._gone(checked)
        return latest

    def _same_table(self, known: Table | None, latest: Table, checked: int) -> Table | None:
        """Check that the version that was checked so far is still what it was.

        That costs a request only when another version follows it.
        """
        if known is None:
            return None
        try:
            now = latest if latest.version == checked else self.table_of(self.history.open(checked))
        except VersionNotFoundError as err:
            raise self._gone(checked) from err
        if _identity(now) != _identity(known):
            raise IncompatibleConflictError(
                f"{self.location.uri}: version {checked} is another one than the one that was read; the "
                "table was dropped and made anew meanwhile"
            )
        return now

    def _gone(self, version: int) -> IncompatibleConflictError:
        return IncompatibleConflictError(
            f"{self.location.uri}: version {version} was read, but is no longer there"
        )

    def _transactions(self, checked: int, latest: Table) -> list[tuple[int, Transaction | None]]:
        """Return what the versions since ``checked`` did, oldest first."""

        def transaction(version: int) -> tuple[int, Transaction | None]:
            try:
                file = latest.manifest_file if version == latest.version else self.history.open(version)
            except VersionNotFoundError:
                return version, None
            return version, read_transaction(self.location, file)

        return map_reads(transaction, range(checked + 1, latest.version + 1), where=self.location)

    def _checked(self, theirs: Transaction | None, version: int, latest: Table) -> Operation:
        operation = None if theirs is None else theirs.operation
        mine = self._transaction.operation
        if isinstance(mine, Overwrite) and not self._options.max_retries:
            raise RetryableConflictError(
                f"{self.location.uri}: version {version} was committed since version "
                f"{self._transaction.read_version} was read, and this overwrite may not follow another commit"
            )
        check_conflict(
            mine,
            operation,
            version=version,
            table=self.location.uri,
            stable_row_ids=latest.uses_stable_row_ids,
        )
        if operation is None:
            raise AssertionError("what is not known conflicts with everything")
        return operation

    def _rebased(self, base: Table | None, latest: Table, others: list[Operation]) -> Operation:
        operation = self._transaction.operation
        if self._rebase is not None:
            self._rebase.undo()
            self._rebase = None
        if not others:
            return operation
        base = base or self.table_of(self.history.open(self._transaction.read_version))
        self._rebase = Rebase(base, latest, others)
        return self._rebase.apply(operation)

    def _applied(self, latest: Table, operation: Operation, data_format: str | None) -> TableState:
        file = latest.manifest_file
        check_writable(writer=latest.manifest.writer_feature_flags, source=file.path)
        restored = None
        if isinstance(operation, Restore):
            older = self.history.open(operation.version)
            older.check_readable()
            restored = TableState(older.manifest, older.read_indices())
        state = TableState(latest.manifest, file.read_indices())
        return apply(state, operation, data_format=data_format, restored=restored)

    def _put_transaction(self, transaction: Transaction) -> None:
        data = transaction.serialize()
        if data != self._transaction_file:
            self._transaction_file = data
            (self.location / TRANSACTIONS_DIR / transaction.file_name).put(data)

    def _write_hint(self, version: int) -> None:
        # it saves slow listings, and may be missing or stale
        with suppress(LanceError):
            hint = json.dumps({"version": version}, separators=(",", ":")).encode()
            (self.location / VERSIONS_DIR / _HINT).put(hint)


def _identity(table: Table) -> tuple[object, ...]:
    """Return what two versions of the same number cannot share; the name holds the commit's unique id."""
    manifest = table.manifest
    return manifest.timestamp_ns, manifest.transaction_file, table.manifest_file.source.size


def _scheme_of(table: Table) -> NamingScheme:
    """Return how the table names its versions; the file may be a staged one, with a suffix."""
    name, _, _ = table.manifest_file.path.rpartition("/")[2].partition(_MANIFEST_SUFFIX)
    parsed = parse_manifest_name(name + _MANIFEST_SUFFIX)
    return NamingScheme.V2 if parsed is None else parsed[1]


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
