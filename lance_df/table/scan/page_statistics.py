"""Prune batches of 0.1 data files by their page statistics.

Spec: file format 0.1, section 6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_df.errors import ColumnNotFoundError
from lance_df.expr.bounds import Match, bounds_of_legacy_pages, classify
from lance_df.expr.walk import columns
from lance_df.table.reading.selection import RowRanges
from lance_df.table.scan.columns import StoredColumn, resolve_path

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from lance_df.expr.bounds import ZoneBounds
    from lance_df.expr.nodes import Predicate
    from lance_df.file.legacy.statistics import LegacyStatistics
    from lance_df.format.schema import Schema
    from lance_df.table.reading.fragment_reader import FragmentReader


def matching_pages(reader: FragmentReader, schema: Schema, predicate: Predicate) -> RowRanges | None:
    """Return the physical rows in batches that may match; ``None`` if all may, or there are no statistics.

    Parameters
    ----------
    reader
        The fragment; the statistics of its 0.1 files are read.
    schema
        The schema of the table.
    predicate
        May contain `Unknown`, and columns that do not exist.
    """
    if not reader.has_legacy_files:
        return None
    by_path: dict[tuple[str, ...], LegacyStatistics] = {}
    for path in columns(predicate):
        try:
            column = resolve_path(schema, path)
        except ColumnNotFoundError:
            continue
        statistics = reader.statistics(column.field) if isinstance(column, StoredColumn) else None
        if statistics is not None:
            by_path[path] = statistics
    if not by_path:
        return None
    starts = np.unique(np.concatenate([statistics.row_starts for statistics in by_path.values()]))
    return _matching_zones(predicate, by_path, starts)


def _matching_zones(
    predicate: Predicate, by_path: Mapping[tuple[str, ...], LegacyStatistics], starts: npt.NDArray[np.int64]
) -> RowRanges | None:
    bounds = {path: _spread(statistics, starts[:-1]) for path, statistics in by_path.items()}
    selected = classify(predicate, bounds, len(starts) - 1) != Match.CANNOT
    if selected.all():
        return None
    return RowRanges.from_ranges(starts[:-1][selected], starts[1:][selected])


def _spread(statistics: LegacyStatistics, starts: npt.NDArray[np.int64]) -> ZoneBounds:
    """Return the bounds of the zones that start at ``starts``, the batch boundaries of all files."""
    batch = np.searchsorted(statistics.row_starts, starts, side="right") - 1
    batch = np.minimum(batch, len(statistics.null_counts) - 1)
    indices = pa.array(batch)
    return bounds_of_legacy_pages(
        statistics.min_values.take(indices),
        statistics.max_values.take(indices),
        statistics.null_counts[batch],
        np.diff(statistics.row_starts)[batch],
    )
