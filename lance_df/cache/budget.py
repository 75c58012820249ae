"""The memory budget of all caches of a process, and the eviction of entries when they exceed it."""

from __future__ import annotations

import heapq
import itertools
from typing import Any, Final, Generic, Protocol, TypeVar
from weakref import ref

from lance_df.forks import new_lock

# A full budget is cleared by this share at once, as finding the oldest entry of many tables is slow.
_CLEARED_SHARE: Final = 16
_MIN_PRUNED: Final = 64

CLOCK: Final = itertools.count()
"""Counts look-ups; an entry that was used later has a higher number."""


class Evictable(Protocol):
    """A cache that a budget can evict from. The calling thread holds the lock of the budget."""

    def num_bytes(self) -> int:
        """Return the total size of the entries, counted again."""

    def oldest(self) -> int | None:
        """Return the last use of the least recently used entry."""

    def evict(self, num_bytes: int, until: int | None, evicted: list[Any]) -> tuple[int, int | None]:
        """Drop the oldest entries until ``num_bytes`` are freed or the next one was used after ``until``.

        Returns the freed bytes, and the last use of the oldest remaining entry. Dropped entries are added to
        ``evicted``.
        """


C = TypeVar("C", bound=Evictable)


class Owner(Protocol[C]):
    """An owner of caches."""

    def caches(self) -> list[C]:
        """Return the caches that are alive."""


class Budget(Generic[C]):
    """The memory budget of all caches of the process.

    Between evictions, the bytes are a running sum, which may be off after an interruption, a fork or the
    garbage collection of a cache. They are counted again before anything is evicted. The lock of the budget
    is taken before that of a cache, never after.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._num_bytes = 0
        # Without callbacks, because an interruption during a callback is lost.
        self._owners: list[ref[Owner[C]]] = []
        self._num_pruned = _MIN_PRUNED
        self._lock = new_lock()

    def register(self, owner: Owner[C]) -> None:
        """Count the caches of ``owner`` for as long as it is alive."""
        with self._lock:
            self._owners.append(ref(owner))
            if len(self._owners) > self._num_pruned:
                self._owners = [known for known in self._owners if known() is not None]
                self._num_pruned = max(_MIN_PRUNED, 2 * len(self._owners))

    def add(self, num_bytes: int) -> None:
        """Count bytes that a cache uses, or frees if negative; evict entries if the budget is exceeded."""
        evicted: list[Any] = []
        with self._lock:
            self._num_bytes += num_bytes
            if self._num_bytes > self.max_bytes:
                self._evict(self.max_bytes - self.max_bytes // _CLEARED_SHARE, evicted)

    def resize(self, max_bytes: int) -> None:
        """Set the budget in bytes."""
        evicted: list[Any] = []
        with self._lock:
            self.max_bytes = max_bytes
            self._evict(max_bytes, evicted)

    def caches(self) -> list[C]:
        """Return the caches that are alive."""
        with self._lock:
            owners = [owner for known in self._owners if (owner := known()) is not None]
        return [cache for owner in owners for cache in owner.caches()]

    def _evict(self, target: int, evicted: list[Any]) -> None:
        """Evict entries if the budget is exceeded; the caller frees them when no lock is held."""
        owners = [owner for known in self._owners if (owner := known()) is not None]
        live = [cache for owner in owners for cache in owner.caches()]
        evicted += [owners, live]
        self._num_bytes = sum(cache.num_bytes() for cache in live)
        if self._num_bytes <= self.max_bytes:
            return
        used_at = [(cache.oldest(), number) for number, cache in enumerate(live)]
        oldest = [(used, number) for used, number in used_at if used is not None]
        heapq.heapify(oldest)
        while self._num_bytes > target and oldest:
            _, number = heapq.heappop(oldest)
            until = oldest[0][0] if oldest else None
            freed, used = live[number].evict(self._num_bytes - target, until, evicted)
            self._num_bytes -= freed
            if used is not None:
                heapq.heappush(oldest, (used, number))
