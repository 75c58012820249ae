"""A bounded cache for what is expensive to open and shared by threads."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Generic, TypeVar

from lance_df.forks import new_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

V = TypeVar("V")


class LruCache(Generic[V]):
    """Keeps the most recently used values.

    Two threads that miss the same key at once may both make it; one value is kept.

    Parameters
    ----------
    capacity
        Values to keep; or what their weights, where they are given, may add up to. A function is called each
        time a value is added.
    """

    def __init__(self, capacity: int | Callable[[], int]) -> None:
        self._capacity = capacity if callable(capacity) else lambda: capacity
        self._values: OrderedDict[Hashable, tuple[V, int]] = OrderedDict()
        self._weight = 0
        self._lock = new_lock()

    def get(self, key: Hashable, make: Callable[[], V], *, weight: int = 1) -> V:
        """Return the value for ``key``, made by ``make`` when it is not here; errors are not kept."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key][0]
        return self.keep(key, make(), weight=weight)

    def find(self, key: Hashable) -> V | None:
        """Return the value for ``key`` if it is here."""
        with self._lock:
            if key not in self._values:
                return None
            self._values.move_to_end(key)
            return self._values[key][0]

    def keep(self, key: Hashable, value: V, *, weight: int = 1) -> V:
        """Return the value that is kept for ``key``: this one, unless there is one already."""
        with self._lock:
            if key not in self._values:
                self._values[key] = value, weight
                self._weight += weight
            value = self._values[key][0]
            self._values.move_to_end(key)
            most = self._capacity()
            while self._weight > most and self._values:
                self._weight -= self._values.popitem(last=False)[1][1]
        return value

    def __len__(self) -> int:
        return len(self._values)
