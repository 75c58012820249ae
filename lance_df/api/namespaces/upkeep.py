"""Maintain a partitioned namespace: compaction and clean-up of all members."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_df.arguments import checked_flag
from lance_df.errors import InvalidInputError
from lance_df.namespace.changes.cleanup import clean_up
from lance_df.namespace.changes.compaction import MembersCompacted
from lance_df.namespace.changes.publish import make_in_advance, publish
from lance_df.namespace.changes.repartition import STEP_BYTES, InProcess, RepartitionMetrics, repartition
from lance_df.optimize import CompactionMetrics
from lance_df.records import as_integer, plain
from lance_df.table.maintenance.cleanup_policy import CleanupPolicy

if TYPE_CHECKING:
    import datetime as dt

    from lance_df.api.optimizer import CompactionMode
    from lance_df.namespace.snapshot import NamespaceSnapshot
    from lance_df.table.maintenance.cleanup_result import CleanupStats


class NamespaceUpkeep:
    """Methods that maintain a namespace."""

    _table: NamespaceSnapshot

    def compact(
        self,
        *,
        target_rows_per_fragment: int | None = None,
        max_rows_per_group: int | None = None,
        max_bytes_per_file: int | None = None,
        materialize_deletions: bool | None = None,
        materialize_deletions_threshold: float | None = None,
        num_threads: int | None = None,
        batch_size: int | None = None,
        compaction_mode: CompactionMode | None = None,
    ) -> CompactionMetrics:
        """Merge small fragments of partitions, and leave out deleted rows and dropped columns.

        A few partitions are compacted at a time, and all are published in one version, so readers see all of
        them compacted or none. A partition that other writers change in the meantime is compacted again. A
        partition that is read from a branch is not compacted. If there is nothing to do, no new version is
        created. The arguments are those of `lance_df.optimize.CompactionOptions`, and apply to each
        partition.

        Returns
        -------
        What was done, summed over all partitions.

        Raises
        ------
        InvalidInputError
            An argument is out of range.
        ConflictError
            The columns changed in the meantime, or other writers kept committing first.
        CommitStateUnknownError
            It is not known whether the compaction was published.
        """
        given = {name: value for name, value in locals().items() if name != "self"}
        latest = self._table.latest_for_change()
        change = MembersCompacted(given)
        # before it is its turn to publish: others of this process do not wait for it
        make_in_advance(latest.root, latest.manifest, change)
        self._table = latest.of(publish(latest.root, latest.manifest, [change]))
        return CompactionMetrics._of(change.groups)

    def repartition(self, *, step_bytes: int = STEP_BYTES) -> RepartitionMetrics:
        """Move rows from partitions of older spec versions to partitions of the newest spec version.

        The rows are moved in steps. Each step is one version, in which its rows are in their new partitions
        and no longer in the old ones. If a later step fails, the completed steps remain, and the next call
        moves the remaining rows. Partitions without rows are not moved. If there is nothing to do, no new
        version is created.

        Parameters
        ----------
        step_bytes
            The stored bytes to move in one commit. A larger partition is still moved in one commit. The
            memory used is that of a scan and a writer.

        Returns
        -------
        What was moved.

        Raises
        ------
        ConflictError
            The columns changed in the meantime, or other writers kept changing the rows to be moved.
        UnsupportedFeatureError
            A partition may have blobs in base paths of its own; or a partition with rows is read from a
            branch, to which a namespace does not write. All other partitions have been moved.
        CommitStateUnknownError
            It is not known whether a step was published. It is safe to call the method again.
        """
        size = as_integer(step_bytes)
        if size is None or size < 1:
            raise InvalidInputError(f"step_bytes must be a positive integer, got {step_bytes!r}")
        latest = self._table.latest_for_change()
        manifest, metrics = repartition(latest.root, latest.manifest, InProcess(), step_bytes=size)
        self._table = latest.of(manifest)
        return metrics

    def cleanup_old_versions(
        self,
        older_than: dt.timedelta | None = None,
        retain_versions: int | None = None,
        *,
        delete_unverified: bool = False,
        error_if_tagged_old_versions: bool = True,
        delete_rate_limit: int | None = None,
        dry_run: bool = False,
    ) -> CleanupStats:
        """Remove old versions of the namespace, and versions and files of members that nothing else reads.

        A version of the namespace is removed if it meets every condition that is given. The newest version
        and the version of this object are never removed. All versions of members that remaining versions of
        the namespace read remain too.

        Parameters
        ----------
        older_than
            The minimum age. If no condition is given at all, it is two weeks. Versions of members must have
            this age too, and those that were never published must also be at least seven days old.
        retain_versions
            The number of newest versions of the namespace to keep.
        delete_unverified
            Also remove files that no version refers to and that are less than seven days old. They may belong
            to a write in progress, so use this only when nobody writes to the namespace.
        error_if_tagged_old_versions
            Raise an error if a version of ``__manifest`` to be removed has a tag. If False, such a version is
            skipped.
        delete_rate_limit
            The maximum number of files to remove per second, for each table.
        dry_run
            Remove nothing, and return what would be removed.

        Returns
        -------
        How much was removed, summed over ``__manifest`` and all members.

        Raises
        ------
        InvalidInputError
            An argument is out of range, or a version has a tag.
        IncompatibleConflictError
            The namespace was dropped and created again. Nothing was removed.
        CorruptDataError
            Something cannot be read, so the files that it needs are not known.
        StorageError
            The store failed.
        """
        policy = CleanupPolicy(
            older_than=older_than,
            retain_versions=plain(retain_versions),
            delete_unverified=delete_unverified,
            error_if_tagged=error_if_tagged_old_versions,
            delete_rate_limit=plain(delete_rate_limit),
        )
        is_dry_run = checked_flag(dry_run, "dry_run")
        return clean_up(self._table.root, self._table.manifest, policy, dry_run=is_dry_run)
