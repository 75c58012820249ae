"""Give members that are restored from before a change of columns the columns of the namespace."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from lance_df.errors import LanceError, UnsupportedFeatureError
from lance_df.format.operations import Merge
from lance_df.namespace.member import MEMBER_COMMIT, commits_to_member, in_columns_of
from lance_df.table.commit.loop import commit_change
from lance_df.table.commit.row_account import NO_ROWS

if TYPE_CHECKING:
    from lance_df.format.fragments import Fragment
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
        seen = in_columns_of(schema, table)
        return seen is not table and _fitted(schema, seen) is not None
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
        operation = Merge(_fitted(schema, in_columns_of(schema, base)), schema.columns)
        return commit_change(base, operation, rows=NO_ROWS, options=MEMBER_COMMIT)

    table = member.open_version(root)
    return commits_to_member(table.location, table.version, commit)


def _fitted(schema: NamespaceSchema, table: Table) -> tuple[Fragment, ...]:
    """Return the fragments of a table seen with the columns of the namespace, for a manifest with these.

    The files no longer list columns that the table has dropped.

    Raises
    ------
    UnsupportedFeatureError, InvalidInputError
        There are 0.1 files, and they need the fields of the manifest as they are.
    """
    fragments = tuple(table.fragments)
    stored = table.manifest.schema.by_id()
    if any(file.version == "0.1" for fragment in fragments for file in fragment.files):
        for field in schema.columns.walk():
            known = stored.get(field.id, field)
            if (known.nullable, known.dictionary) != (field.nullable, field.dictionary):
                raise UnsupportedFeatureError(
                    f"{table.uri}: field {field.id}, {field.name!r}, differs from that of the namespace in "
                    "what files of version 0.1 do not say: which values are null, or where dictionaries are; "
                    "write the rows of the table again"
                )
    return tuple(
        dataclasses.replace(
            fragment, files=tuple(file.without_fields(table.missing_ids) for file in fragment.files)
        )
        for fragment in fragments
    )
