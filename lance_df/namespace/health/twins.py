"""Merge tables with the same partition values by moving their rows into one table.

If ``__manifest`` lacks the row of a partition's table, a change creates a second table. When the first one is
restored, both have rows.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from lance_df.errors import CorruptDataError, InvalidInputError, NotFoundError, UnsupportedFeatureError
from lance_df.format.operations import Append, Delete
from lance_df.namespace.health.check_members import MemberRow
from lance_df.namespace.health.check_rows import twin_ids
from lance_df.namespace.manifest_table import READ_FIELDS, TABLE
from lance_df.namespace.member import check_columns, commit_to_member, in_columns_of
from lance_df.namespace.names import SEPARATOR, member_of_folder
from lance_df.records import dataclass
from lance_df.table.changes.writing import rows_written
from lance_df.table.commit.row_account import RowChange
from lance_df.table.maintenance.compaction import rows_to_rewrite

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import pyarrow as pa

    from lance_df.namespace.spec.namespace_schema import NamespaceSchema
    from lance_df.namespace.spec.partition_spec import PartitionSpec, PartitionSpecs
    from lance_df.storage import Location


@dataclass(frozen=True, slots=True)
class Twins:
    """Members of one partition whose rows are to be merged.

    Attributes
    ----------
    target
        The member that receives the rows of the ``sources``: the one with the most rows among those that
        still have the original id of their folder.
    num_rows
        The number of rows of the sources.
    """

    target: MemberRow
    sources: tuple[MemberRow, ...]
    num_rows: int


def twins_with_rows(
    root: Location,
    specs: PartitionSpecs,
    schema: NamespaceSchema,
    rows: pa.Table,
    *,
    restored: Collection[str],
    fitted: Collection[str],
) -> list[Twins]:
    """Return groups of members of one partition, at least one restored, whose rows can be merged.

    Rows cannot be moved if a member is read from a branch, by a tag or without a version, or has other
    columns than the namespace.

    Parameters
    ----------
    rows
        The rows of ``__manifest``.
    restored
        Object ids of members whose rows were restored. The values of other members with the same values may
        be wrong.
    fitted
        Object ids of members that get the columns of the namespace before rows are moved.
    """
    twins = []
    for spec in specs:
        is_in_spec = pc.starts_with(rows["object_id"], spec.name + SEPARATOR)
        tables = rows.filter(pc.and_(is_in_spec, pc.equal(rows["object_type"], TABLE)))
        by_name = {member.object_id: member for member in _members(tables, spec)}
        for names in twin_ids(tables, spec):
            if not any(name in restored for name in names):
                continue
            movable = _movable(root, schema, [by_name[name] for name in names], fitted)
            if movable is not None:
                twins.append(movable)
    return twins


def move_rows(root: Location, schema: NamespaceSchema, twins: Twins) -> dict[str, int]:
    """Commit versions of members, one of which has all rows, and return these versions by object id.

    Raises
    ------
    CorruptDataError
        The number of rows to move differs from the expected one.
    RetryableConflictError
        Other writers were faster again and again.
    """
    tables = [in_columns_of(schema, source.open_version(root)) for source in twins.sources]
    batches = (rows_to_rewrite(table, table.fragments.ids.tolist(), num_threads=1) for table in tables)
    target = twins.target.open_version(root)
    with rows_written(target, target.schema, chain.from_iterable(batches)) as fragments:
        num_rows = sum(fragment.physical_rows for fragment in fragments)
        if num_rows != twins.num_rows:
            raise CorruptDataError(
                f"{target.uri}: {num_rows} rows were read to be moved here, expected {twins.num_rows}"
            )
        appended = RowChange(twins.num_rows)
        version = commit_to_member(target.location, target.version, Append(fragments), appended)
    versions = {twins.target.object_id: version}
    for source, table in zip(twins.sources, tables, strict=True):
        emptied = Delete((), tuple(table.fragments.ids.tolist()), "repair")
        rows = RowChange.emptying(table)
        versions[source.object_id] = commit_to_member(table.location, table.version, emptied, rows)
    return versions


def _members(tables: pa.Table, spec: PartitionSpec) -> list[MemberRow]:
    columns = ["object_id", "location", *(field.name for field in READ_FIELDS)]
    return [MemberRow(**row, key=None, spec=spec) for row in tables.select(columns).to_pylist()]


def _movable(
    root: Location, schema: NamespaceSchema, members: Sequence[MemberRow], fitted: Collection[str]
) -> Twins | None:
    """Return the members that have rows, or None if there are fewer than two or rows cannot be moved."""
    for member in members:
        if member.read_version is None or member.read_branch is not None or member.read_tag is not None:
            return None
    try:
        tables = [member.open_version(root) for member in members]
        counts = [in_columns_of(schema, table).count_rows() for table in tables]
        # prefer original ids to those that a repair has generated
        best = max(range(len(counts)), key=lambda index: (_has_first_id(members[index]), counts[index]))
        if members[best].object_id not in fitted:
            check_columns(schema, tables[best])
    except (CorruptDataError, InvalidInputError, NotFoundError, UnsupportedFeatureError):
        return None
    # blobs may be in base paths that the other table does not have
    if any(field.is_blob for field in schema.columns.walk()) and any(
        table.manifest.base_paths for table in tables
    ):
        return None
    full = ((count, member) for count, member in zip(counts, members, strict=True) if count)
    others = [each for each in full if each[1] is not members[best]]
    if not others:
        return None
    return Twins(members[best], tuple(member for _, member in others), sum(count for count, _ in others))


def _has_first_id(member: MemberRow) -> bool:
    return member.location is not None and member_of_folder(member.location) == member.object_id
