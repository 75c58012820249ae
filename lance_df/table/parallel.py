"""Many small reads at once: a store answers slowly, but many requests as fast as one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lance_df.storage import Location

T = TypeVar("T")
R = TypeVar("R")

# of which each mostly waits; what they read is small
_NUM_THREADS = 64


def map_reads(function: Callable[[T], R], items: Iterable[T], *, where: Location) -> list[R]:
    """Return the results of a function that reads small files; in threads unless ``where`` is local."""
    if where.is_local:
        return [function(item) for item in items]
    listed = list(items)
    if len(listed) < 2:
        return [function(item) for item in listed]
    with ThreadPoolExecutor(min(_NUM_THREADS, len(listed))) as pool:
        return list(pool.map(function, listed))
