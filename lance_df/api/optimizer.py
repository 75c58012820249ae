"""`LanceDataset.optimize`: what makes later reads of a table faster, with pylance's names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from lance_df.api.descriptions import sizes_text
from lance_df.errors import InvalidInputError
from lance_df.optimize import Compaction
from lance_df.table.maintenance.scalar_index import optimize_indices

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance_df.dataset import LanceDataset
    from lance_df.optimize import CompactionMetrics
    from lance_df.write import AutoCleanupConfig

_INTERVAL, _OLDER_THAN = "lance.auto_cleanup.interval", "lance.auto_cleanup.older_than"

CompactionMode = Literal["reencode", "try_binary_copy", "force_binary_copy"]


class DatasetOptimizer:
    """Compaction and upkeep of indices. Made by `LanceDataset.optimize`."""

    def __init__(self, dataset: LanceDataset) -> None:
        self._dataset = dataset

    def __repr__(self) -> str:
        table = self._dataset._table
        return (
            f"<lance_df.DatasetOptimizer of {table.uri} version {table.version}: {sizes_text(table)}; "
            "compact_files, optimize_indices, enable_auto_cleanup, disable_auto_cleanup>"
        )

    def compact_files(
        self,
        *,
        target_rows_per_fragment: int | None = None,
        max_rows_per_group: int | None = None,
        max_bytes_per_file: int | None = None,
        materialize_deletions: bool | None = None,
        materialize_deletions_threshold: float | None = None,
        defer_index_remap: bool | None = None,
        num_threads: int | None = None,
        batch_size: int | None = None,
        compaction_mode: CompactionMode | None = None,
        binary_copy_read_batch_bytes: int | None = None,
        max_source_fragments: int | None = None,
        max_source_rows: int | None = None,
        max_source_bytes: int | None = None,
        excluded_fragment_ids: Sequence[int] | None = None,
        data_storage_version: str | None = None,
    ) -> CompactionMetrics:
        """Join small fragments with their neighbours, and leave out deleted rows and dropped columns.

        Rows keep their order within each group of neighbours that is rewritten, and stable row ids stay.
        New fragments come after those that are left as they are, as with pylance, so that the order of all
        rows of a table may change. Arguments that are not given come from the table's configuration
        (``lance.compaction.…``), else they are the defaults of `lance_df.optimize.CompactionOptions`, which
        describes them. A table that is in shape gets no new version.

        Indices stay right: B-trees and bitmaps get the new addresses of rows in the same version, Bloom
        filters and zone maps are brought up to date in a version of their own. Rewritten fragments leave the
        coverage of other indices that know addresses of rows, and are scanned until pylance's
        ``optimize_indices`` brings them back.

        Raises
        ------
        RetryableConflictError
            Others changed rows of the fragments meanwhile. Nothing is left behind.
        InvalidInputError
            An argument out of range.
        UnsupportedFeatureError
            A mode that this release does not have, or a table that it cannot write.
        """
        given = {name: value for name, value in locals().items() if name != "self"}
        return Compaction.execute(self._dataset, given)

    def optimize_indices(
        self,
        *,
        index_names: Sequence[str] | None = None,
        num_indices_to_merge: int | None = None,
        retrain: bool = False,
    ) -> None:
        """Let scalar indices cover rows that were added or moved since they were built.

        Full-text, vector and other indices stay as they are: pylance updates them.

        Parameters
        ----------
        index_names
            Only these; by default all B-trees, bitmaps, Bloom filters and zone maps.
        num_indices_to_merge
            So many of the newest segments of an index become one with the rows that it lacks; all by
            default. With 0, these rows get a segment of their own. Segments that hold former values of
            rows that the index covers are always merged.
        retrain
            Build them anew from all rows.

        Raises
        ------
        InvalidInputError
            ``num_indices_to_merge`` is negative.
        UnsupportedFeatureError
            An index that was named is of another type.
        """
        names = None if index_names is None else frozenset(index_names)
        before = self._dataset._table
        after = optimize_indices(
            before, names=names, retrain=retrain, num_indices_to_merge=num_indices_to_merge
        )
        if after is not before:
            self._dataset._follow(after)

    def enable_auto_cleanup(self, auto_cleanup_config: AutoCleanupConfig) -> None:
        """Let commits of every ``interval``-th version remove versions older than ``older_than_seconds``.

        Raises
        ------
        InvalidInputError
            The two numbers are not there, or negative.
        """
        values = [auto_cleanup_config.get(name) for name in ("interval", "older_than_seconds")]
        if any(not isinstance(value, int) or isinstance(value, bool) or value < 0 for value in values):
            raise InvalidInputError(
                f"interval and older_than_seconds must be numbers from 0 on, got {auto_cleanup_config!r}"
            )
        interval, seconds = values
        self._dataset.update_config({_INTERVAL: str(interval), _OLDER_THAN: f"{seconds}s"})

    def disable_auto_cleanup(self) -> None:
        """Let commits remove nothing."""
        self._dataset.delete_config_keys([_INTERVAL, _OLDER_THAN])
