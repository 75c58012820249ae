"""What scans have seen of the values of a table, which files of version 2 say nothing about.

Data files never change, so that what was seen of them holds for ever. It is in the cache of the table, one
entry for each column or range of rows, and may be forgotten at any time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from lance_df.cache import CacheKind
from lance_df.table.reading.observed_bounds import ObservedBounds

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    import pyarrow as pa

    from lance_df.cache import Entries, TableCache
    from lance_df.table.reading.fragment_reader import FragmentReader

V = TypeVar("V")

# of what is known of one column or of a sample, beside values
ENTRY_BYTES: Final = 512


class ObservedStatistics:
    """Bounds, extremes and samples of the columns of a table. Safe to share between threads.

    Attributes
    ----------
    bounds
        Smallest and largest values of windows of rows in which a filter matched nothing.
    """

    def __init__(self, cache: TableCache) -> None:
        self._entries: Entries[Any] = cache.entries(CacheKind.OBSERVED)
        self.bounds = ObservedBounds(self._entries)

    def extremes(self, keys: Sequence[Hashable]) -> list[pa.Array] | None:
        """Return the smallest and the largest value for each key; None if those of one are unknown.

        A key names a column, and rows of a data file.
        """
        all_extremes = []
        for key in keys:
            extremes = self._entries.find(("extremes", key))
            if extremes is None:
                return None
            all_extremes.append(extremes)
        return all_extremes

    def add_extremes(self, keys: Sequence[Hashable], extremes: Sequence[pa.Array]) -> None:
        """Keep the smallest and the largest value of columns, one array for each key."""
        for key, values in zip(keys, extremes, strict=True):
            self._entries.put(("extremes", key), values, ENTRY_BYTES + values.nbytes)

    def sample(
        self,
        what: str,
        reader: FragmentReader,
        names: Sequence[str],
        take: Callable[[], V],
        num_bytes: int = ENTRY_BYTES,
    ) -> V:
        """Return what a sample of some columns of a fragment shows, taken by ``take`` unless it was before.

        Parameters
        ----------
        what
            Distinguishes samples of the same columns.
        num_bytes
            That it takes, about.
        """
        files = tuple(file.path for file in reader.fragment.files)
        result: V = self._entries.get((what, files, tuple(names)), take, num_bytes)
        return result
