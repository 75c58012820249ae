"""Select the items of lists that encoders need."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_df.sliced_lists import unsliced


def list_offsets(array: pa.Array) -> npt.NDArray[np.int64]:
    """Return the offsets of a list, large list or map array into ``array.values``."""
    if not len(array):
        return np.zeros(1, np.int64)
    return array.offsets.to_numpy().astype(np.int64, copy=False)


def selected_items(
    array: pa.Array, offsets: npt.NDArray[np.int64], selected: npt.NDArray[np.int64]
) -> pa.Array:
    """Return the items of lists, in order, without the items of null lists.

    Parameters
    ----------
    array, offsets
        A list array and the result of :func:`list_offsets`.
    selected
        The number of items of each list; 0 to leave its items out.
    """
    total = int(selected.sum())
    if total == offsets[-1] - offsets[0]:
        return array.values.slice(offsets[0], total)
    before = np.cumsum(selected) - selected
    positions = np.repeat(offsets[:-1] - before, selected) + np.arange(total)
    return unsliced(array.values).take(pa.array(positions))
