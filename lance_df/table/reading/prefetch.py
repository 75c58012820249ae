"""Compute results ahead of the consumer, in order and with a limit: the next ones while one is in use."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from lance_df.forks import Origin
from lance_df.interrupts import generator_workers

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

T = TypeVar("T")
R = TypeVar("R")

_END = object()


def map_ahead(function: Callable[[T], R], items: Iterable[T], *, ahead: int) -> Generator[R]:
    """Yield the result for each item, in order, while up to ``ahead`` more are being computed.

    With 0, nothing runs in other threads. Closing the generator waits for running calls and drops the rest.
    """
    if ahead <= 0:
        yield from map(function, items)
        return
    pending: deque[Future[R]] = deque()
    origin = Origin()
    pool = ThreadPoolExecutor(ahead, thread_name_prefix="lance_df-read")
    try:
        for item in items:
            pending.append(pool.submit(function, item))
            if len(pending) > ahead:
                yield pending.popleft().result()
                origin.check()
        while pending:
            yield pending.popleft().result()
            origin.check()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def iterate_ahead(items: Iterable[T]) -> Generator[T]:
    """Yield the items of an iterable; while one is in use, another thread computes the next one.

    Closing the generator waits for the item being computed, unless it can be stopped, and drops it.
    """
    iterator = iter(items)
    origin = Origin()
    with generator_workers(1, "lance-df-ahead") as pool:
        coming = pool.submit(next, iterator, _END)
        while (item := coming.result()) is not _END:
            coming = pool.submit(next, iterator, _END)
            yield item  # type: ignore[misc] # it is not the end
            origin.check()
