"""Statistics on cache entries, by kind."""

from __future__ import annotations

from enum import StrEnum

from lance_df.records import dataclass


class CacheKind(StrEnum):
    """A kind of cache entries."""

    # The hash of enumerations is a Python function, and each look-up needs hashes.
    __hash__ = str.__hash__

    DATA_FILES = "data files"
    """Open data files, with the metadata and page tables of the columns that were read."""
    JOINED_FILES = "joined files"
    """Contents of small data files that are read as one."""
    DELETION_VECTORS = "deletion vectors"
    DICTIONARIES = "dictionaries"
    """Lookup tables of columns that are stored as dictionaries."""
    SMALL_COLUMNS = "small columns"
    """Decoded columns of small fragments."""
    FRAGMENTS = "fragments"
    """The locations of a fragment's columns in its data files, for one version of a table."""
    PLANS = "plans"
    """Planned scans of one version of a table, and the rows of small scans."""
    TAKES = "takes"
    """The pages of columns from which single rows were read."""
    MEMBERS = "members"
    """Open tables of members of a namespace."""
    MEMBER_FRAGMENTS = "fragments of members"
    """The fragments of small members, which are scanned together."""
    ROW_COUNTS = "row counts"
    MANIFESTS = "manifests"
    """The newest manifests that were read or written, for opening their tables again."""
    NAMESPACES = "namespaces"
    """The newest ``__manifest`` tables that were read, for opening their namespaces again."""
    OPEN_TABLES = "open tables"
    """Versions that Spark workers have opened."""
    SCHEMAS = "schemas"
    """Schemas that manifests of many tables share."""
    COLUMNS = "columns"
    """Resolved column names of a schema."""
    OBSERVED = "observed statistics"
    """Bounds, extremes and samples of values that scans have read."""
    ROW_IDS = "row ids"
    INDICES = "indices"
    """Open scalar indices, with their bounds and keys in memory."""


@dataclass(frozen=True, slots=True)
class CacheCounters:
    """Counters for the entries of one kind.

    Attributes
    ----------
    entries, num_bytes
        The number of current entries, and the memory that they use, as far as it is counted.
    hits, misses
        The number of look-ups that found an entry, and the number of those that did not.
    evictions
        The number of entries that were dropped to stay within the budget.
    """

    entries: int = 0
    num_bytes: int = 0
    hits: int = 0
    misses: int = 0
    evictions: int = 0

    def __add__(self, other: CacheCounters) -> CacheCounters:
        return CacheCounters(
            self.entries + other.entries,
            self.num_bytes + other.num_bytes,
            self.hits + other.hits,
            self.misses + other.misses,
            self.evictions + other.evictions,
        )


@dataclass(frozen=True, slots=True)
class CacheStatistics:
    """Statistics on the cache of one open table, or on the caches of all open tables of this process.

    Attributes
    ----------
    max_bytes
        The budget of the process; see `set_cache_bytes`.
    num_bytes
        The memory that the entries use together.
    kinds
        The counters of each kind of entries.
    """

    max_bytes: int
    num_bytes: int
    kinds: dict[str, CacheCounters]

    @property
    def total(self) -> CacheCounters:
        """Return the sum of the counters of all kinds."""
        return sum(self.kinds.values(), CacheCounters())
