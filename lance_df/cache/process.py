"""The budget and the statistics of all caches of this process."""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING, Final

from lance_df.cache.table_cache import BUDGET, TableCache, statistics_of
from lance_df.errors import InvalidInputError

if TYPE_CHECKING:
    from lance_df.cache.statistics import CacheStatistics

PROCESS: Final = TableCache()
"""The cache for tables and namespaces that are opened again after their objects are gone."""


def set_cache_bytes(max_bytes: int) -> None:
    """Set how much memory the caches of all open tables of this process may use together.

    When they exceed the limit, the least recently used entries are evicted. With 0 nothing is cached. The
    default is 512 MiB. Sizes are estimates. Values that a running scan uses are freed when the scan ends.

    Raises
    ------
    InvalidInputError
        The argument is not a number of bytes.
    """
    try:
        number = index(max_bytes)
    except TypeError:
        number = -1
    if number < 0 or isinstance(max_bytes, bool):
        raise InvalidInputError(f"the cache size must be a number of bytes of at least 0, got {max_bytes!r}")
    BUDGET.resize(number)


def cache_statistics() -> CacheStatistics:
    """Return statistics on the caches of all open tables of this process."""
    return statistics_of(BUDGET.caches())
