"""`LanceDataset.optimize`: compaction and index updates, with the names of pylance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from lance_df.api.descriptions import sizes_text
from lance_df.arguments import checked_flag, checked_integer, checked_mapping, checked_names
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
    """Methods that compact files and update indices, as `LanceDataset.optimize` returns them."""

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
        """Merge small neighbouring fragments, and leave out deleted rows and dropped columns.

        Rows keep their order within each group of fragments that is rewritten, and stable row ids do not
        change. As in pylance, new fragments come after the fragments that are not rewritten, so the order of
        all rows of the table may change. Arguments that are not given are taken from the configuration of the
        table (``lance.compaction.…``), or else from the defaults of `lance_df.optimize.CompactionOptions`,
        which describes them. If there is nothing to compact, no new version is created.

        Compaction updates the indices as follows:

        - B-trees and bitmaps get the new row addresses in the same version.
        - Bloom filters and zone maps are updated in a separate version.
        - Other indices that store row addresses no longer cover the rewritten fragments. These fragments are
          scanned until ``optimize_indices`` of pylance adds them again.

        Raises
        ------
        RetryableConflictError
            Other writers changed rows of the fragments in the meantime. Nothing is left behind.
        InvalidInputError
            An argument is out of range.
        UnsupportedFeatureError
            This release does not have the mode, or cannot write the table.
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
        """Extend scalar indices to rows that were added or moved since they were built.

        Full-text, vector and other indices are not changed; pylance can update them.

        Parameters
        ----------
        index_names
            Update only these indices. The default is all B-trees, bitmaps, Bloom filters and zone maps.
        num_indices_to_merge
            How many of the newest segments of an index to merge with the rows that it does not cover; all by
            default. With 0, these rows get a separate segment. Segments with outdated values of rows that the
            index covers are always merged.
        retrain
            Rebuild the indices from all rows.

        Raises
        ------
        InvalidInputError
            ``num_indices_to_merge`` is negative.
        UnsupportedFeatureError
            A named index has another type.
        """
        names = None if index_names is None else frozenset(checked_names(index_names, "index_names"))
        if num_indices_to_merge is not None:
            num_indices_to_merge = checked_integer(num_indices_to_merge, "num_indices_to_merge", 0)
        retrain = checked_flag(retrain, "retrain")
        before = self._dataset._table
        after = optimize_indices(
            before, names=names, retrain=retrain, num_indices_to_merge=num_indices_to_merge
        )
        if after is not before:
            self._dataset._follow(after)

    def enable_auto_cleanup(self, auto_cleanup_config: AutoCleanupConfig) -> None:
        """Remove versions older than ``older_than_seconds`` at the commit of every ``interval``-th version.

        Raises
        ------
        InvalidInputError
            One of the two numbers is missing or negative.
        """
        checked_mapping(auto_cleanup_config, "auto_cleanup_config")
        values = [auto_cleanup_config.get(name) for name in ("interval", "older_than_seconds")]
        if any(not isinstance(value, int) or isinstance(value, bool) or value < 0 for value in values):
            raise InvalidInputError(
                f"interval and older_than_seconds must be numbers of at least 0, got {auto_cleanup_config!r}"
            )
        interval, seconds = values
        self._dataset.update_config({_INTERVAL: str(interval), _OLDER_THAN: f"{seconds}s"})

    def disable_auto_cleanup(self) -> None:
        """Turn off the removal of old versions by commits."""
        self._dataset.delete_config_keys([_INTERVAL, _OLDER_THAN])
