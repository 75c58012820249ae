"""The commit loop: check the commits of others, rebase, publish the manifest; retry if its name is taken."""

from __future__ import annotations

import dataclasses
import logging
import secrets
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

from lance_df.errors import (
    AlreadyExistsError,
    CommitStateUnknownError,
    ConflictError,
    CorruptDataError,
    DatasetNotFoundError,
    IncompatibleConflictError,
    LanceError,
    NotFoundError,
    RetryableConflictError,
    StorageError,
    VersionNotFoundError,
)
from lance_df.format.feature_flags import FeatureFlag, check_writable
from lance_df.format.operations import Operation, Overwrite, Restore
from lance_df.format.transaction import Transaction
from lance_df.interrupts import workers
from lance_df.storage.first_page import lists_in_order
from lance_df.table.commit.apply import apply
from lance_df.table.commit.conflicts import check_conflict, dropped_fields
from lance_df.table.commit.manifest_bytes import make_manifest_file
from lance_df.table.commit.marks import check_marks, with_marks
from lance_df.table.commit.old_tables import recounted, upgraded
from lance_df.table.commit.publish import is_absent, publish_manifest
from lance_df.table.commit.rebase import Rebase
from lance_df.table.commit.row_account import RowAccount, RowChange
from lance_df.table.commit.state import TableState, check_unmixed, library_version
from lance_df.table.commit.succession import may_follow
from lance_df.table.metadata.external_store import stored
from lance_df.table.metadata.history import History
from lance_df.table.metadata.manifest_cache import LATEST
from lance_df.table.metadata.manifest_io import identity
from lance_df.table.metadata.missing_files import is_dropped, missing_files, not_retained
from lance_df.table.metadata.versions import (
    DETACHED,
    VERSION_HINT,
    VERSIONS_DIR,
    NamingScheme,
    check_attached,
    parse_manifest_name,
)
from lance_df.table.parallel import map_reads
from lance_df.table.shared import Shared
from lance_df.table.table import Table, is_same_file
from lance_df.table.writing.free_location import remove_empty_folders
from lance_df.table.writing.uncommitted import Attempt, UncommittedFiles, publishing, uncommitted_files

if TYPE_CHECKING:
    from concurrent.futures import Future

    from lance_df.format.manifest import Manifest
    from lance_df.storage import Location
    from lance_df.table.commit.options import CommitOptions
    from lance_df.table.metadata.external_store import ExternalManifestStore
    from lance_df.table.metadata.manifest_io import ManifestFile

_log = logging.getLogger("lance_df")

TRANSACTIONS_DIR = "_transactions"
_LONG_SECONDS = 1.0
_MANIFEST_SUFFIX = ".manifest"


class Committer:
    """One commit of a transaction to a table.

    Parameters
    ----------
    rows
        What the transaction does to rows, counted by the code that computed it; None for other programs.
    """

    def __init__(
        self,
        location: Location,
        transaction: Transaction,
        external_store: ExternalManifestStore | None,
        options: CommitOptions,
        shared: Shared | None = None,
        *,
        rows: RowChange | None,
    ) -> None:
        self.location = location
        self._rows = rows
        self.history = History(location, external_store)
        properties = {**options.properties, **transaction.properties}
        self._transaction = dataclasses.replace(transaction, properties=properties)
        self._external_store = external_store
        self._options = options
        self._shared = shared or Shared(location, external_store)
        self._lock = options.lock or self._shared.commit_lock
        self._files = UncommittedFiles()
        self._rebase: Rebase | None = None
        self._transaction_file: bytes | None = None
        self._early: Future[None] | None = None
        self._attempt: Attempt | None = None

    def table_of(self, file: ManifestFile) -> Table:
        """Open a version as a table."""
        branch = file.manifest.branch
        return Table(file, location=self.location, branch=branch, shared=self._shared)

    def commit(self, base: Table | None, data_format: str | None) -> ManifestFile:
        """Publish the transaction and return the version that it became.

        Parameters
        ----------
        base
            The version that the transaction was computed from, if the caller has it.

        Raises
        ------
        UnsupportedFeatureError
            That version is detached, and this commit is not.
        """
        if not self._options.detached:
            check_attached(self._transaction.read_version, self.location.uri)
        try:
            with self.tidied():
                if self._options.detached:
                    return self._commit_detached(base, data_format)
                return self._commit_attached(base, data_format)
        except ConflictError as err:
            # of a table that was dropped
            remove_empty_folders(self.location)
            self.location.remove_empty_folder()
            _log.info("conflict: %s", err)
            raise

    def _commit_attached(self, base: Table | None, data_format: str | None) -> ManifestFile:
        with self._early_transaction_file(base):
            return self._commit_in_turn(base, data_format)

    @contextmanager
    def _early_transaction_file(self, base: Table | None) -> Iterator[None]:
        """On remote stores, write the transaction file while the loop checks what others committed."""
        if self.location.is_local or base is None or _has_no_transaction_file(base.manifest):
            yield
            return
        serialized = self._transaction.serialize()
        with workers(1) as pool:
            self._early = pool.submit(self._put_transaction, self._transaction.file_name, serialized)
            yield

    def _commit_in_turn(self, base: Table | None, data_format: str | None) -> ManifestFile:
        begin = self._options.monotonic()
        duration = 0.0
        # operations of others since the read version, and the version up to which they are known
        others: list[Operation] = []
        dropped: AbstractSet[int] = frozenset()
        known, checked = base, self._transaction.read_version
        for attempt in range(self._options.max_retries + 1):
            latest = self._latest(known, checked)
            looked = 0.0 if _is_free(self.location) else self._options.monotonic()
            self._check_same_table(known, latest, checked)
            for file, theirs in self._transactions(checked, latest):
                if theirs is not None and theirs.uuid == self._transaction.uuid:
                    return file
                others.append(self._checked(theirs, file.manifest.version, latest))
                dropped = dropped_fields(
                    self._transaction.operation,
                    file.manifest.schema,
                    dropped,
                    version=file.manifest.version,
                    table=self.location.uri,
                )
            check_marks(self._options.marks, latest.manifest.config)
            self._check_columns(latest)
            known, checked = latest, latest.version
            operation = self._rebased(base, latest, others)
            state, account = self._applied(latest, operation, data_format)
            transaction = self._transaction
            if operation is not transaction.operation:
                transaction = dataclasses.replace(transaction, operation=operation)
            published = self.publish(state, transaction, _scheme_of(latest), account)
            if published is not None:
                if self._can_be_past(looked):
                    self._check_in_turn(latest, published)
                return published
            passed = self._options.monotonic() - begin
            duration = passed if attempt == 0 else duration
            timeout = self._options.commit_timeout
            if timeout is not None and passed > timeout.total_seconds():
                break
            if attempt < self._options.max_retries:
                _log.info(
                    "%s: version %d was committed by another writer, attempt %d failed; trying again",
                    self.location.uri,
                    state.manifest.version,
                    attempt + 1,
                )
                self._options.wait(attempt, duration)
        raise RetryableConflictError(
            f"{self.location.uri}: {attempt + 1} attempts in a row failed because other writers committed "
            "first; try again"
        )

    def create(
        self, state: TableState, transaction: Transaction, scheme: NamingScheme, account: RowAccount
    ) -> ManifestFile:
        """Publish the first version of a table.

        Raises
        ------
        AlreadyExistsError
            There is a table already, or another writer made one meanwhile.
        CommitStateUnknownError
            It is unknown whether the table was made; or another writer had made and cleaned up the version.
        """
        begin = 0.0 if _is_free(self.location) else self._options.monotonic()
        with suppress(DatasetNotFoundError):
            self.history.latest_version()
            raise AlreadyExistsError(
                f"{self.location.uri}: table already exists; pass mode='append' or 'overwrite'"
            )
        with self.tidied():
            published = self.publish(state, transaction, scheme, account)
            if published is None:
                raise AlreadyExistsError(
                    f"{self.location.uri}: another writer created the table at the same time"
                )
            # other writers hold a claim on branches, see `lance_df.table.clones`
            if published.manifest.branch is None and self._can_be_past(begin):
                self._check_first(published)
            return published

    def _check_first(self, made: ManifestFile) -> None:
        """Check that later versions come from ours, not from a table whose first version was cleaned up."""
        version = made.manifest.version
        with suppress(StorageError, NotFoundError):
            if self.history.latest_version() == version:
                return
            later = self.history.open(min(each for each in self.history.numbers() if each > version))
            transaction = read_transaction(self.location, later)
            operation = None if transaction is None else transaction.operation
            if not may_follow(later.manifest, operation, made.manifest):
                raise CommitStateUnknownError(
                    f"{self.location.uri}: version {version} was committed, but version "
                    f"{later.manifest.version} is not based on it: another writer created the table at the "
                    "same time and cleaned up its own first version; check the table before trying again"
                )

    def _can_be_past(self, looked: float) -> bool:
        """Whether another writer may have made and cleaned up the version since we read the latest one.

        Checking this takes a request: on remote stores it is done only if enough time has passed.
        """
        return _is_free(self.location) or self._options.monotonic() - looked > _LONG_SECONDS

    def _check_in_turn(self, base: Table, made: ManifestFile) -> None:
        """Check that a version that was just made had not been made and cleaned up before.

        The name is free again after a clean-up, and the new version would be in the past. The clean-up also
        removes the version before it, so that one is checked. It is also gone if the table was dropped
        meanwhile.
        """
        version = made.manifest.version
        with suppress(StorageError):
            if self._is_unchanged(base):
                return
            if self.history.latest_version() != version:
                raise CommitStateUnknownError(
                    f"{self.location.uri}: version {version} was committed, but later versions exist and "
                    "the version before it was cleaned up in the meantime, so it is unknown whether the "
                    "later versions include this change; check the table before trying again"
                )
            if self._external_store is None and is_dropped(self.table_of(made), base):
                self._withdraw(made)

    def _is_unchanged(self, base: Table) -> bool:
        """Whether a version still exists unchanged."""
        if self._external_store is not None:
            return stored(self._external_store, self.location, base.version) is not None
        known = base.manifest_file.source
        try:
            return is_same_file(self._file_of(base.manifest_file).open_whole(), known)
        except NotFoundError:
            return False

    def _withdraw(self, made: ManifestFile) -> None:
        """Remove a version that was published into a dropped table, where nobody can read it.

        Raises
        ------
        IncompatibleConflictError
            It was removed.
        CommitStateUnknownError
            The store did not remove it.
        """
        dropped = (
            f"{self.location.uri}: the table was dropped, or its branch deleted, before version "
            f"{made.manifest.version} was committed"
        )
        try:
            self._file_of(made).remove()
        except LanceError as err:
            raise CommitStateUnknownError(
                f"{dropped}; the version could not be removed ({err}), and some of its files are missing; "
                "check the table before trying again"
            ) from err
        with suppress(LanceError):
            (self.location / VERSIONS_DIR / VERSION_HINT).remove()
        if self._attempt is not None:
            self._attempt.is_published, self._attempt.is_refused = False, True
        raise IncompatibleConflictError(f"{dropped}; the commit was rolled back")

    def _file_of(self, file: ManifestFile) -> Location:
        return self.location / VERSIONS_DIR / file.path.rpartition("/")[2]

    def publish(
        self, state: TableState, transaction: Transaction, scheme: NamingScheme, account: RowAccount
    ) -> ManifestFile | None:
        """Write the transaction file and the manifest; return the version, or None if another writer made it.

        Raises
        ------
        RowCountMismatchError
            The version does not have the rows that it should have. Nothing is written.
        CorruptDataError
            The name of the version is that of a folder, a pipe or the like.
        """
        account.check(state.manifest.fragments)
        with_file = not _has_no_transaction_file(state.manifest)
        manifest = dataclasses.replace(
            state.manifest,
            timestamp_ns=self._options.clock_ns(),
            writer_version=library_version(),
            transaction_file=transaction.file_name if with_file else "",
            config=with_marks(self._options.marks, state.manifest.config),
        )
        serialized = transaction.serialize()
        name = self.location / VERSIONS_DIR / scheme.file_name(manifest.version)
        data, made = make_manifest_file(name.uri, TableState(manifest, state.indices), serialized)
        restore = transaction.operation if isinstance(transaction.operation, Restore) else None
        # clean-ups read this file to learn which version is being restored
        if with_file or restore is not None:
            if self._early is not None:
                self._early.result()
            self._put_transaction(transaction.file_name, serialized)
        if restore is not None:
            self._check_whole(restore.version)
        is_attached = not manifest.version & DETACHED
        external_store = self._external_store if is_attached else None
        look = partial(is_absent, name, data) if external_store is None and name.is_local else None
        with publishing(
            manifest,
            state.indices,
            self.location.uri,
            transaction.uuid,
            is_part=self._options.is_part,
            is_absent=look,
            attempts=self._options.attempts,
        ) as self._attempt:
            attempt = self._attempt
            attempt.is_published = publish_manifest(
                self.location,
                manifest.version,
                scheme,
                data,
                external_store=external_store,
                lock=self._lock,
            )
            attempt.is_refused = not attempt.is_published
        if not attempt.is_published:
            # readers see no version under such a name, so every attempt would try the same name
            name.check_file()
            return None
        if restore is not None and not with_file:
            with suppress(LanceError):
                (self.location / TRANSACTIONS_DIR / transaction.file_name).remove()
        if is_attached and not self._finds_latest_at_once(scheme):
            self._write_version_hint(manifest.version)
        if is_attached and self._external_store is None:
            LATEST.keep(made)
        _log.log(
            logging.INFO if is_attached and not self._options.is_part else logging.DEBUG,
            "%s: committed version %d (%s)",
            self.location.uri,
            manifest.version,
            type(transaction.operation).__name__,
        )
        return made

    @contextmanager
    def tidied(self) -> Iterator[None]:
        """Remove files that the commit wrote if it certainly failed."""
        try:
            with uncommitted_files() as self._files:
                yield
        except BaseException:
            if self._rebase is not None:
                self._rebase.undo()
            raise

    def _commit_detached(self, base: Table | None, data_format: str | None) -> ManifestFile:
        base = base or self._read_version()
        state, account = self._applied(base, self._transaction.operation, data_format)
        manifest = dataclasses.replace(state.manifest, version=DETACHED | secrets.randbits(63))
        state = TableState(manifest, state.indices)
        published = self.publish(state, self._transaction, NamingScheme.V2, account)
        if published is None:
            raise RetryableConflictError(
                f"{self.location.uri}: detached version {manifest.version} already exists; try again"
            )
        return published

    def _latest(self, known: Table | None, checked: int) -> Table:
        try:
            # a version that is already known is not parsed again
            latest = self.table_of(self.history.open_latest()) if known is None else known.latest()
        except DatasetNotFoundError as err:
            raise self._gone(checked) from err
        if latest.version < checked:
            raise self._gone(checked)
        return latest

    def _check_same_table(self, known: Table | None, latest: Table, checked: int) -> None:
        """Check that the last version that was checked is still the same.

        This costs a request only if another version follows it.
        """
        if known is None:
            return
        now = latest.manifest_file if latest.version == checked else self._open(checked)
        if identity(now) != identity(known.manifest_file):
            raise IncompatibleConflictError(
                f"{self.location.uri}: version {checked} is not the one that this change is based on; the "
                "table was dropped and created again in the meantime"
            )

    def _check_columns(self, latest: Table) -> None:
        columns = self._options.columns
        if columns is not None and not columns.equals(latest.arrow_schema, check_metadata=True):
            raise RetryableConflictError(
                f"{self.location.uri}: the schema of version {latest.version} is not the one for which rows "
                "were written; write them again"
            )

    def _read_version(self) -> Table:
        return self.table_of(self._open(self._transaction.read_version))

    def _open(self, version: int) -> ManifestFile:
        try:
            return self.history.open(version)
        except (VersionNotFoundError, DatasetNotFoundError) as err:
            raise self._gone(version) from err

    def _gone(self, version: int) -> IncompatibleConflictError:
        return IncompatibleConflictError(
            f"{self.location.uri}: version {version}, which this change is based on, no longer exists"
        )

    def _transactions(self, checked: int, latest: Table) -> list[tuple[ManifestFile, Transaction | None]]:
        """Return the versions since ``checked`` and their transactions, oldest first."""

        def transaction(version: int) -> tuple[ManifestFile, Transaction | None]:
            if version == latest.version:
                return latest.manifest_file, read_transaction(self.location, latest.manifest_file)
            try:
                file = self.history.open(version)
            except VersionNotFoundError as err:
                raise IncompatibleConflictError(
                    f"{self.location.uri}: version {version} (an unknown operation) was committed before "
                    "this change and no longer exists; check the table first"
                ) from err
            return file, read_transaction(self.location, file)

        return map_reads(transaction, range(checked + 1, latest.version + 1), where=self.location)

    def _checked(self, theirs: Transaction | None, version: int, latest: Table) -> Operation:
        operation = None if theirs is None else theirs.operation
        mine = self._transaction.operation
        if self._options.strict or (isinstance(mine, Overwrite) and not self._options.max_retries):
            raise RetryableConflictError(
                f"{self.location.uri}: Commit conflict for version {version}: it was committed after "
                f"version {self._transaction.read_version}, which this commit is based on, and this commit "
                "does not allow concurrent commits"
            )
        return check_conflict(
            mine,
            operation,
            version=version,
            table=self.location.uri,
            stable_row_ids=latest.uses_stable_row_ids,
        )

    def _rebased(self, base: Table | None, latest: Table, others: list[Operation]) -> Operation:
        if self._rebase is not None:
            self._rebase.undo()
            self._rebase = None
        if not others:
            return self._transaction.operation
        self._rebase = Rebase(lambda: base or self._read_version(), latest, others)
        return self._rebase.apply(self._transaction.operation)

    def _applied(
        self, latest: Table, operation: Operation, data_format: str | None
    ) -> tuple[TableState, RowAccount]:
        """Return the next version, and the account that it is checked against."""
        path = latest.manifest_file.path
        check_writable(writer=latest.manifest.writer_feature_flags, source=path)
        restored = None
        if isinstance(operation, Restore):
            version = self.table_of(self.history.open(operation.version))
            if missing := missing_files(version, besides=latest):
                raise CorruptDataError(
                    f"{self.location.uri}: version {version.version} cannot be restored: {missing[0]} is "
                    "missing, probably because a clean-up was interrupted; restore a later version"
                )
            check_unmixed(version.manifest)
            restored = upgraded(version)
        elif not isinstance(operation, Overwrite):
            check_unmixed(latest.manifest)
        state = upgraded(latest)
        before = state.manifest.fragments
        if before is not latest.fragments:
            operation = recounted(operation, before)
        account = RowAccount(
            self.location.uri,
            latest.version,
            before,
            operation,
            self._rows,
            None if restored is None else restored.manifest.fragments,
        )
        return apply(state, operation, data_format=data_format, restored=restored), account

    def _check_whole(self, version: int) -> None:
        """Check that a version still exists, after clean-ups can see that it is being restored."""
        restored = self.table_of(self._open(version))
        if (error := not_retained(restored)) is not None:
            raise error

    def _put_transaction(self, name: str, data: bytes) -> None:
        if data != self._transaction_file:
            self._transaction_file = data
            file = self.location / TRANSACTIONS_DIR / name
            self._files.add_file(file)
            # the manifest holds it, too; the file is for old releases, which read only that
            file.put(data, durable=False)

    def _finds_latest_at_once(self, scheme: NamingScheme) -> bool:
        """Whether nobody needs the hint, as the store lists the newest version first."""
        return not self.location.is_local and scheme is NamingScheme.V2 and lists_in_order(self.location)

    def _write_version_hint(self, version: int) -> None:
        # the hint saves slow listings, and may be missing or stale
        with suppress(LanceError):
            (self.location / VERSIONS_DIR / VERSION_HINT).put(b'{"version":%d}' % version, durable=False)


def _is_free(location: Location) -> bool:
    """Whether requests to the store take no time."""
    return location.is_local or location.fs.protocol == "memory"


def _has_no_transaction_file(manifest: Manifest) -> bool:
    return bool(manifest.writer_feature_flags & FeatureFlag.NO_TRANSACTION_FILE)


def _scheme_of(table: Table) -> NamingScheme:
    """Return the naming scheme of the table; the manifest may be a staged one, with a suffix."""
    name, _, _ = table.manifest_file.path.rpartition("/")[2].partition(_MANIFEST_SUFFIX)
    parsed = parse_manifest_name(name + _MANIFEST_SUFFIX)
    return NamingScheme.V2 if parsed is None else parsed[1]


def read_transaction(table: Location, file: ManifestFile) -> Transaction | None:
    """Return the transaction that made a version, from the manifest file or else from its own file."""
    inline = file.read_transaction()
    name = file.manifest.transaction_file
    if inline is not None or not name:
        return inline
    location = (table / TRANSACTIONS_DIR).child(name)
    try:
        return Transaction.parse(location.read(), source=location.uri)
    except NotFoundError:
        return None
