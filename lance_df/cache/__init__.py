"""The caches of open tables, which share one memory budget for the process.

Each open table has one `TableCache`, which all its versions share. Entries are found by kind and key. When
the entries of all tables together exceed the budget, the least recently used entries are evicted, whichever
table they belong to. Results never depend on an entry: a missing value is read or computed again. Code that
holds a value keeps it even if its entry is evicted.
"""

from __future__ import annotations

from lance_df.cache.process import PROCESS, cache_statistics, set_cache_bytes
from lance_df.cache.statistics import CacheCounters, CacheKind, CacheStatistics
from lance_df.cache.table_cache import DEFAULT_CACHE_BYTES, ENTRY_BYTES, Entries, Footprint, TableCache

__all__ = [
    "DEFAULT_CACHE_BYTES",
    "ENTRY_BYTES",
    "PROCESS",
    "CacheCounters",
    "CacheKind",
    "CacheStatistics",
    "Entries",
    "Footprint",
    "TableCache",
    "cache_statistics",
    "set_cache_bytes",
]
