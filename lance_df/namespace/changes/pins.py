"""Pin members that are read at their newest version, before they are changed.

The specification allows rows of ``__manifest`` without a version; readers then take the newest one. A change
of such members would become visible member by member, and remain partial if the writer crashed. So a separate
commit, which changes nothing for readers, first publishes their newest versions.

Spec: partitioning, "Read Behavior".
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lance_df.errors import CorruptDataError, RetryableConflictError
from lance_df.namespace.changes.stored_values import values_of_table
from lance_df.namespace.keys import value_keys
from lance_df.namespace.manifest_table import READ_FIELDS, STRICT, NamespaceManifest
from lance_df.namespace.member import STAGED_KEY, in_columns_of
from lance_df.namespace.pruning.spec_members import members_by_spec
from lance_df.table.commit.loop import commit_change
from lance_df.table.commit.row_account import NO_ROWS
from lance_df.table.evolution.add_columns import null_columns
from lance_df.table.parallel import map_reads

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance_df.namespace.published import Member
    from lance_df.namespace.spec.partition_spec import PartitionSpec
    from lance_df.storage import Location
    from lance_df.table.table import Table

    _Pin: TypeAlias = tuple[Member, Table]


# Commits of other programs after this many attempts are not published.
_MAX_ATTEMPTS: Final = 10
# It changes nothing for readers.
_PIN: Final = replace(STRICT, is_part=True)


class NeedsPinsError(Exception):
    """Members of a draft must be pinned before they can be changed."""

    def __init__(self, members: Sequence[Member]) -> None:
        super().__init__()
        self.members = members


def with_pins(root: Location, manifest: NamespaceManifest, members: Sequence[Member]) -> NamespaceManifest:
    """Publish the newest versions of members, and return the namespace that names them.

    Columns for versions are added if ``__manifest`` lacks them.

    Raises
    ------
    CorruptDataError
        The row of a member has no partition values, but its table has rows of another partition than NULL.
    RetryableConflictError
        Another version of the namespace, or of a member, was published meanwhile.
    CommitStateUnknownError
        It is not known whether the versions were published.
    """
    known = manifest.table.schema.names
    missing = [field for field in READ_FIELDS if field.name not in known]
    if missing:
        operation = null_columns(manifest.table, pa.schema(missing))
        manifest = NamespaceManifest(commit_change(manifest.table, operation, rows=NO_ROWS, options=_PIN))
    if not members:
        return manifest
    tables = map_reads(lambda member: member.open(), members, where=root)
    _check_values(manifest, members, tables)
    _check_newest(tables, root)
    pins = list(zip(members, tables, strict=True))
    manifest = _published(manifest, pins)
    for _ in range(_MAX_ATTEMPTS):
        newer = [pair for pair in map_reads(_followed, pins, where=root) if pair is not None]
        if not newer:
            break
        _check_values(manifest, *zip(*newer, strict=True))
        try:
            manifest, pins = _published(manifest, newer), newer
        except RetryableConflictError:
            manifest = manifest.latest_for_change()
            names, versions = (manifest.members[name].to_pylist() for name in ("object_id", "read_version"))
            current = dict(zip(names, versions, strict=True))
            pins = [
                (member, table) for member, table in pins if current.get(member.object_id) == table.version
            ]
    return manifest


def _published(manifest: NamespaceManifest, pins: Sequence[_Pin]) -> NamespaceManifest:
    versions = {member.object_id: table.version for member, table in pins}
    return manifest.changed(manifest.table.arrow_schema.empty_table(), versions, options=_PIN)


def _followed(pin: _Pin) -> _Pin | None:
    """Return the last version that other programs committed after the pinned one, None if there is none.

    Such a version may have been committed before the pin was published, so readers may have seen it. Versions
    that lance_df stages, and those after them, do not count, as they are committed only after a pin.
    """
    member, table = pin
    followed = None
    for version in range(table.version + 1, table.latest_version() + 1):
        newer = table.checkout(version)
        transaction = newer.transaction()
        if transaction is None or STAGED_KEY in transaction.properties:
            break
        followed = member, newer
    return followed


def _check_newest(tables: Sequence[Table], root: Location) -> None:
    """Check the newest versions as late as possible, so that outdated versions are rarely published."""
    newest = map_reads(lambda table: table.latest_version(), tables, where=root)
    for table, version in zip(tables, newest, strict=True):
        if version != table.version:
            raise RetryableConflictError(
                f"{table.uri}: version {version} was committed while version {table.version} was being "
                "published; start again"
            )


def _check_values(manifest: NamespaceManifest, members: Sequence[Member], tables: Sequence[Table]) -> None:
    """Check rows without version and values: programs that do not support partitions create them, too."""
    names = manifest.members["object_id"]
    unproven: dict[str, PartitionSpec] = {}
    for each in members_by_spec(manifest):
        if each.unproven is not None:
            unproven_names = names.take(pa.array(each.positions[each.unproven]))
            unproven |= dict.fromkeys(unproven_names.to_pylist(), each.spec)
    for member, table in zip(members, tables, strict=True):
        spec = unproven.get(member.object_id)
        if spec is None:
            continue
        null = value_keys([pa.nulls(1, field.result_type) for field in spec.fields])[0]
        for values in values_of_table(in_columns_of(manifest.schema, table), spec, manifest.schema):
            if not pc.all(pc.equal(value_keys(values.columns), null)).as_py():
                raise CorruptDataError(
                    f"{table.uri}: the row of {member.object_id} has no partition values, but the rows of "
                    "the table do; a program that does not support partitions created it; repair the "
                    "namespace"
                )
