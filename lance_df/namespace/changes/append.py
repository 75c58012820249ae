"""Append rows from written data files to partitions, or replace the rows of partitions with them."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from lance_df.format.operations import Append, Overwrite
from lance_df.namespace.changes.publish import map_commits, remove_unpublished
from lance_df.namespace.member import FILE_VERSION, MEMBER_COMMIT, NewMembers, check_can_take_rows
from lance_df.table.commit.loop import commit_change
from lance_df.table.commit.row_account import RowChange
from lance_df.table.metadata.base_paths import DATA_DIR
from lance_df.table.writing.fragment_writer import copy_data_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance_df.format.schema import Schema
    from lance_df.namespace.changes.draft import Draft, DraftMember
    from lance_df.namespace.changes.partition_files import WrittenPartition
    from lance_df.namespace.manifest_table import NamespaceManifest
    from lance_df.namespace.spec.partition_spec import PartitionSpec
    from lance_df.storage import Location
    from lance_df.storage.unsynced import Unsynced
    from lance_df.table.table import Table


class NewRows:
    """The change that appends rows to partitions of one spec version, or replaces their rows.

    A newer spec may exist when the change is published, but rows may be partitioned by any version.

    Parameters
    ----------
    columns
        The schema of members, with its field ids.
    unsynced
        The files of the rows that are not durable yet.
    replaces
        Whether the rows replace the rows of their partitions.
    can_release
        Whether the files of the rows belong to this change alone, and no other process knows them.
    """

    def __init__(
        self,
        spec: PartitionSpec,
        columns: Schema,
        written: Sequence[WrittenPartition],
        *,
        unsynced: Unsynced,
        replaces: bool = False,
        can_release: bool = True,
    ) -> None:
        self._spec = spec
        self._columns = columns
        self._new_members = NewMembers(columns)
        self._written = written
        self._unsynced = unsynced
        self._replaces = replaces
        self._can_release = can_release
        self._left: dict[str, Location] = {}

    def apply(self, draft: Draft) -> None:
        """Commit a version with the rows to each member."""
        pairs = list(zip(self._written, draft.members_for(self._spec, self._written), strict=True))
        for _, member in pairs:
            member.check_writable()
        new: list[tuple[WrittenPartition, DraftMember]] = []
        others: list[tuple[WrittenPartition, DraftMember]] = []
        for pair in pairs:
            (others if pair[1].version or not pair[1].folder.is_local else new).append(pair)
        if others:
            # readers of a single member see the new versions of existing members at once
            self._unsynced.sync()
            map_commits(self._commit, others)
        # new local tables are created without syncing, so threads would only wait for each other
        for pair in new:
            self._commit(pair)
        self._unsynced.sync()

    def folders(self) -> list[Location]:
        """Return the folders that this change created for new partitions, if it may remove them."""
        if not self._can_release:
            return []
        locations = [partition.location for partition in self._written]
        return [*(each.folder for each in locations if each.is_new), *self._left.values()]

    def tidy(self, published: NamespaceManifest) -> None:
        """Remove the folders of tables that another writer created first."""
        remove_unpublished(published, list(self._left.values()))

    def _commit(self, pair: tuple[WrittenPartition, DraftMember]) -> None:
        partition, member = pair
        if partition.location.folder.path != member.folder.path:
            self._move_files(partition, member.folder)
        if partition.made is None or partition.made[0] != member.version:
            partition.made = member.version, self._version_with(partition, member)
        member.version = partition.made[1]

    def _version_with(self, partition: WrittenPartition, member: DraftMember) -> int:
        fragments = tuple(partition.fragments)
        if not member.version:
            return self._new_members.create(
                member.folder,
                fragments,
                self._unsynced,
                partition.zone_maps,
                num_rows=partition.num_rows,
            )
        operation = Overwrite(fragments, self._columns) if self._replaces else Append(fragments)
        rows = RowChange(partition.num_rows, replaces_all=self._replaces)
        data_format = FILE_VERSION if self._replaces else None

        def commit(base: Table) -> Table:
            if not self._replaces:
                check_can_take_rows(self._columns, base)
            made = commit_change(base, operation, rows=rows, options=MEMBER_COMMIT, data_format=data_format)
            if (zone_maps := partition.zone_maps) is None:
                return made
            return made.followed_by(
                zone_maps.builder.commit(
                    made.location,
                    made.manifest_file,
                    zone_maps.fragments,
                    options=MEMBER_COMMIT,
                    attempts=1,
                )
            )

        return member.make_commits(commit)

    def _move_files(self, partition: WrittenPartition, folder: Location) -> None:
        """Copy data files to the table that another writer created for the same values meanwhile."""
        former = partition.location.folder
        for fragment in partition.fragments:
            for file in fragment.files:
                copy_data_file(former / DATA_DIR / file.path, folder / DATA_DIR / file.path)
        if partition.location.is_new:
            # other changes of the same transaction may have files in the former folder
            self._left[former.path] = former
        partition.location = dataclasses.replace(partition.location, folder=folder, is_new=False)
        partition.made = None
