"""Determine from its rows alone of which partition a table is a member, if any."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lance_df.errors import InvalidInputError, LanceError
from lance_df.namespace.changes.stored_values import values_of_table
from lance_df.namespace.directory.names import folder_at
from lance_df.namespace.health.check_members import differing_fields, pinned_table
from lance_df.namespace.keys import value_keys
from lance_df.namespace.member_tables import open_member
from lance_df.namespace.names import MEMBER_NAME, SEPARATOR

if TYPE_CHECKING:
    from lance_df.namespace.health.check_members import MemberRow
    from lance_df.namespace.spec.namespace_schema import NamespaceSchema
    from lance_df.namespace.spec.partition_spec import PartitionSpec, PartitionSpecs
    from lance_df.storage import Location
    from lance_df.table.table import Table

    VersionAndValues: TypeAlias = tuple[int, pa.RecordBatch | None]


class NoMemberError(InvalidInputError):
    """A table cannot be a member of the namespace; the message says why."""


def spec_of_path(object_id: str, specs: PartitionSpecs) -> PartitionSpec:
    """Return the spec version that the id of a table names.

    Raises
    ------
    NoMemberError
        There is no such version, or the id has another number of levels.
    """
    name, *levels = object_id.split(SEPARATOR)
    spec = next((spec for spec in specs if spec.name == name), None)
    if spec is None:
        raise NoMemberError(f"spec version {name!r} does not exist")
    if len(levels) != len(spec.fields) + 1 or levels[-1] != MEMBER_NAME:
        raise NoMemberError(
            f"a table of {name} must be {len(spec.fields)} levels below it and have the name {MEMBER_NAME!r}"
        )
    return spec


def newest_version(root: Location, location: str) -> Table:
    """Open the newest version of a table.

    Raises
    ------
    NoMemberError
        No version can be opened.
    """
    try:
        return open_member(folder_at(root, location))
    except LanceError as err:
        raise NoMemberError(str(err)) from err


def read_version(root: Location, member: MemberRow) -> Table:
    """Open the version of a table that its row names, or the newest one if that version does not exist.

    Raises
    ------
    NoMemberError
        No version can be opened.
    """
    location = member.location or ""
    if member.names_version and member.read_branch is None:
        with suppress(LanceError):
            return pinned_table(folder_at(root, location), member)
    return newest_version(root, location)


def values_of_member(table: Table, spec: PartitionSpec, schema: NamespaceSchema) -> pa.RecordBatch | None:
    """Return the partition values of all rows of a table as one row, or None if the table is empty.

    Raises
    ------
    NoMemberError
        The rows belong to several partitions or cannot be read, or the fields differ from the namespace.
    """
    if (difference := next(differing_fields(schema, table), None)) is not None:
        raise NoMemberError(difference)
    try:
        distinct = [_distinct(values) for values in values_of_table(table, spec, schema)]
    except LanceError as err:
        raise NoMemberError(str(err)) from err
    if not distinct:
        return None
    values = _distinct(pa.Table.from_batches(distinct).combine_chunks().to_batches()[0])
    if values.num_rows > 1:
        raise NoMemberError("its rows belong to several partitions")
    return values


def _distinct(values: pa.RecordBatch) -> pa.RecordBatch:
    """Return one row for each distinct tuple of values."""
    keys = value_keys(values.columns)
    return values.take(pc.index_in(keys.unique(), value_set=keys))


def read_member(
    root: Location, specs: PartitionSpecs, schema: NamespaceSchema, member: MemberRow
) -> VersionAndValues | str:
    """Return the version of a table to read and its partition values, or why it is not a member."""
    try:
        spec = spec_of_path(member.object_id, specs)
        if member.location is None:
            return "it has no location"
        table = read_version(root, member)
        return table.version, values_of_member(table, spec, schema)
    except NoMemberError as err:
        return str(err)
