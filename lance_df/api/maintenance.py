"""Keep a table in shape: compaction, indices, clean-up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from lance_df.api.base import DatasetBase
from lance_df.api.optimizer import DatasetOptimizer
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
    """Keep a table in shape: compaction, indices, clean-up."""

    @property
    def optimize(self) -> DatasetOptimizer:
        """What makes later reads of the table faster."""
        return DatasetOptimizer(cast("LanceDataset", self))

    def create_scalar_index(
        self,
        column: str | Sequence[str],
        index_type: str | IndexConfig,
        name: str | None = None,
        *,
        replace: bool = True,
        train: bool = True,
        rows_per_zone: int | None = None,
        **options: object,
    ) -> None:
        """Build an index of a column, and move this dataset to the version that has it.

        Parameters
        ----------
        column
            A top-level column, or a field of a struct as ``"a.b"``; or a list of one.
        index_type
            ``"BTREE"``: all values in order, for any comparison. ``"BITMAP"``: the rows of each value, for
            columns of few values. ``"BLOOMFILTER"``: which values may be among so many rows, for equality.
            ``"ZONEMAP"``: the smallest and the largest value of every so many rows. An
            `lance_df.indices.IndexConfig` has the options with it.
        name
            ``{column}_idx`` by default.
        replace
            Whether an index of this name on the same column may be replaced.
        train
            Whether to cover the rows that there are; otherwise the index is empty until it is optimized.
        rows_per_zone
            Live rows of one fragment of which a zone map keeps bounds; 8,192 by default.

        Raises
        ------
        ColumnNotFoundError
            There is no such column.
        IndexAlreadyExistsError
            The name is taken.
        InvalidInputError
            No such type, or another argument is wrong.
        UnsupportedFeatureError
            A type of index, an option or a type of column of which this release builds none.
        """
        if isinstance(index_type, IndexConfig):
            given: dict[str, Any] = {"rows_per_zone": rows_per_zone, **options, **index_type.parameters}
            kind = index_type.index_type
            self.create_scalar_index(column, kind, name, replace=replace, train=train, **given)
            return
        if not isinstance(column, str):
            if len(column) != 1:
                raise InvalidInputError(f"an index is of one column, not of {list(column)!r}")
            column = column[0]
        kind = str(index_type).upper()
        if kind in _OTHER_INDICES:
            raise UnsupportedFeatureError(
                f"this release builds no {kind} index; it builds {', '.join(BUILDERS)}"
            )
        if kind not in BUILDERS:
            raise InvalidInputError(f"index_type {index_type!r} is unknown; use one of {', '.join(BUILDERS)}")
        unknown = sorted(option for option, value in options.items() if value is not None)
        if rows_per_zone is not None and kind != "ZONEMAP":
            unknown.append("rows_per_zone")
        if unknown:
            raise UnsupportedFeatureError(f"a {kind} index is built without the option {unknown[0]!r} here")
        self._follow(
            create_index(
                self._table,
                column,
                kind,
                name=name,
                replace=replace,
                train=train,
                rows_per_zone=rows_per_zone,
            )
        )

    def drop_index(self, name: str) -> None:
        """Remove an index of any type; its files stay until old versions are cleaned up.

        Raises
        ------
        IndexNotFoundError
            There is no such index.
        """
        self._follow(drop_index(self._table, name))

    def describe_indices(self) -> list[IndexDescription]:
        """Return what indices there are, with their segments."""
        return index_descriptions(self._table)

    def index_statistics(self, index_name: str) -> dict[str, Any]:
        """Return how much of the table an index covers.

        Raises
        ------
        IndexNotFoundError
            There is no such index.
        """
        return index_statistics(self._table, index_name)

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
        chosen = None if versions is None else frozenset(map(plain, versions))
    except TypeError as err:
        raise InvalidInputError(f"versions must be some version numbers, got {versions!r}") from err
    values: dict[str, Any] = {name: plain(value) for name, value in conditions.items()}
    return CleanupPolicy(versions=chosen, **values)  # it checks them itself
