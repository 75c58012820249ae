"""Members that are brought back from before a change of columns get the columns of the namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_df.errors import LanceError, NotFoundError
from lance_df.format.operations import Merge
from lance_df.namespace.directory.names import folder_at
from lance_df.namespace.member import (
    MEMBER_COMMIT,
    commits_to_member,
    in_columns_of,
    open_member,
)
from lance_df.table.commit.loop import commit_change
from lance_df.table.commit.row_account import NO_ROWS

if TYPE_CHECKING:
    from lance_df.namespace.health.check_members import MemberRow
    from lance_df.namespace.spec.namespace_schema import NamespaceSchema
    from lance_df.storage import Location
    from lance_df.table.table import Table


def has_old_columns(root: Location, schema: NamespaceSchema, member: MemberRow) -> bool:
    """Return whether a member lacks columns of the namespace, which are NULL in it, or has dropped ones.

    False if it can be neither read nor changed in the columns of the namespace.
    """
    if member.read_branch is not None or member.read_tag is not None:
        return False
    try:
        table = _opened(root, member)
        return in_columns_of(schema, table) is not table
    except LanceError:
        return False


def with_columns(root: Location, schema: NamespaceSchema, member: MemberRow) -> int:
    """Commit a version of a member with the columns of the namespace, and return its number.

    Raises
    ------
    RetryableConflictError
        Other writers were faster again and again.
    """

    def commit(base: Table) -> Table:
        operation = Merge(tuple(base.fragments), schema.columns)
        return commit_change(base, operation, rows=NO_ROWS, options=MEMBER_COMMIT)

    table = _opened(root, member)
    return commits_to_member(table.location, table.version, commit)


def _opened(root: Location, member: MemberRow) -> Table:
    if member.location is None or member.read_version is None:
        raise NotFoundError(f"{root.uri}: the row of {member.object_id} names no version of a table")
    return open_member(folder_at(root, member.location), member.read_version)
