"""What open tables keep in memory for later statements, within one budget of bytes for the process.

Each open table has one `TableCache`, which all its versions share. Entries are found by kind and key. When
the entries of all tables together take more than the budget, those go that were used least recently,
whichever table they are of. No answer depends on an entry: what is missing is read or computed again, and
whoever holds a value keeps it, also when its entry is gone.
"""

from __future__ import annotations

import heapq
import itertools
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterable
from enum import StrEnum
from operator import index
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar
from weakref import ref

from lance_df.errors import InvalidInputError
from lance_df.forks import after_fork_in_child, new_lock
from lance_df.records import dataclass

if TYPE_CHECKING:
    import threading

V = TypeVar("V")

_Name: TypeAlias = tuple["CacheKind", Hashable]

DEFAULT_CACHE_BYTES: Final = 512 * 1024 * 1024
# What an entry takes beside its value: its key, its place in the dictionary, its counters.
ENTRY_BYTES: Final = 512
# A full budget is cleared by this share at once: to find the oldest entry of many tables takes long.
_CLEARED_SHARE: Final = 16
_MIN_PRUNED: Final = 64
# An entry that was used so many look-ups ago need not move to the end again.
_RECENT: Final = 32


class CacheKind(StrEnum):
    """What entries are."""

    # That of enumerations is a function of Python, and each look-up asks for hashes.
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
    """How the columns of a fragment lie in its data files, for one version of a table."""
    PLANS = "plans"
    """Scans that are planned, for one version of a table, and the rows of small ones."""
    TAKES = "takes"
    """The pages of columns of which single rows were read."""
    MEMBERS = "members"
    """Open tables of members of a namespace."""
    MEMBER_FRAGMENTS = "fragments of members"
    """Of small members, which are scanned together."""
    ROW_COUNTS = "row counts"
    MANIFESTS = "manifests"
    """The newest manifests that were read or written, for whoever opens their tables again."""
    NAMESPACES = "namespaces"
    """The newest ``__manifest`` tables that were read, for whoever opens their namespaces again."""
    OPEN_TABLES = "open tables"
    """Versions that workers of Spark have opened."""
    SCHEMAS = "schemas"
    """Schemas that manifests of many tables have in common."""
    COLUMNS = "columns"
    """What names of columns mean in a schema."""
    OBSERVED = "observed statistics"
    """Bounds, extremes and samples of values that scans have read."""
    ROW_IDS = "row ids"
    INDICES = "indices"
    """Open scalar indices, with the bounds and keys that they have in memory."""


@dataclass(frozen=True, slots=True)
class CacheCounters:
    """Of the entries of one kind.

    Attributes
    ----------
    entries, num_bytes
        Those that there are now, and the memory that they take, as far as it is counted.
    hits, misses
        Look-ups that found an entry, and those that did not.
    evictions
        Entries that were dropped to stay within the budget.
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
    """The cache of one open table, or those of all that are open in this process.

    Attributes
    ----------
    max_bytes
        The budget of the process; see `set_cache_bytes`.
    num_bytes
        What the entries take together.
    kinds
        The counters of each kind of entries.
    """

    max_bytes: int
    num_bytes: int
    kinds: dict[str, CacheCounters]

    @property
    def total(self) -> CacheCounters:
        """The counters of all kinds together."""
        return sum(self.kinds.values(), CacheCounters())


class _Entry:
    __slots__ = ("__weakref__", "is_here", "name", "num_bytes", "used", "value")

    def __init__(self, name: _Name, value: Any, num_bytes: int, used: int) -> None:
        self.name = name
        self.value = value
        self.num_bytes = num_bytes
        self.used = used
        self.is_here = True


class _Tally:
    """Counts of one kind."""

    __slots__ = ("evictions", "hits", "misses")

    def __init__(self) -> None:
        self.hits = self.misses = self.evictions = 0


class _Size:
    """The bytes of the entries of a cache. It outlives the cache, so that they can be subtracted then."""

    __slots__ = ("num_bytes",)

    def __init__(self) -> None:
        self.num_bytes = 0


class _CacheRef(ref["TableCache"]):
    __slots__ = ("number", "size")

    number: int
    size: _Size


_now: Final = itertools.count()


class _Budget:
    """The bytes of all caches of the process.

    Its lock is taken before that of a cache, never after.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.num_bytes = 0
        self._caches: dict[int, _CacheRef] = {}
        # Filled while garbage is collected, at any moment, by a function that takes no lock.
        self._dead: deque[_CacheRef] = deque()
        self._is_inherited = False
        self._lock = new_lock()

    def add(self, cache: TableCache, num_bytes: int) -> None:
        """Count bytes that a cache has added to its size; evicts what is too much."""
        with self._lock:
            self._update()
            if cache._number is None:
                known = _CacheRef(cache, self._dead.append)
                known.number, known.size = next(_now), cache._size
                cache._number = known.number
                self._caches[known.number] = known
            self.num_bytes += num_bytes
            gone = self._evicted(self.max_bytes - self.max_bytes // _CLEARED_SHARE)
        del gone

    def resize(self, max_bytes: int) -> None:
        """Set the most bytes."""
        with self._lock:
            self.max_bytes = max_bytes
            self._update()
            gone = self._evicted(max_bytes)
        del gone

    def caches(self) -> list[TableCache]:
        """Return the caches that have or had entries."""
        with self._lock:
            self._update()
            return [cache for known in self._caches.values() if (cache := known()) is not None]

    def inherit(self) -> None:
        """Take note of a fork: a thread that is not here may have been between two steps."""
        self._is_inherited = True

    def _update(self) -> None:
        while self._dead:
            known = self._dead.popleft()
            if self._caches.pop(known.number, None) is not None:
                self.num_bytes -= known.size.num_bytes
        if self._is_inherited:
            self._is_inherited = False
            live = [cache for known in self._caches.values() if (cache := known()) is not None]
            self.num_bytes = sum(cache._recounted() for cache in live)

    def _evicted(self, target: int) -> list[Any]:
        """Return what was evicted, for the caller to drop when no lock is held."""
        gone: list[Any] = []
        if self.num_bytes <= self.max_bytes:
            return gone
        live = [cache for known in self._caches.values() if (cache := known()) is not None]
        used_at = [(cache._oldest(), number) for number, cache in enumerate(live)]
        oldest = [(used, number) for used, number in used_at if used is not None]
        heapq.heapify(oldest)
        while self.num_bytes > target and oldest:
            _, number = heapq.heappop(oldest)
            until = oldest[0][0] if oldest else None
            freed, used = live[number]._evict(self.num_bytes - target, until, gone)
            self.num_bytes -= freed
            if used is not None:
                heapq.heappush(oldest, (used, number))
        gone.append(live)
        return gone


_budget: Final = _Budget(DEFAULT_CACHE_BYTES)
after_fork_in_child(_budget.inherit)


class _Family:
    """What a cache and its parts have in common."""

    __slots__ = ("_caches", "_num_pruned", "lock", "tallies")

    def __init__(self) -> None:
        self.tallies: dict[CacheKind, _Tally] = {}
        self.lock: threading.Lock = new_lock()
        self._caches: list[ref[TableCache]] = []
        self._num_pruned = _MIN_PRUNED

    def add(self, cache: TableCache) -> None:
        with self.lock:
            self._caches.append(ref(cache))
            if len(self._caches) > self._num_pruned:
                self._caches = [known for known in self._caches if known() is not None]
                self._num_pruned = max(_MIN_PRUNED, 2 * len(self._caches))

    def caches(self) -> list[TableCache]:
        with self.lock:
            return [cache for known in self._caches if (cache := known()) is not None]

    def counters(self) -> dict[CacheKind, CacheCounters]:
        """Return what has happened to each kind, without entries and bytes."""
        with self.lock:
            return {
                kind: CacheCounters(0, 0, tally.hits, tally.misses, tally.evictions)
                for kind, tally in self.tallies.items()
            }


class TableCache:
    """The entries of one open table. Safe to share between threads."""

    def __init__(self, family: _Family | None = None, max_entries: int | None = None) -> None:
        self._entries: OrderedDict[_Name, _Entry] = OrderedDict()
        self._max_entries = max_entries
        self._size = _Size()
        self._number: int | None = None
        self._family = _Family() if family is None else family
        self._tallies, self._lock = self._family.tallies, self._family.lock
        self._family.add(self)

    def part(self, max_entries: int | None = None) -> TableCache:
        """Return a cache for what goes with one version of the table, counted with this one's entries.

        Parameters
        ----------
        max_entries
            The most entries of the part, for those that literals of statements tell apart: there is no end of
            these, and few come again.
        """
        return TableCache(self._family, max_entries)

    def entries(self, kind: CacheKind) -> Entries[Any]:
        """Return the entries of one kind."""
        return Entries(self, kind)

    def statistics(self) -> CacheStatistics:
        """Return what this cache and its parts hold."""
        kinds = _kinds([self._family], self._family.caches())
        return CacheStatistics(_budget.max_bytes, sum(each.num_bytes for each in kinds.values()), kinds)

    def _find(self, kind: CacheKind, key: Hashable) -> _Entry | None:
        name = kind, key
        with self._lock:
            entry = self._entries.get(name)
            tally = self._tallies.get(kind)
            if tally is None:
                tally = self._tallies.setdefault(kind, _Tally())
            if entry is None:
                tally.misses += 1
                return None
            tally.hits += 1
            entry.used = next(_now)
            self._entries.move_to_end(name)
            return entry

    def _put(self, kind: CacheKind, key: Hashable, value: Any, size: int | Footprint) -> Any:
        name, taken = (kind, key), ENTRY_BYTES + (size if isinstance(size, int) else size.num_bytes)
        if taken > _budget.max_bytes:
            return value
        new, old = _Entry(name, value, taken, next(_now)), None
        with self._lock:
            entry = self._entries.setdefault(name, new)
            if entry is new:
                tally = self._tallies.setdefault(kind, _Tally())
                if self._max_entries is not None and len(self._entries) > self._max_entries:
                    _, old = self._entries.popitem(last=False)
                    old.is_here = False
                    tally.evictions += 1
                added = taken - (0 if old is None else old.num_bytes)
                self._size.num_bytes += added
        if entry is new:
            if not isinstance(size, int):
                size.count_in(self, entry)
            _budget.add(self, added)
        return entry.value

    def _use(self, entry: _Entry) -> bool:
        """Count an entry as used; returns whether it is still here."""
        now = next(_now)
        if now - entry.used < _RECENT:
            return entry.is_here
        with self._lock:
            if not entry.is_here:
                return False
            entry.used = now
            self._entries.move_to_end(entry.name)
            return True

    def _grow(self, name: _Name, num_bytes: int, entry: _Entry | None = None) -> None:
        with self._lock:
            known = self._entries.get(name)
            if known is None or (entry is not None and known is not entry):
                return
            known.num_bytes += num_bytes
            self._size.num_bytes += num_bytes
        _budget.add(self, num_bytes)

    def _drop(self, name: _Name) -> None:
        with self._lock:
            entry = self._entries.pop(name, None)
            if entry is None:
                return
            entry.is_here = False
            self._size.num_bytes -= entry.num_bytes
        _budget.add(self, -entry.num_bytes)

    def _sizes(self) -> dict[CacheKind, tuple[int, int]]:
        """Return the number of entries of each kind, and their bytes."""
        found: dict[CacheKind, tuple[int, int]] = {}
        with self._lock:
            for (kind, _), entry in self._entries.items():
                entries, num_bytes = found.get(kind, (0, 0))
                found[kind] = entries + 1, num_bytes + entry.num_bytes
        return found

    # -- called by the budget, which holds its lock ---------------------------------------------------------

    def _oldest(self) -> int | None:
        """Return when the entry was used that was not used for longest."""
        with self._lock:
            entry = next(iter(self._entries.values()), None)
            return None if entry is None else entry.used

    def _evict(self, num_bytes: int, until: int | None, gone: list[Any]) -> tuple[int, int | None]:
        """Drop the oldest entries, until so many bytes are free or one was used later than ``until``.

        Returns the bytes that are free, and when the oldest entry was used that is left.
        """
        freed = 0
        with self._lock:
            while self._entries:
                name, entry = next(iter(self._entries.items()))
                if freed >= num_bytes or (until is not None and entry.used > until):
                    self._size.num_bytes -= freed
                    return freed, entry.used
                del self._entries[name]
                entry.is_here = False
                self._tallies[name[0]].evictions += 1
                freed += entry.num_bytes
                gone.append(entry)
            self._size.num_bytes -= freed
        return freed, None

    def _recounted(self) -> int:
        with self._lock:
            self._size.num_bytes = sum(entry.num_bytes for entry in self._entries.values())
            return self._size.num_bytes


PROCESS: Final = TableCache()
"""What is kept of tables and namespaces beyond the objects that are open, for whoever opens them again."""


class Entries(Generic[V]):
    """The entries of one kind of a cache."""

    __slots__ = ("_cache", "_kind")

    def __init__(self, cache: TableCache, kind: CacheKind) -> None:
        self._cache = cache
        self._kind = kind

    def find(self, key: Hashable) -> V | None:
        """Return the value for ``key`` if it is here."""
        entry = self._cache._find(self._kind, key)
        return None if entry is None else entry.value

    def get(self, key: Hashable, make: Callable[[], V], size_of: Callable[[V], int | Footprint] | int) -> V:
        """Return the value for ``key``, made by ``make`` when it is not here.

        Two threads that miss the same key at once may both make it; one value is kept. What ``make`` raises
        is raised, and nothing is kept.

        Parameters
        ----------
        size_of
            The bytes that a value takes, or a function that returns them; or one that returns the `Footprint`
            of the value, with which the entry then grows.
        """
        entry = self._cache._find(self._kind, key)
        if entry is not None:
            return entry.value
        value = make()
        return self.put(key, value, size_of(value) if callable(size_of) else size_of)

    def put(self, key: Hashable, value: V, size: int | Footprint) -> V:
        """Return the value that is kept for ``key``: this one, unless there is one already."""
        return self._cache._put(self._kind, key, value, size)

    def replace(self, key: Hashable, value: V, size: int | Footprint) -> None:
        """Keep a value for ``key`` instead of any other."""
        self._cache._drop((self._kind, key))
        self._cache._put(self._kind, key, value, size)

    def grow(self, key: Hashable, num_bytes: int) -> None:
        """Count more bytes of the value for ``key``, if it is here."""
        self._cache._grow((self._kind, key), num_bytes)

    def drop(self, key: Hashable) -> None:
        """Forget the value for ``key``."""
        self._cache._drop((self._kind, key))


class Footprint:
    """Counts the memory of an object that takes more the longer it is used, such as an open file.

    Attributes
    ----------
    num_bytes
        Its bytes, estimated.
    """

    __slots__ = ("_cache", "_entry", "num_bytes")

    def __init__(self, num_bytes: int = 0) -> None:
        self.num_bytes = num_bytes
        self._cache: ref[TableCache] | None = None
        self._entry: ref[_Entry] | None = None

    def add(self, num_bytes: int) -> None:
        """Count more bytes."""
        self.num_bytes += num_bytes
        cache, entry = self._owners()
        if cache is not None and entry is not None:
            cache._grow(entry.name, num_bytes, entry)

    def use(self) -> bool:
        """Count the entry of the object as used; returns whether it has one still.

        Whoever keeps the object for later asks, so that it is counted as long as it is kept.
        """
        cache, entry = self._owners()
        return cache is not None and entry is not None and cache._use(entry)

    def count_in(self, cache: TableCache, entry: _Entry) -> None:
        """Have an entry grow from now on as this grows."""
        self._cache, self._entry = ref(cache), ref(entry)

    def _owners(self) -> tuple[TableCache | None, _Entry | None]:
        cache, entry = self._cache, self._entry
        return (None if cache is None else cache()), (None if entry is None else entry())


def set_cache_bytes(max_bytes: int) -> None:
    """Set how much memory the caches of all open tables of this process may take together.

    When they take more, entries go that were used least recently; with 0 nothing is kept. The default is
    512 MiB. Bytes are estimates, and values that a running scan uses are freed when it ends.

    Raises
    ------
    InvalidInputError
        It is no number of bytes.
    """
    try:
        number = index(max_bytes)
    except TypeError:
        number = -1
    if number < 0 or isinstance(max_bytes, bool):
        raise InvalidInputError(f"a cache takes a number of bytes from 0, not {max_bytes!r}")
    _budget.resize(number)


def cache_statistics() -> CacheStatistics:
    """Return what the caches of all open tables of this process hold."""
    caches = _budget.caches()
    kinds = _kinds({id(cache._family): cache._family for cache in caches}.values(), caches)
    return CacheStatistics(_budget.max_bytes, _budget.num_bytes, kinds)


def _kinds(families: Iterable[_Family], caches: Iterable[TableCache]) -> dict[str, CacheCounters]:
    kinds: dict[CacheKind, CacheCounters] = {}
    for family in families:
        for kind, counters in family.counters().items():
            kinds[kind] = kinds.get(kind, CacheCounters()) + counters
    for cache in caches:
        for kind, (entries, num_bytes) in cache._sizes().items():
            kinds[kind] = kinds.get(kind, CacheCounters()) + CacheCounters(entries, num_bytes)
    return {str(kind): kinds[kind] for kind in sorted(kinds)}
