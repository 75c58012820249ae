"""Count the rows of fragments, many at once and mostly from the manifest alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lance_df.errors import CorruptDataError
from lance_df.table.parallel import map_reads

if TYPE_CHECKING:
    import numpy.typing as npt

    from lance_df.table.table import Table


def count_rows(table: Table) -> int:
    """Return the rows of a table; files are read only if the manifest does not have the counts."""
    fragments = table.fragments
    known = (fragments.physical_rows > 0) & ~(fragments.has_deletions & (fragments.num_deleted == 0))
    if not table.trusts_row_counts:
        known[:] = False
    live = (fragments.physical_rows - fragments.num_deleted)[known]
    if (live < 0).any():
        raise CorruptDataError(
            f"{table.manifest_file.path}: fragment {fragments.ids[known][live.argmin()]} has more deleted "
            "rows than rows"
        )
    unknown = [fragments[position] for position in np.flatnonzero(~known).tolist()]
    return int(live.sum()) + sum(map_reads(table.live_rows, unknown, where=table.location))


def estimated_rows(table: Table) -> int | None:
    """Return the rows of a table if the manifest has them, else None.

    Deleted rows count if the manifest does not have their number.
    """
    fragments = table.fragments
    if (fragments.physical_rows == 0).any():  # old tables
        return None
    return max(0, int(fragments.physical_rows.sum()) - int(fragments.num_deleted.sum()))


def physical_rows(table: Table, positions: npt.NDArray[np.intp]) -> npt.NDArray[np.int64]:
    """Return the rows of the fragments at ``positions`` of the table's list, deleted ones included.

    Files are opened only if the manifest does not have the number, or is not reliable (old tables).
    """
    counts: npt.NDArray[np.int64] = table.fragments.physical_rows[positions].copy()
    untold = counts == 0
    if not table.trusts_row_counts:
        untold[:] = True
    for index in np.flatnonzero(untold).tolist():
        counts[index] = table.fragment_rows(table.fragments[int(positions[index])])
    return counts


def live_counts(table: Table, fragment_ids: npt.NDArray[np.int64]) -> dict[int, int]:
    """Return the number of live rows of some fragments, by fragment id; missing fragments are left out."""
    positions = table.fragments.positions(fragment_ids)
    positions = positions[positions >= 0]
    counts = live_rows(table, positions)
    return dict(zip(table.fragments.ids[positions].tolist(), counts.tolist(), strict=True))


def live_rows(table: Table, positions: npt.NDArray[np.intp]) -> npt.NDArray[np.int64]:
    """Return the number of live rows of the fragments at ``positions``."""
    fragments = table.fragments
    deleted: npt.NDArray[np.int64] = fragments.num_deleted[positions].copy()
    for index in np.flatnonzero(fragments.has_deletions[positions] & (deleted == 0)).tolist():
        vector = table.deletion_vector(fragments[int(positions[index])])
        deleted[index] = 0 if vector is None else len(vector)
    return np.maximum(physical_rows(table, positions) - deleted, 0)
