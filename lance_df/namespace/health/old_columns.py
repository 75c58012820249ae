"""Give members that are restored from before a change of columns the columns of the namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_df.errors import LanceError
from lance_df.format.operations import Merge
from lance_df.namespace.member import MEMBER_COMMIT, commits_to_member, in_columns_of
from lance_df.table.commit.loop import commit_change
from lance_df.table.commit.row_account import NO_ROWS

if TYPE_CHECKING:
    from lance_df.namespace.health.check_members import MemberRow
    from lance_df.namespace.spec.namespace_schema import NamespaceSchema
    from lance_df.storage import Location
    from lance_df.table.table import Table


def has_old_columns(root: Location, schema: NamespaceSchema, member: MemberRow) -> bool:
    """Return whether a member lacks columns of the namespace, so that they are NULL, or has dropped ones.

    False if it cannot be read or changed with the columns of the namespace.
    """
    if member.read_branch is not None or member.read_tag is not None:
        return False
    try:
        table = member.open_version(root)
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

    table = member.open_version(root)
    return commits_to_member(table.location, table.version, commit)
