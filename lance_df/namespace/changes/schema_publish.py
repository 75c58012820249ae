"""Change the columns of a namespace and of all its members in one step.

The schema is in the metadata of ``__manifest`` and the versions of members are in its rows, but one Lance
operation changes only one of these. So both are changed in detached versions of ``__manifest``, which readers
never find. Restoring the last detached version publishes them. The restore is an ordinary transaction, which
conflicts with every concurrent commit. A writer that crashes before leaves nothing visible.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from lance_df.errors import CorruptDataError, LanceError, RetryableConflictError
from lance_df.format.column_path import quoted_name
from lance_df.format.operations import Restore, UpdateConfig
from lance_df.interrupts import interrupted_once, undisturbed
from lance_df.namespace.changes.draft import Draft
from lance_df.namespace.changes.pins import NeedsPinsError, with_pins
from lance_df.namespace.changes.publish import map_commits
from lance_df.namespace.manifest_table import STRICT, NamespaceManifest
from lance_df.namespace.member import MEMBER_COMMIT, check_columns, in_columns_of
from lance_df.namespace.object_account import check_same
from lance_df.namespace.spec.namespace_schema import SCHEMA_KEY
from lance_df.namespace.spec.promotion import promoted_specs
from lance_df.table.commit.loop import TRANSACTIONS_DIR, commit_change
from lance_df.table.commit.options import CommitOptions
from lance_df.table.commit.row_account import NO_ROWS, RowChange
from lance_df.table.evolution.alter_columns import Alteration, columns_altered
from lance_df.table.evolution.metadata import map_update
from lance_df.table.maintenance.zone_map_casts import with_zone_maps_of_casts
from lance_df.table.metadata.versions import VERSIONS_DIR, NamingScheme

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lance_df.format.operations import Operation
    from lance_df.namespace.changes.column_changes import ColumnChange
    from lance_df.namespace.changes.draft import DraftMember
    from lance_df.namespace.spec.namespace_schema import NamespaceSchema
    from lance_df.namespace.spec.partition_spec import PartitionSpecs
    from lance_df.storage import Location
    from lance_df.table.table import Table

_ATTEMPTS: Final = 50
DETACHED: Final = CommitOptions(detached=True, is_part=True)


def with_changed_columns(
    root: Location, manifest: NamespaceManifest, change: ColumnChange
) -> NamespaceManifest:
    """Publish a change of columns on top of the newest version.

    Members that have not changed since the last attempt are not changed again.

    Raises
    ------
    LanceError
        The change does not fit the schema, or the rows of a member.
    RetryableConflictError
        Other writers were faster again and again.
    CommitStateUnknownError
        It is not known whether the change was published.
    """
    schema, made = manifest.schema, dict[tuple[str, int], int]()
    for _ in range(_ATTEMPTS):
        if manifest.schema != schema:
            schema, made = manifest.schema, {}
        after = change.schema_after(schema)
        if after == schema:
            return manifest
        try:
            moved = changed_members(root, manifest, change, made)
            return _published(manifest, after, moved)
        except NeedsPinsError as err:
            with suppress(RetryableConflictError):
                with_pins(root, manifest, err.members)
            manifest = manifest.latest_for_change()
        except RetryableConflictError:
            manifest = manifest.latest_for_change()
    raise RetryableConflictError(
        f"{root.uri}: {_ATTEMPTS} attempts in a row failed because other writers published first; try again"
    )


def changed_members(
    root: Location, manifest: NamespaceManifest, change: ColumnChange, made: dict[tuple[str, int], int]
) -> dict[str, int]:
    """Return the versions of members that have a change, by object id.

    Parameters
    ----------
    made
        The versions that exist already, by folder and changed version. New ones are added.
    """

    def commit(member: DraftMember) -> None:
        state = member.state
        if state not in made:
            table = member.open()
            check_columns(manifest.schema, table)
            with change.operation(table, manifest) as operation:
                made[state] = member.make_commits(partial(_with_change, operation))
        member.version = made[state]

    after = change.schema_after(manifest.schema)
    members = [
        member
        for member in Draft(root, manifest).members_that_may_match(None)
        if not _stays_as_it_is(member, change, after)
    ]
    for member in members:
        member.check_writable()
    if change.runs_in_turn:
        for member in members:
            commit(member)
    else:
        map_commits(commit, members)
    return {member.published.object_id: member.version for member in members if member.published is not None}


def _with_change(operation: Operation, base: Table) -> Table:
    """Commit a change of columns to a member, and new zone maps for columns with a new type."""
    changed = commit_change(base, operation, rows=NO_ROWS, options=MEMBER_COMMIT)
    return with_zone_maps_of_casts(base, changed, commit_options=MEMBER_COMMIT)


def _stays_as_it_is(member: DraftMember, change: ColumnChange, after: NamespaceSchema) -> bool:
    """Whether a member read from a branch needs no commit, as its field ids already match a schema."""
    if member.branch is None or not change.is_by_id:
        return False
    try:
        in_columns_of(after, member.open())
    except CorruptDataError:
        return False
    return True


@interrupted_once()
def _published(
    manifest: NamespaceManifest, schema: NamespaceSchema, moved: Mapping[str, int]
) -> NamespaceManifest:
    specs = promoted_specs(manifest.specs, manifest.schema, schema)
    if not moved and not _casts(manifest.specs, specs):
        update = _metadata_update(manifest, schema, specs)
        return NamespaceManifest(commit_change(manifest.table, update, rows=NO_ROWS, options=STRICT))
    staged: list[Table] = []
    try:
        last = with_schema(manifest, schema, staged, moved)
        # members get other versions; none is added or removed
        check_same(manifest.table.uri, before=manifest.rows["object_id"], after=last.rows["object_id"])
        rows = RowChange.restoring(manifest.table)
        return NamespaceManifest(
            commit_change(manifest.table, Restore(last.version), rows=rows, options=STRICT)
        )
    finally:
        remove_staged(staged)


def with_schema(
    manifest: NamespaceManifest,
    schema: NamespaceSchema,
    staged: list[Table],
    moved: Mapping[str, int] = MappingProxyType({}),
) -> NamespaceManifest:
    """Return a detached version with a schema.

    Parameters
    ----------
    staged
        Receives the detached versions that are committed.
    moved
        The versions of members that have the schema.
    """
    specs = promoted_specs(manifest.specs, manifest.schema, schema)
    update = _metadata_update(manifest, schema, specs)
    staged.append(commit_change(manifest.table, update, rows=NO_ROWS, options=DETACHED))
    casts = _casts(manifest.specs, specs)
    if casts:
        with columns_altered(staged[-1], casts) as operation:
            staged.append(commit_change(staged[-1], operation, rows=NO_ROWS, options=DETACHED))
    whole = NamespaceManifest(staged[-1])
    if moved:
        whole = whole.changed(whole.table.arrow_schema.empty_table(), moved, options=DETACHED)
        staged.append(whole.table)
    return whole


def _metadata_update(
    manifest: NamespaceManifest, schema: NamespaceSchema, specs: PartitionSpecs
) -> UpdateConfig:
    metadata = {SCHEMA_KEY: schema.to_json()}
    metadata |= {
        spec.key: spec.to_json() for spec, old in zip(specs, manifest.specs, strict=True) if spec != old
    }
    return UpdateConfig(table_metadata=map_update(metadata))


def _casts(before: PartitionSpecs, after: PartitionSpecs) -> list[Alteration]:
    """Return the type changes of the partition columns."""
    return [
        Alteration(path=quoted_name(field.column), data_type=field.result_type)
        for field_id, field in after.fields.items()
        if field.result_type != before.fields[field_id].result_type
    ]


def remove_staged(staged: list[Table]) -> None:
    """Remove detached versions, which published versions do not need and clean-ups would keep."""

    def remove() -> None:
        for table in staged:
            with suppress(LanceError):
                (table.location / VERSIONS_DIR / NamingScheme.V2.file_name(table.version)).remove()
                if table.manifest.transaction_file:
                    (table.location / TRANSACTIONS_DIR / table.manifest.transaction_file).remove()

    if staged:
        undisturbed(remove)
