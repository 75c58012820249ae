"""Maintain a table: compaction, indices and clean-up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from lance_df.api.base import DatasetBase
from lance_df.api.optimizer import DatasetOptimizer
from lance_df.arguments import (
    checked_flag,
    checked_integer,
    checked_items,
    checked_names,
    checked_text,
)
from lance_df.errors import InvalidInputError, UnsupportedFeatureError
from lance_df.indices import IndexConfig
from lance_df.records import plain
from lance_df.table.maintenance.cleanup import cleanup, explain_cleanup
from lance_df.table.maintenance.cleanup_policy import CleanupPolicy
from lance_df.table.maintenance.index_report import index_descriptions, index_statistics
from lance_df.table.maintenance.scalar_index import BUILDERS, create_index, drop_index

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Iterable, Sequence

    from lance_df.dataset import LanceDataset
    from lance_df.table.maintenance.cleanup_result import CleanupExplanation, CleanupStats
    from lance_df.table.maintenance.index_report import IndexDescription

_OTHER_INDICES = frozenset({"LABEL_LIST", "INVERTED", "FTS", "NGRAM", "RTREE", "MINHASHLSH"})


class Maintenance(DatasetBase):
    """Methods that maintain a table: compaction, indices and clean-up."""

    @property
    def optimize(self) -> DatasetOptimizer:
        """Return the methods that compact files and update indices."""
        return DatasetOptimizer(cast("LanceDataset", self))

    def create_scalar_index(
        self,
        column: str | Sequence[str],
        index_type: str | IndexConfig,
        name: str | None = None,
        *,
        replace: bool | None = True,
        train: bool | None = True,
        rows_per_zone: int | None = None,
        **options: object,
    ) -> None:
        """Build an index of a column, and move this dataset to the version that has it.

        Parameters
        ----------
        column
            A top-level column, or a field of a struct as ``"a.b"``; or a list with one of them.
        index_type
            One of the following, or an `lance_df.indices.IndexConfig`, which also holds the options:

            - ``"BTREE"``: all values in order, for any comparison.
            - ``"BITMAP"``: the rows of each value, for columns with few distinct values.
            - ``"BLOOMFILTER"``: which values a group of rows may contain, for equality.
            - ``"ZONEMAP"``: the minimum and maximum of each group of rows.
        name
            The name of the index. The default is ``{column}_idx``.
        replace
            Whether to replace an index with this name on the same column.
        train
            Whether to index the existing rows. If False, the index is empty until it is optimized.
        rows_per_zone
            How many live rows of one fragment a zone of a zone map covers. The default is 8,192.

        Raises
        ------
        ColumnNotFoundError
            There is no such column.
        IndexAlreadyExistsError
            The name is taken.
        InvalidInputError
            There is no such index type, or another argument is invalid.
        UnsupportedFeatureError
            This release cannot build an index of this type, with this option, or for this type of column.
        """
        if isinstance(index_type, IndexConfig):
            given: dict[str, Any] = {"rows_per_zone": rows_per_zone, **options, **index_type.parameters}
            kind = index_type.index_type
            self.create_scalar_index(column, kind, name, replace=replace, train=train, **given)
            return
        if not isinstance(column, str):
            if len(names := checked_names(column, "column")) != 1:
                raise InvalidInputError(f"an index must be on one column, got {names!r:.60}")
            (column,) = names
        if name is not None:
            checked_text(name, "name")
        kind = str(index_type).upper()
        if kind in _OTHER_INDICES:
            raise UnsupportedFeatureError(
                f"{kind} indices are not supported; use one of {', '.join(BUILDERS)}"
            )
        if kind not in BUILDERS:
            raise InvalidInputError(f"index_type {index_type!r} is unknown; use one of {', '.join(BUILDERS)}")
        unknown = sorted(option for option, value in options.items() if value is not None)
        if rows_per_zone is not None and kind != "ZONEMAP":
            unknown.append("rows_per_zone")
        if unknown:
            raise UnsupportedFeatureError(f"option {unknown[0]!r} is not supported for a {kind} index")
        self._follow(
            create_index(
                self._table,
                column,
                kind,
                name=name,
                replace=checked_flag(replace, "replace", default=True),
                train=checked_flag(train, "train", default=True),
                rows_per_zone=rows_per_zone,
            )
        )

    def drop_index(self, name: str) -> None:
        """Remove an index of any type. Its files remain until old versions are cleaned up.

        Raises
        ------
        IndexNotFoundError
            There is no such index.
        """
        self._follow(drop_index(self._table, checked_text(name, "name")))

    def describe_indices(self) -> list[IndexDescription]:
        """Return the indices of the table with their segments."""
        return index_descriptions(self._table)

    def index_statistics(self, index_name: str) -> dict[str, Any]:
        """Return how much of the table an index covers.

        Raises
        ------
        IndexNotFoundError
            There is no such index.
        """
        return index_statistics(self._table, checked_text(index_name, "index_name"))

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

        A version is removed if it meets every condition that is given. These versions are never removed:

        - the newest version, and the version of this object;
        - versions with tags;
        - versions from which branches start.

        Files that the remaining versions, branches or commits in progress may need are not removed, nor are
        files in base paths, as other tables may use them. A removed version can no longer be opened or
        restored. A shallow clone of a removed version breaks, because the table does not know its clones.

        Parameters
        ----------
        older_than
            The minimum age. If no condition is given at all, it is two weeks.
        retain_versions
            The number of newest versions to keep.
        versions
            Remove only these versions.
        delete_unverified
            Also remove files that no version refers to and that are less than seven days old. They may belong
            to a commit in progress, so use this only when nobody writes to the table.
        error_if_tagged_old_versions
            Raise an error, and remove nothing, if a version to be removed has a tag. If False, such a version
            is skipped.
        delete_rate_limit
            The maximum number of files to remove per second.
        delete_concurrency
            The number of concurrent requests.
        dry_run
            Remove nothing, and return what would be removed; see `explain_cleanup_old_versions`.

        Raises
        ------
        InvalidInputError
            An argument is out of range, or a version has a tag.
        IncompatibleConflictError
            The table was dropped, or its branch deleted, and created again. Nothing was removed.
        CorruptDataError
            A manifest cannot be read, so the files that it needs are not known. Nothing was removed.
        StorageError
            The store failed.
        """
        policy = _policy(
            older_than=older_than,
            retain_versions=retain_versions,
            versions=versions,
            delete_unverified=checked_flag(delete_unverified, "delete_unverified", default=False),
            error_if_tagged=checked_flag(
                error_if_tagged_old_versions, "error_if_tagged_old_versions", default=True
            ),
            delete_rate_limit=delete_rate_limit,
            delete_concurrency=delete_concurrency,
        )
        if checked_flag(dry_run, "dry_run"):
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
        """Return what `cleanup_old_versions` would remove, without removing anything.

        Parameters
        ----------
        include_files
            List the first ``max_files`` files. The counts always include all files.
        """
        num_files = checked_integer(max_files, "max_files", 0)
        num_files = num_files if checked_flag(include_files, "include_files") else 0
        policy = _policy(
            older_than=older_than,
            retain_versions=retain_versions,
            versions=versions,
            delete_unverified=checked_flag(delete_unverified, "delete_unverified", default=False),
            error_if_tagged=checked_flag(
                error_if_tagged_old_versions, "error_if_tagged_old_versions", default=True
            ),
            delete_rate_limit=delete_rate_limit,
        )
        return explain_cleanup(self._table, policy, max_files=num_files)


def _policy(*, versions: Iterable[int] | None, **conditions: object) -> CleanupPolicy:
    chosen = None
    if versions is not None:
        given = checked_items(versions, "versions", "version numbers")
        chosen = frozenset(checked_integer(each, "a version in versions") for each in given)
    values: dict[str, Any] = {name: plain(value) for name, value in conditions.items()}
    return CleanupPolicy(versions=chosen, **values)  # it checks them itself
