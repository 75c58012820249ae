"""Commit operations that were computed elsewhere, restore older versions, and validate a table."""

from __future__ import annotations

import datetime as dt
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypedDict

from lance_df.api.base import DatasetBase
from lance_df.api.operation_models import from_transaction, overwrite_model, to_model
from lance_df.arguments import checked_flag, checked_integer, checked_items, checked_type
from lance_df.errors import (
    AlreadyExistsError,
    DatasetNotFoundError,
    InvalidInputError,
    LanceError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from lance_df.format import operations as ops
from lance_df.format.transaction import Transaction as TransactionModel
from lance_df.operations import LANCE_COMMIT_MESSAGE_KEY, LanceOperation, Transaction
from lance_df.table.commit.lock import checked_lock
from lance_df.table.commit.loop import CommitOptions, commit, commit_change, create_table
from lance_df.table.commit.row_account import RowChange
from lance_df.table.evolution.staged import check_staged, staged_version
from lance_df.table.evolution.validate import validate_table
from lance_df.table.maintenance.auto_cleanup import auto_cleanup
from lance_df.table.metadata.base_paths_write import checked_bases
from lance_df.table.metadata.locations import locate_table
from lance_df.table.metadata.missing_files import check_same_table, check_same_version
from lance_df.table.metadata.versions import NamingScheme
from lance_df.table.open import open_table, table_at
from lance_df.table.writing.free_location import check_location_is_free

if TYPE_CHECKING:
    from lance_df.dataset import LanceDataset
    from lance_df.table.commit.lock import CommitLock
    from lance_df.table.table import Table

_TIMEOUT = dt.timedelta(minutes=30)
# of these the parts were checked one by one, and there may be very many of them
_CHECKED = (ops.Append, ops.Overwrite, ops.Merge, ops.Rewrite)


class BulkCommitResult(TypedDict):
    """The table after `LanceDataset.commit_batch`, and the transaction that was committed."""

    dataset: LanceDataset
    merged: Transaction


class Commits(DatasetBase):
    """Methods that commit operations computed elsewhere, restore older versions, and validate a table."""

    @staticmethod
    def commit(
        base_uri: str | os.PathLike[str] | LanceDataset,
        operation: LanceOperation.BaseOperation | Transaction,
        read_version: int | None = None,
        commit_lock: CommitLock | None = None,
        storage_options: Mapping[str, Any] | None = None,
        enable_v2_manifest_paths: bool | None = None,
        detached: bool | None = False,
        max_retries: int = 20,
        *,
        commit_message: str | None = None,
        enable_stable_row_ids: bool | None = None,
        commit_timeout: dt.timedelta | None = _TIMEOUT,
        **others: Any,
    ) -> LanceDataset:
        """Commit an operation that one or more processes computed.

        Parameters
        ----------
        base_uri
            The table, or a dataset. An overwrite creates the table if it does not exist.
        operation
            The operation, or a transaction with one. A transaction is never applied twice.
        read_version
            The version that the operation was computed from. It is optional for an overwrite or a restore,
            which then apply to the newest version.
        commit_lock
            A lock that is held while the version is created; see `lance_df.write_dataset`.
        enable_v2_manifest_paths, enable_stable_row_ids
            Only for new tables.
        detached
            Create a version outside the history of the table. It can be opened only by its number.
        max_retries, commit_timeout
            How many times, and for how long, to retry when other writers commit first. A timeout of None
            means no limit.
        commit_message
            Stored with the version.
        **others
            ``base_store_params``, ``namespace_client`` and related arguments are refused.

        Raises
        ------
        InvalidInputError
            The operation contradicts the table, or an argument is invalid.
        AlreadyExistsError
            An overwrite would create a table in the root of a namespace.
        ConflictError
            A commit after the read version conflicts with this one.
        DatasetNotFoundError, VersionNotFoundError
            There is no such table, or the version that was read does not exist.
        RowCountMismatchError
            The operation would lose rows, or would hold some rows twice, without declaring it.
        """
        refused = [name for name, value in others.items() if value]
        if refused:
            raise UnsupportedFeatureError(f"commit does not support {refused[0]}")
        if isinstance(operation, Transaction):
            if commit_message is not None:
                raise InvalidInputError(
                    "commit_message cannot be given together with a Transaction; set "
                    f"{LANCE_COMMIT_MESSAGE_KEY!r} in its transaction_properties"
                )
            transaction = operation
        else:
            transaction = _transaction(operation, read_version, commit_message)
        stable_row_ids = checked_flag(enable_stable_row_ids, "enable_stable_row_ids", default=False)
        v2_names = checked_flag(enable_v2_manifest_paths, "enable_v2_manifest_paths", default=True)
        options = CommitOptions(
            max_retries=max_retries,
            commit_timeout=commit_timeout,
            detached=checked_flag(detached, "detached", default=False),
            lock=checked_lock(commit_lock),
        )
        uri, table, storage_options = _opened(base_uri, storage_options)
        if table is None:
            try:
                made = _create(
                    uri,
                    transaction,
                    storage_options,
                    NamingScheme.V2 if v2_names else NamingScheme.V1,
                    options,
                    stable_row_ids=stable_row_ids,
                )
            except AlreadyExistsError:
                # another writer may have created the table meanwhile
                _, table, _ = _opened(base_uri, storage_options)
                if table is None:
                    raise
        if table is not None:
            made = _commit(table, transaction, options)
            if not options.detached:
                auto_cleanup(made)
        from lance_df.dataset import LanceDataset

        made = made if options.lock is None else made.locked_by(options.lock)
        return LanceDataset._of(made, uri, storage_options, None)

    @staticmethod
    def commit_batch(
        dest: str | os.PathLike[str] | LanceDataset,
        transactions: Sequence[Transaction],
        commit_lock: CommitLock | None = None,
        storage_options: Mapping[str, Any] | None = None,
        enable_v2_manifest_paths: bool | None = None,
        detached: bool | None = False,
        max_retries: int = 20,
        base_store_params: object = None,
        commit_timeout: dt.timedelta | None = _TIMEOUT,
    ) -> BulkCommitResult:
        """Commit the appends of several transactions in one version; see `commit`.

        Raises
        ------
        InvalidInputError
            There are no transactions.
        UnsupportedFeatureError
            A transaction is not an append.
        """
        transactions = checked_items(transactions, "transactions", "a list of Transaction objects")
        fragments = []
        for transaction in transactions:
            checked_type(transaction, "an item of transactions", Transaction, "a Transaction")
            if not isinstance(transaction.operation, LanceOperation.Append):
                raise UnsupportedFeatureError("only appends can be committed together")
            fragments += transaction.operation.fragments
        if not transactions:
            raise InvalidInputError("the list of transactions is empty")
        merged = Transaction(
            min(transaction.read_version for transaction in transactions), LanceOperation.Append(fragments)
        )
        made = Commits.commit(
            dest,
            merged,
            None,
            commit_lock,
            storage_options,
            enable_v2_manifest_paths,
            detached,
            max_retries,
            commit_timeout=commit_timeout,
            base_store_params=base_store_params,
        )
        return BulkCommitResult(dataset=made, merged=merged)

    def restore(self) -> None:
        """Create a new version with the content of this version, regardless of later changes.

        Raises
        ------
        VersionNotFoundError
            The version was cleaned up.
        IncompatibleConflictError
            The table was dropped and created again.
        """
        table = self._table
        latest = table.latest()
        try:
            now = latest.history.open(table.version)
        except VersionNotFoundError:
            check_same_table(table, latest.manifest_file)
            raise
        check_same_version(table, now)
        operation = ops.Restore(table.version)
        self._follow(commit_change(latest, operation, rows=RowChange.restoring(table)))

    def read_transaction(self, version: int) -> Transaction | None:
        """Return the transaction that created a version, or None if it is not recorded.

        Raises
        ------
        VersionNotFoundError
            There is no such version.
        CorruptDataError
            The transaction is damaged, or its file is missing.
        """
        transaction = self._table.transaction(version)
        return None if transaction is None else from_transaction(transaction)

    def get_transactions(self, recent_transactions: int = 10) -> list[Transaction | None]:
        """Return the transactions of the newest versions up to this one, newest first."""
        num_versions = checked_integer(recent_transactions, "recent_transactions", 1)
        versions = [number for number in self._table.history.numbers() if number <= self._table.version]
        return [self.read_transaction(version) for version in reversed(versions[-num_versions:])]

    def validate(self) -> None:
        """Check that the table is intact: its manifest, every file that the manifest names, and all rows.

        Raises
        ------
        CorruptDataError
            Something is missing, is damaged or contradicts something else. The message names the file.
        """
        validate_table(self._table)


def _transaction(
    operation: LanceOperation.BaseOperation, read_version: int | None, message: str | None
) -> Transaction:
    if not isinstance(operation, LanceOperation.BaseOperation):
        raise InvalidInputError(f"expected a LanceOperation or a Transaction, got {type(operation).__name__}")
    if read_version is None and not isinstance(operation, LanceOperation.Overwrite | LanceOperation.Restore):
        raise InvalidInputError("read_version is required for all operations except Overwrite and Restore")
    properties = {} if message is None else {LANCE_COMMIT_MESSAGE_KEY: message}
    return Transaction(read_version or 0, operation, str(uuid.uuid4()), properties)


def _opened(
    base: str | os.PathLike[str] | LanceDataset, storage_options: Mapping[str, Any] | None
) -> tuple[str, Table | None, Mapping[str, Any] | None]:
    """Return the location of the table, its newest version if it exists, and its storage options."""
    if isinstance(base, DatasetBase):
        latest = base._table.latest()
        check_same_table(base._table, latest.manifest_file)
        return base._uri, latest, storage_options or base._storage_options
    if not isinstance(base, str | os.PathLike):
        raise InvalidInputError(f"base_uri must be a path, a URL or a dataset, got {type(base).__name__}")
    try:
        return os.fspath(base), open_table(base, storage_options=storage_options), storage_options
    except DatasetNotFoundError:
        return os.fspath(base), None, storage_options


def _create(
    uri: str,
    transaction: Transaction,
    storage_options: Mapping[str, Any] | None,
    scheme: NamingScheme,
    options: CommitOptions,
    *,
    stable_row_ids: bool,
) -> Table:
    operation = transaction.operation
    if not isinstance(operation, LanceOperation.Overwrite):
        raise DatasetNotFoundError(
            f"{uri}: table does not exist; only LanceOperation.Overwrite can create it"
        )
    target = locate_table(uri, storage_options)
    check_location_is_free(target.location)
    model = overwrite_model(operation, checked_bases(operation.initial_bases or (), (), target.location))
    version = staged_version(model) or "2.2"
    check_staged(model, schema=None, data_format=version)
    made = create_table(
        target.location,
        _model(transaction, model, read_version=0),
        rows=None,
        data_format=version,
        stable_row_ids=stable_row_ids,
        scheme=scheme,
        external_store=target.external_store,
        options=options,
    )
    return table_at(target, made)


def _commit(table: Table, transaction: Transaction, options: CommitOptions) -> Table:
    operation = transaction.operation
    if isinstance(operation, LanceOperation.Restore) and not transaction.read_version:
        table = table.latest()
    anew = isinstance(operation, LanceOperation.Overwrite | LanceOperation.Restore)
    read_version = transaction.read_version or (table.version if anew else 0)
    if isinstance(operation, LanceOperation.Overwrite) and operation.initial_bases:
        raise InvalidInputError(f"{table.uri}: initial_bases can be set only for a new table; use add_bases")
    read = table if read_version == table.version else table.checkout((table.branch, read_version))
    with _as_input_errors(operation):
        model = to_model(operation, read)
    data_format = staged_version(model) if isinstance(model, ops.Overwrite) else None
    check_staged(model, schema=read.schema, data_format=data_format or read.manifest.file_version)
    made = commit(
        table.location,
        _model(transaction, model, read_version=read_version),
        rows=None,
        read=read.manifest_file,
        data_format=data_format,
        external_store=table.shared.external_store,
        options=options,
    )
    return table.followed_by(made)


def _model(transaction: Transaction, operation: ops.Operation, *, read_version: int) -> TransactionModel:
    with _as_input_errors(transaction.operation):
        model = TransactionModel(
            read_version=read_version,
            uuid=transaction.uuid,
            operation=operation,
            properties=transaction.transaction_properties or {},
        )
        if not isinstance(operation, _CHECKED):
            model.serialize()
    return model


@contextmanager
def _as_input_errors(operation: LanceOperation.BaseOperation) -> Iterator[None]:
    """Raise `InvalidInputError` for values of wrong types that the model does not check one by one."""
    try:
        yield
    except LanceError:
        raise
    except (AttributeError, TypeError, ValueError, OverflowError) as err:
        raise InvalidInputError(f"{type(operation).__name__} has a value of the wrong type: {err}") from err
