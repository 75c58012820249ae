"""How many rows fragments have, for many at once and mostly from the manifest alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from lance_df.table.table import Table


def physical_rows(table: Table, places: npt.NDArray[np.intp]) -> npt.NDArray[np.int64]:
    """Return the rows of the fragments at ``places`` of the table's list, deleted ones included.

    Files are opened only where the manifest does not say, or cannot be trusted (old tables).
    """
    counts: npt.NDArray[np.int64] = table.fragments.physical_rows[places].copy()
    untold = counts == 0
    if table.manifest.writer_version is None:
        untold[:] = True
    for index in np.flatnonzero(untold).tolist():
        counts[index] = table.fragment_rows(table.fragments[int(places[index])])
    return counts


def live_rows(table: Table, places: npt.NDArray[np.intp]) -> npt.NDArray[np.int64]:
    """Return the rows of the fragments at ``places`` that are not deleted."""
    fragments = table.fragments
    deleted: npt.NDArray[np.int64] = fragments.num_deleted[places].copy()
    for index in np.flatnonzero(fragments.has_deletions[places] & (deleted == 0)).tolist():
        vector = table.deletion_vector(fragments[int(places[index])])
        deleted[index] = 0 if vector is None else len(vector)
    return np.maximum(physical_rows(table, places) - deleted, 0)
