"""Statistics of column values that scans have observed, as files of version 2 have none.

Data files never change, so observations stay valid. They are in the cache of the table, one entry for each
column or range of rows, and may be evicted at any time.
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

# memory of an entry for one column or a sample, besides values
ENTRY_BYTES: Final = 512


class ObservedStatistics:
    """Bounds, extremes and samples of the columns of a table. Threads may share it.

    Attributes
    ----------
    bounds
        Smallest and largest values of zones of rows that filters have read.
    """

    def __init__(self, cache: TableCache) -> None:
        self._entries: Entries[Any] = cache.entries(CacheKind.OBSERVED)
        self.bounds = ObservedBounds(self._entries)

    def extremes(self, keys: Sequence[Hashable]) -> list[pa.Array] | None:
        """Return the smallest and the largest value for each key; None if any are unknown.

        A key identifies a column and a range of rows of a data file.
        """
        all_extremes = []
        for key in keys:
            extremes = self._entries.find(("extremes", key))
            if extremes is None:
                return None
            all_extremes.append(extremes)
        return all_extremes

    def add_extremes(self, keys: Sequence[Hashable], extremes: Sequence[pa.Array]) -> None:
        """Cache the smallest and the largest value of columns, one array for each key."""
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
        """Return the result of sampling columns of a fragment; call ``take`` if it is not cached.

        Parameters
        ----------
        what
            Distinguishes samples of the same columns.
        num_bytes
            The approximate size of the result.
        """
        files = tuple(file.path for file in reader.fragment.files)
        result: V = self._entries.get((what, files, tuple(names)), take, num_bytes)
        return result
