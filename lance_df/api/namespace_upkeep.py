"""Keep a partitioned namespace in shape: compaction and clean-up of all members."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    """Keep a namespace in shape."""

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
        """Join small fragments of partitions, and leave out deleted rows and dropped columns.

        A few partitions at a time, and in one version: readers see all of them compacted, or none. A
        partition that others change meanwhile is compacted again; one that is read from a branch stays as
        it is. Without anything to do there is no new version. The arguments are those of
        `lance_df.optimize.CompactionOptions`, for each partition.

        Returns
        -------
        What was done, in all partitions together.

        Raises
        ------
        InvalidInputError
            An argument is out of range.
        ConflictError
            Columns changed meanwhile, or others were faster again and again.
        CommitStateUnknownError
            It is not known whether the compaction was published.
        """
        given = {name: value for name, value in locals().items() if name != "self"}
        latest = self._table.latest()
        change = MembersCompacted(given)
        # before it is its turn to publish: others of this process do not wait for it
        make_in_advance(latest.root, latest.manifest, change)
        self._table = latest.of(publish(latest.root, latest.manifest, [change]))
        return CompactionMetrics._of(change.groups)

    def repartition(self, *, step_bytes: int = STEP_BYTES) -> RepartitionMetrics:
        """Move the rows of partitions of older spec versions to those of the newest one.

        Step by step, each in one version in which the rows are where they are to be, and no longer where they
        were; so what was moved stays moved when a later step fails, and the next call goes on with the rest.
        Partitions without rows are left behind. Without anything to do there is no new version.

        Parameters
        ----------
        step_bytes
            Stored bytes to move by one commit; a partition that has more is moved by one all the same. Memory
            is that of a scan and a writer.

        Returns
        -------
        What was moved.

        Raises
        ------
        ConflictError
            Columns changed meanwhile, or others changed what was to be moved again and again.
        UnsupportedFeatureError
            Blobs may lie in base paths of a single partition; or one that has rows is read from a branch,
            which a namespace does not write to. All others are moved by then.
        CommitStateUnknownError
            It is not known whether a step was published. To call it again does no harm.
        """
        size = as_integer(step_bytes)
        if size is None or size < 1:
            raise InvalidInputError(f"step_bytes must be a positive integer, got {step_bytes!r}")
        latest = self._table.latest()
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
        """Remove old versions of the namespace, and versions and files of members that no other one reads.

        A version of the namespace goes if it meets every condition that is given; the newest and the one that
        this object is at stay, and all versions of members that these and others that stay read.

        Parameters
        ----------
        older_than
            Age; two weeks if no condition is given at all. Versions of members must be as old, too, and seven
            days where they were never published.
        retain_versions
            So many of the newest versions of the namespace stay.
        delete_unverified
            Remove files that no version refers to even if they are less than seven days old. They may
            belong to a write that is under way, so this is right only while nobody writes.
        error_if_tagged_old_versions
            Fail if a version of ``__manifest`` to be removed has a tag; otherwise it just stays.
        delete_rate_limit
            Files to remove in a second, from one table.
        dry_run
            Remove nothing, and return what would be removed.

        Returns
        -------
        How much was removed, of ``__manifest`` and all members together.

        Raises
        ------
        InvalidInputError
            An argument is out of range, or a version has a tag.
        CorruptDataError
            Something cannot be read, so that it is not known what it needs.
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
        return clean_up(self._table.root, self._table.manifest, policy, dry_run=dry_run)
