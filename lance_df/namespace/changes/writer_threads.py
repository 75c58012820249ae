"""Threads that write files while the calling thread continues."""

from __future__ import annotations

from collections import deque
from contextvars import copy_context
from typing import TYPE_CHECKING, Self, TypeVar

from lance_df.file.v2.writer import num_threads
from lance_df.interrupts import workers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Future
    from types import TracebackType

T = TypeVar("T")
R = TypeVar("R")


class WriterThreads:
    """As many threads as processors; a context manager that waits for all running work at its end.

    If it ends with an error, work that has not begun is dropped.
    """

    def __init__(self) -> None:
        self._workers = workers(num_threads(), "lance-df-write")
        self._running: deque[Future[None]] = deque()

    def __enter__(self) -> Self:
        self._pool = self._workers.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._workers.__exit__(kind, error, trace)

    def run(self, work: Callable[[], None]) -> None:
        """Run work in a free thread with this thread's context variables, which may name files for a job."""
        self._running.append(self._pool.submit(copy_context().run, work))

    def map(self, function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """Yield the results of a function for all items, in order; only a few items run at a time."""
        waiting: deque[Future[R]] = deque()
        for item in items:
            waiting.append(self._pool.submit(function, item))
            if len(waiting) > num_threads():
                yield waiting.popleft().result()
        for each in waiting:
            yield each.result()

    def wait(self, *, but: int = 0) -> None:
        """Wait for all running work except the last ``but`` items; raises the errors of that work."""
        while len(self._running) > but:
            self._running.popleft().result()
