"""Publish new versions of tables, including the first one.

Spec: table format, chapter 8. Data files must be durable before the commit. A commit is atomic: it happens
when the complete manifest appears under a name that nobody else can take. On any error other than
`CommitStateUnknownError` the caller may remove the files that the version would have had.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from lance_df.format.fragment_list import FragmentList
from lance_df.format.operations import Operation, Overwrite
from lance_df.format.transaction import Transaction
from lance_df.table.commit.apply import create
from lance_df.table.commit.committer import TRANSACTIONS_DIR as TRANSACTIONS_DIR
from lance_df.table.commit.committer import Committer
from lance_df.table.commit.options import CommitOptions as CommitOptions
from lance_df.table.commit.row_account import RowAccount, RowChange
from lance_df.table.metadata.versions import NamingScheme
from lance_df.table.table import Table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lance_df.storage import Location
    from lance_df.table.commit.state import TableState
    from lance_df.table.metadata.external_store import ExternalManifestStore
    from lance_df.table.metadata.manifest_io import ManifestFile


def create_table(
    table: Location,
    transaction: Transaction,
    *,
    rows: RowChange | None,
    data_format: str,
    stable_row_ids: bool = False,
    scheme: NamingScheme = NamingScheme.V2,
    external_store: ExternalManifestStore | None = None,
    options: CommitOptions | None = None,
) -> ManifestFile:
    """Publish version 1 of a new table, and return it.

    Parameters
    ----------
    table
        The root of the table.
    transaction
        An overwrite with read version 0.
    rows
        How many rows it adds and deletes, counted by the code that computed it. None if another program
        did; then the operation is only checked against itself.
    data_format
        File version of its data files.
    external_store
        The store that decides on versions, if the store of the files cannot.

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
        raise TypeError("a table must be created by an overwrite")
    return publish_first_version(
        table,
        create(transaction.operation, data_format=data_format, stable_row_ids=stable_row_ids),
        transaction,
        rows=rows,
        scheme=scheme,
        external_store=external_store,
        options=options,
    )


def publish_first_version(
    table: Location,
    state: TableState,
    transaction: Transaction,
    *,
    rows: RowChange | None,
    cloned: FragmentList | None = None,
    scheme: NamingScheme = NamingScheme.V2,
    external_store: ExternalManifestStore | None = None,
    options: CommitOptions | None = None,
) -> ManifestFile:
    """Publish the first version of a table or branch; a clone keeps the version number of its source.

    Parameters
    ----------
    rows
        How many rows it adds and deletes, counted by the code that computed it. None if another program
        did; then the operation is only checked against itself.
    cloned
        The fragments of the version that is cloned.

    Raises
    ------
    RowCountMismatchError
        The version would not have the rows that it should have.
    AlreadyExistsError
        There is a table already, or another writer made one meanwhile.
    CommitStateUnknownError
        The store failed in a way that leaves open whether the table was made. Nothing may be deleted.
    StorageError
        The store failed; the table was not made.
    """
    committer = Committer(table, transaction, external_store, options or CommitOptions(), rows=rows)
    account = RowAccount(table.uri, 0, FragmentList.of(()), transaction.operation, rows, cloned)
    return committer.create(state, transaction, scheme, account)


def commit(
    table: Location,
    transaction: Transaction,
    *,
    rows: RowChange | None,
    read: ManifestFile | None = None,
    data_format: str | None = None,
    external_store: ExternalManifestStore | None = None,
    options: CommitOptions | None = None,
) -> ManifestFile:
    """Publish a transaction on top of the latest version of an existing table.

    Parameters
    ----------
    table
        The root of the table or branch.
    transaction
        Computed from its ``read_version``.
    rows
        How many rows it adds and deletes, counted by the code that computed it. None if another program
        did; then the operation is only checked against itself.
    read
        The manifest of the read version, if the caller has it. It shows whether the table was dropped
        and created again since then.
    data_format
        For an overwrite, the file version of the new data.
    external_store
        The store that decides on versions, if the store of the files cannot.

    Returns
    -------
    The version that was made.

    Raises
    ------
    RetryableConflictError
        Another commit conflicts with this one, or other writers were faster too often.
    IncompatibleConflictError
        Another commit makes this one meaningless, or the table is not the one that was read.
    CommitStateUnknownError
        The store failed in a way that leaves open whether the version was made. Nothing may be deleted.
    UnsupportedFeatureError
        The table needs a writer with more features.
    InvalidInputError
        The operation contradicts the table.
    RowCountMismatchError
        The version would not have the rows that it should have; trying again does not help.
    """
    committer = Committer(table, transaction, external_store, options or CommitOptions(), rows=rows)
    base = None if read is None else committer.table_of(read)
    return committer.commit(base, data_format)


def commit_change(
    table: Table,
    operation: Operation,
    *,
    rows: RowChange | None,
    properties: Mapping[str, str] | None = None,
    data_format: str | None = None,
    options: CommitOptions | None = None,
) -> Table:
    """Publish an operation that was computed from a table, and return the table at the new version.

    Parameters
    ----------
    table
        The version that the operation was computed from; it need not be the newest one.
    rows
        How many rows it adds and deletes, counted by the code that computed it. None if another program
        did; then the operation is only checked against itself.
    properties
        Stored with the transaction.

    Raises
    ------
    ConflictError, CommitStateUnknownError, UnsupportedFeatureError, InvalidInputError, RowCountMismatchError
        See :func:`commit`.
    """
    transaction = Transaction(
        read_version=table.version,
        uuid=str(uuid.uuid4()),
        operation=operation,
        properties=properties or {},
    )
    committer = Committer(
        table.location,
        transaction,
        table.shared.external_store,
        options or CommitOptions(),
        table.shared,
        rows=rows,
    )
    file = committer.commit(table, data_format)
    return table.followed_by(file)
