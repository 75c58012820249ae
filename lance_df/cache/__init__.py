"""What open tables keep in memory for later statements, within one budget of bytes for the process.

Each open table has one `TableCache`, which all its versions share. Entries are found by kind and key. When
the entries of all tables together take more than the budget, those go that were used least recently,
whichever table they are of. No answer depends on an entry: what is missing is read or computed again, and
whoever holds a value keeps it, also when its entry is gone.
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
