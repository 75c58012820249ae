"""Smallest and largest values of stretches of rows that scans have read.

Data files never change, so what was found in rows of which none is deleted holds for ever. It is kept in
memory, as long as the table is open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lance_df.table.caches import LruCache

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    import pyarrow as pa

_MAX_BYTES: Final = 16 * 1024 * 1024
# of what is kept of one column of one stretch, beside the values
_ENTRY_BYTES: Final = 512


class LearnedExtremes:
    """Smallest and largest values of columns over stretches of data files. Safe to share between threads."""

    def __init__(self) -> None:
        self._known: LruCache[pa.Array] = LruCache(_MAX_BYTES)

    def find(self, keys: Sequence[Hashable]) -> list[pa.Array] | None:
        """Return for each key the smallest and the largest value; None if those of one are unknown."""
        found = []
        for key in keys:
            extremes = self._known.find(key)
            if extremes is None:
                return None
            found.append(extremes)
        return found

    def learn(self, keys: Sequence[Hashable], extremes: Sequence[pa.Array]) -> None:
        """Keep the smallest and the largest value of columns, one for each key."""
        for key, values in zip(keys, extremes, strict=True):
            self._known.keep(key, values, weight=_ENTRY_BYTES + values.nbytes)
