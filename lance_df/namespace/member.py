"""Member tables: one ordinary Lance table for each partition, read at the version that the namespace names.

What is committed to a member shows only when the namespace publishes its version. So a commit stands on the
published version; newer ones, of a writer that was interrupted or is not done, are undone in a version of
their own.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Final

from lance_df.errors import RetryableConflictError
from lance_df.format.operations import Overwrite, Restore
from lance_df.format.transaction import Transaction
from lance_df.table.commit.loop import commit_change, create_table
from lance_df.table.commit.options import CommitOptions
from lance_df.table.refs import ResolvedRef
from lance_df.table.table import Shared, Table, open_ref

if TYPE_CHECKING:
    from lance_df.format.fragments import Fragment
    from lance_df.format.operations import Operation
    from lance_df.format.schema import Schema
    from lance_df.storage import Location

FILE_VERSION: Final = "2.2"
_STRICT: Final = CommitOptions(strict=True, max_retries=0)
_ATTEMPTS: Final = 20


def open_member(location: Location, version: int) -> Table:
    """Open a member at a version.

    Raises
    ------
    NotFoundError
        There is no such table, or no such version.
    """
    return open_ref(Shared(location), ResolvedRef(None, version))


def create_member(location: Location, schema: Schema, fragments: tuple[Fragment, ...]) -> int:
    """Make the table of a new partition and return its version."""
    transaction = Transaction(read_version=0, uuid=str(uuid.uuid4()), operation=Overwrite(fragments, schema))
    return create_table(location, transaction, data_format=FILE_VERSION).manifest.version


def commit_to_member(location: Location, published: int, operation: Operation) -> int:
    """Commit an operation that was computed from the published version, and return the version it became.

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
                base = commit_change(latest, Restore(published), options=_STRICT)
            return commit_change(base, operation, options=_STRICT).version
        except RetryableConflictError:
            attempt += 1
            if attempt == _ATTEMPTS:
                raise
            _STRICT.wait(attempt)
