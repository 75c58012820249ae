"""Keep a table in shape: compaction, indices, clean-up."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from lance_df.api.base import DatasetBase
from lance_df.api.optimizer import DatasetOptimizer
from lance_df.errors import InvalidInputError
from lance_df.table.maintenance.cleanup import cleanup, explain_cleanup
from lance_df.table.maintenance.cleanup_policy import CleanupPolicy

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Iterable

    from lance_df.dataset import LanceDataset
    from lance_df.table.maintenance.cleanup_result import CleanupExplanation, CleanupStats


class Maintenance(DatasetBase):
    """Keep a table in shape: compaction, indices, clean-up."""

    @property
    def optimize(self) -> DatasetOptimizer:
        """What makes later reads of the table faster."""
        return DatasetOptimizer(cast("LanceDataset", self))

    def cleanup_old_versions(
        self,
        older_than: dt.timedelta | None = None,
        retain_versions: int | None = None,
        *,
        delete_unverified: bool = False,
        error_if_tagged_old_versions: bool = True,
        delete_rate_limit: int | None = None,
        versions: Iterable[int] | None = None,
        delete_concurrency: int | None = None,
        dry_run: bool = False,
    ) -> CleanupStats:
        """Remove old versions of this branch, and the files that nothing else needs.

        A version goes if it meets every condition that is given. The newest version and this one stay in any
        case, as do versions with tags, those that branches start from, and all files that these, branches or
        commits under way may need. Versions that were removed cannot be opened or restored any more; a
        shallow clone of one breaks, because nothing here knows of it.

        Parameters
        ----------
        older_than
            Age; two weeks if no condition is given at all.
        retain_versions
            So many of the newest versions stay.
        versions
            Only these.
        delete_unverified
            Remove files that no version refers to even if they are less than seven days old. They may
            belong to a commit that is under way, so this is right only while nobody writes.
        error_if_tagged_old_versions
            Fail, and remove nothing, if a version to be removed has a tag; otherwise it just stays.
        delete_rate_limit
            Files to remove in a second.
        delete_concurrency
            Requests at once.
        dry_run
            Remove nothing and return what would be removed; see `explain_cleanup_old_versions`.

        Raises
        ------
        InvalidInputError
            An argument is out of range, or a version has a tag.
        CorruptDataError
            A manifest cannot be read, so that it is not known what it needs. Nothing was removed.
        StorageError
            The store failed.
        """
        policy = _policy(
            older_than=older_than,
            retain_versions=retain_versions,
            versions=versions,
            delete_unverified=delete_unverified,
            error_if_tagged=error_if_tagged_old_versions,
            delete_rate_limit=delete_rate_limit,
            delete_concurrency=delete_concurrency,
        )
        if dry_run:
            return explain_cleanup(self._table, policy).stats
        return cleanup(self._table, policy)

    def explain_cleanup_old_versions(
        self,
        older_than: dt.timedelta | None = None,
        retain_versions: int | None = None,
        *,
        delete_unverified: bool = False,
        error_if_tagged_old_versions: bool = True,
        delete_rate_limit: int | None = None,
        versions: Iterable[int] | None = None,
        include_files: bool = False,
        max_files: int = 1000,
    ) -> CleanupExplanation:
        """Return what `cleanup_old_versions` would remove, and remove nothing.

        Parameters
        ----------
        include_files
            Name the first ``max_files`` files; all of them count in any case.
        """
        if max_files < 0:
            raise InvalidInputError(f"max_files must not be negative, got {max_files}")
        policy = _policy(
            older_than=older_than,
            retain_versions=retain_versions,
            versions=versions,
            delete_unverified=delete_unverified,
            error_if_tagged=error_if_tagged_old_versions,
            delete_rate_limit=delete_rate_limit,
        )
        return explain_cleanup(self._table, policy, max_files=max_files if include_files else 0)


def _policy(*, versions: Iterable[int] | None, **conditions: object) -> CleanupPolicy:
    try:
        chosen = None if versions is None else frozenset(versions)
    except TypeError as err:
        raise InvalidInputError(f"versions must be some version numbers, got {versions!r}") from err
    return CleanupPolicy(versions=chosen, **conditions)  # type: ignore[arg-type] # it checks them itself
