"""Group equal rows of a window whose columns are stored as dictionaries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.encodings.kernels import COMPILED

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

# with more combinations of values, counting takes longer than comparing rows
_MAX_GROUPS: Final = (1 << 16) - 1
# with fewer rows, there are hardly fewer groups than rows
_LEAST_ROWS: Final = 1024


def grouped(columns: Sequence[pa.Array]) -> tuple[list[pa.Array], pa.Array] | None:
    """Return the distinct combinations of values, and the number of rows of each.

    Returns None if a column is not a dictionary, or if there are too many values for this to save time.
    """
    if not columns or len(columns[0]) < _LEAST_ROWS:
        return None
    sizes = []
    for values in columns:
        if not isinstance(values, pa.DictionaryArray):
            return None
        sizes.append(len(values.dictionary) + 1)  # NULL is the last
    if (num_groups := int(np.prod(sizes, dtype=np.float64))) > min(_MAX_GROUPS, len(columns[0])):
        return None
    codes: npt.NDArray[Any] = np.zeros(len(columns[0]), np.uint8 if num_groups < 1 << 8 else np.uint16)
    for values, size in zip(columns, sizes, strict=True):
        indices = values.indices
        if (pc.max(indices).as_py() or 0) >= size - 1 and indices.null_count < len(indices):
            return None  # a damaged file; other code reports this error with more details
        if indices.null_count:
            indices = indices.cast(pa.int64()).fill_null(size - 1)
        np.multiply(codes, size, out=codes, casting="unsafe")
        np.add(codes, indices.to_numpy(), out=codes, casting="unsafe")
    counts = _counts(codes, num_groups)
    group_codes = np.flatnonzero(counts)
    groups: list[pa.Array] = []
    left = group_codes
    for values, size in zip(reversed(columns), reversed(sizes), strict=True):
        left, index = np.divmod(left, size)
        groups.insert(0, values.dictionary.take(pa.array(index, mask=index == size - 1)))
    return groups, pa.array(counts[group_codes], pa.int64())


def _counts(codes: npt.NDArray[Any], num_codes: int) -> npt.NDArray[np.int64]:
    """Return how often each code occurs."""
    if not COMPILED or codes.dtype != np.uint8:
        return np.bincount(codes, minlength=num_codes)
    from lance_df.encodings.kernels.keys import count_codes

    parts = np.zeros((4, 256), np.int64)
    count_codes(codes, parts.reshape(-1))
    return parts.sum(axis=0)[:num_codes]
