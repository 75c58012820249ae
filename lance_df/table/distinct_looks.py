"""How many values columns have, by a look at their first ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.encodings.plan import RowRange
from lance_df.errors import LanceError
from lance_df.table.reading.observed import sampled_fragment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance_df.table.table import Table

_LOOKED_AT: Final = 8 * 1024
# Values that come together, or are all different, are expected to go on like this.
_CLUSTERED: Final = 0.9
_MOST: Final = 100


def expected_distinct(table: Table, names: Sequence[str]) -> float:
    """Return about how many different values some top-level columns have together; 0 if none can be read."""
    reader = sampled_fragment(table)
    if not names or reader is None:
        return 0.0

    def look() -> tuple[float, float]:
        rows = RowRange(0, min(_LOOKED_AT, reader.num_rows))
        return _seen(reader.read([table.schema.field(name) for name in names], rows))

    try:
        share, most = table.shared.observed.sample("distinct values", reader, names, look)
    except (LanceError, pa.ArrowNotImplementedError):  # who scans them tells
        return 0.0
    return min(float(table.fragments.physical_rows.sum()) * share, most)


def _seen(columns: Sequence[pa.Array]) -> tuple[float, float]:
    """Return the share of rows that are expected to bring a value of their own, and how many there may be."""
    codes = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        indices = pc.dictionary_encode(column, null_encoding="encode").indices.to_numpy(zero_copy_only=False)
        _, codes = np.unique(codes * (int(indices.max()) + 1) + indices, return_inverse=True)
    num_rows, num_seen = len(codes), int(codes.max()) + 1
    num_runs = 1 + int(np.count_nonzero(np.diff(codes)))
    if num_seen >= _CLUSTERED * num_runs:
        return num_seen / num_rows, np.inf
    # of n values in any order, s rows show n (1 - exp(-s / n))
    counts = np.geomspace(num_seen, _MOST * num_rows, 256)
    shown = counts * -np.expm1(-num_rows / counts)
    return 1.0, float(counts[min(int(np.searchsorted(shown, num_seen)), len(counts) - 1)])
