"""Call a function for many tables concurrently: in threads here, or in the tasks of another engine."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

T = TypeVar("T")
R = TypeVar("R")

_NUM_THREADS: Final = 8


class Spread(Protocol):
    """Returns the result of a function for each item. Function, items and results can be pickled."""

    def __call__(self, function: Callable[[T], R], items: Sequence[T], /) -> list[R]: ...


def in_threads(function: Callable[[T], R], items: Sequence[T], /) -> list[R]:
    """Return the result of a function for each item, computed in threads."""
    with ThreadPoolExecutor(_NUM_THREADS) as pool:
        return list(pool.map(function, items))
