"""The cache of one open table."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar
from weakref import ref

from lance_df.cache.budget import CLOCK, Budget
from lance_df.cache.statistics import CacheCounters, CacheKind, CacheStatistics
from lance_df.forks import new_lock

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Hashable, Iterable

V = TypeVar("V")

_Name: TypeAlias = "tuple[CacheKind, Hashable]"

DEFAULT_CACHE_BYTES: Final = 512 * 1024 * 1024
# The memory of an entry besides its value: its key, its dictionary slot and its counters.
ENTRY_BYTES: Final = 512
_MIN_PRUNED: Final = 64
# An entry that was used at most this many look-ups ago is not moved to the end again.
_RECENT: Final = 32


class _Entry:
    __slots__ = ("__weakref__", "is_here", "name", "num_bytes", "used", "value")

    def __init__(self, name: _Name, value: Any, num_bytes: int, used: int) -> None:
        self.name = name
        self.value = value
        self.num_bytes = num_bytes
        self.used = used
        self.is_here = True


class _Tally:
    """Counters of one kind."""

    __slots__ = ("evictions", "hits", "misses")

    def __init__(self) -> None:
        self.hits = self.misses = self.evictions = 0


class _Family:
    """The state that a cache and its parts share."""

    __slots__ = ("__weakref__", "_caches", "_num_pruned", "lock", "tallies")

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

    def tally(self, kind: CacheKind) -> _Tally:
        """Return the counters of one kind; the caller holds the lock."""
        tally = self.tallies.get(kind)
        return self.tallies.setdefault(kind, _Tally()) if tally is None else tally

    def counters(self) -> dict[CacheKind, CacheCounters]:
        """Return the hits, misses and evictions of each kind."""
        with self.lock:
            return {
                kind: CacheCounters(0, 0, tally.hits, tally.misses, tally.evictions)
                for kind, tally in self.tallies.items()
            }


BUDGET: Final[Budget[TableCache]] = Budget(DEFAULT_CACHE_BYTES)
"""The budget of all tables of the process."""


class TableCache:
    """The entries of one open table. Safe to share between threads, and safe under interruptions."""

    def __init__(self, family: _Family | None = None, max_entries: int | None = None) -> None:
        self._entries: OrderedDict[_Name, _Entry] = OrderedDict()
        self._max_entries = max_entries
        self._family = _Family() if family is None else family
        self._tallies, self._lock = self._family.tallies, self._family.lock
        self._family.add(self)
        if family is None:
            BUDGET.register(self._family)

    def part(self, max_entries: int | None = None) -> TableCache:
        """Return a cache for entries of one version of the table, counted with those of this cache.

        Parameters
        ----------
        max_entries
            The most entries of the part. For entries that depend on literals of statements, which are
            unlimited in number and rarely repeated.
        """
        return TableCache(self._family, max_entries)

    def entries(self, kind: CacheKind) -> Entries[Any]:
        """Return the entries of one kind."""
        return Entries(self, kind)

    def statistics(self) -> CacheStatistics:
        """Return the statistics of this cache and its parts."""
        return statistics_of(self._family.caches())

    def clear(self) -> None:
        """Drop all entries of this cache, of the cache it is a part of, and of all other parts."""
        freed = 0
        dropped: list[_Entry] = []  # freed when no lock is held
        for cache in self._family.caches():
            with cache._lock:
                for name, entry in list(cache._entries.items()):
                    cache._remove(name, entry)
                    freed += entry.num_bytes
                    dropped.append(entry)
        BUDGET.add(-freed)

    def num_bytes(self) -> int:
        """Return the total size of the entries."""
        with self._lock:
            return sum(entry.num_bytes for entry in self._entries.values())

    def oldest(self) -> int | None:
        """Return the last use of the least recently used entry."""
        with self._lock:
            entry = next(iter(self._entries.values()), None)
            return None if entry is None else entry.used

    def evict(self, num_bytes: int, until: int | None, evicted: list[Any]) -> tuple[int, int | None]:
        """Drop the oldest entries; see `lance_df.cache.budget.Evictable.evict`."""
        freed = 0
        with self._lock:
            while self._entries:
                name, entry = next(iter(self._entries.items()))
                if freed >= num_bytes or (until is not None and entry.used > until):
                    return freed, entry.used
                self._remove(name, entry)
                self._family.tally(name[0]).evictions += 1
                freed += entry.num_bytes
                evicted.append(entry)
        return freed, None

    def _find(self, kind: CacheKind, key: Hashable) -> _Entry | None:
        name = kind, key
        with self._lock:
            entry = self._entries.get(name)
            tally = self._tallies.get(kind) or self._family.tally(kind)
            if entry is None:
                tally.misses += 1
                return None
            tally.hits += 1
            entry.used = next(CLOCK)
            self._entries.move_to_end(name)
            return entry

    def _put(self, kind: CacheKind, key: Hashable, value: Any, size: int | Footprint) -> Any:
        name, taken = (kind, key), ENTRY_BYTES + (size if isinstance(size, int) else size.num_bytes)
        if taken > BUDGET.max_bytes:
            return value
        new = _Entry(name, value, taken, next(CLOCK))
        with self._lock:
            entry = self._entries.setdefault(name, new)
            if entry is not new:
                return entry.value
            old = None
            if self._max_entries is not None and len(self._entries) > self._max_entries:
                old_name, old = next(iter(self._entries.items()))
                self._remove(old_name, old)
                self._family.tally(kind).evictions += 1
                taken -= old.num_bytes
        if not isinstance(size, int):
            size.count_in(self, entry)
        BUDGET.add(taken)
        return value

    def _use(self, entry: _Entry) -> bool:
        """Mark an entry as used; return whether it is still cached."""
        now = next(CLOCK)
        if now - entry.used < _RECENT:
            return entry.is_here
        with self._lock:
            if not entry.is_here:
                return False
            entry.used = now
            self._entries.move_to_end(entry.name)
            return True

    def _grow(self, entry: _Entry, num_bytes: int) -> None:
        with self._lock:
            if not entry.is_here:
                return
            entry.num_bytes += num_bytes
        BUDGET.add(num_bytes)

    def _grow_at(self, name: _Name, num_bytes: int) -> None:
        with self._lock:
            entry = self._entries.get(name)
        if entry is not None:
            self._grow(entry, num_bytes)

    def _drop(self, name: _Name) -> None:
        with self._lock:
            entry = self._entries.get(name)
            if entry is None:
                return
            self._remove(name, entry)
        BUDGET.add(-entry.num_bytes)

    def _remove(self, name: _Name, entry: _Entry) -> None:
        """Remove an entry; the caller holds the lock."""
        # In this order, because an interruption may come in between: an entry marked as cached must be
        # cached.
        entry.is_here = False
        del self._entries[name]

    def _sizes(self) -> dict[CacheKind, tuple[int, int]]:
        """Return the number of entries of each kind, and their size."""
        sizes: dict[CacheKind, tuple[int, int]] = {}
        with self._lock:
            for (kind, _), entry in self._entries.items():
                entries, num_bytes = sizes.get(kind, (0, 0))
                sizes[kind] = entries + 1, num_bytes + entry.num_bytes
        return sizes


def statistics_of(caches: Iterable[TableCache]) -> CacheStatistics:
    """Return the statistics of some caches and their parts."""
    caches = list(caches)
    kinds: dict[CacheKind, CacheCounters] = {}
    for family in {id(cache._family): cache._family for cache in caches}.values():
        for kind, counters in family.counters().items():
            kinds[kind] = kinds.get(kind, CacheCounters()) + counters
    for cache in caches:
        for kind, (entries, num_bytes) in cache._sizes().items():
            kinds[kind] = kinds.get(kind, CacheCounters()) + CacheCounters(entries, num_bytes)
    total = sum(each.num_bytes for each in kinds.values())
    return CacheStatistics(BUDGET.max_bytes, total, {str(kind): kinds[kind] for kind in sorted(kinds)})


class Entries(Generic[V]):
    """The entries of one kind of a cache."""

    __slots__ = ("_cache", "_kind")

    def __init__(self, cache: TableCache, kind: CacheKind) -> None:
        self._cache = cache
        self._kind = kind

    def find(self, key: Hashable) -> V | None:
        """Return the value for ``key`` if it is cached, otherwise None."""
        entry = self._cache._find(self._kind, key)
        return None if entry is None else entry.value

    def get(self, key: Hashable, make: Callable[[], V], size_of: Callable[[V], int | Footprint] | int) -> V:
        """Return the value for ``key``; call ``make`` if it is not cached.

        Two threads that miss the same key at once may both call ``make``; one value is cached. If ``make``
        raises an error, nothing is cached.

        Parameters
        ----------
        size_of
            The size of a value, or a function that returns it; or a function that returns the `Footprint` of
            the value, with which the entry grows.
        """
        entry = self._cache._find(self._kind, key)
        if entry is not None:
            return entry.value
        value = make()
        return self.put(key, value, size_of(value) if callable(size_of) else size_of)

    def put(self, key: Hashable, value: V, size: int | Footprint) -> V:
        """Cache a value for ``key`` unless there is one, and return the cached value."""
        return self._cache._put(self._kind, key, value, size)

    def replace(self, key: Hashable, value: V, size: int | Footprint) -> None:
        """Cache a value for ``key``, replacing any other."""
        self._cache._drop((self._kind, key))
        self._cache._put(self._kind, key, value, size)

    def grow(self, key: Hashable, num_bytes: int) -> None:
        """Count more bytes for the value of ``key``, if it is cached."""
        self._cache._grow_at((self._kind, key), num_bytes)

    def drop(self, key: Hashable) -> None:
        """Drop the value for ``key``."""
        self._cache._drop((self._kind, key))


class Footprint:
    """Counts the memory of an object that grows with use, such as an open file.

    Attributes
    ----------
    num_bytes
        The estimated memory of the object.
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
            cache._grow(entry, num_bytes)

    def use(self) -> bool:
        """Mark the entry of the object as used; return whether it still has one.

        Call this before keeping the object for later, so that it is counted for as long as it is kept.
        """
        cache, entry = self._owners()
        return cache is not None and entry is not None and cache._use(entry)

    def count_in(self, cache: TableCache, entry: _Entry) -> None:
        """Make an entry grow together with this footprint from now on."""
        self._cache, self._entry = ref(cache), ref(entry)

    def _owners(self) -> tuple[TableCache | None, _Entry | None]:
        cache, entry = self._cache, self._entry
        return (None if cache is None else cache()), (None if entry is None else entry())
