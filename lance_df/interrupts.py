"""Ctrl-C while something is written: what has to be finished is finished, and what need not be is not begun.

Python raises `KeyboardInterrupt` in the main thread, between any two instructions, and again each time the
user presses Ctrl-C. Other threads are not interrupted: they ask whether they are to stop.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Final

from lance_df.exits import is_main

_PATIENCE_SECONDS: Final = 5.0
_stopped = threading.local()


class WorkStoppedError(BaseException):
    """The thread works for one that was interrupted, and nobody waits for its result.

    Like `KeyboardInterrupt` it is no `Exception`: nobody tries again.
    """


def undisturbed(work: Callable[[], object]) -> None:
    """Do something to its end, however often the user presses Ctrl-C meanwhile.

    Such an interrupt is raised when the work is done, or has taken some seconds since.
    """
    if not is_main():
        work()
        return
    thread = threading.Thread(target=work, name="lance-df-undisturbed")
    try:
        thread.start()
    except RuntimeError:  # the interpreter is going down
        work()
        return
    try:
        thread.join()
    except BaseException:
        _wait(thread, until=time.monotonic() + _PATIENCE_SECONDS)
        raise


def _wait(thread: threading.Thread, *, until: float) -> None:
    while thread.is_alive() and (left := until - time.monotonic()) > 0:
        try:
            thread.join(left)
        except KeyboardInterrupt:
            continue


@contextmanager
def workers(num_threads: int, name: str = "lance-df-work") -> Iterator[ThreadPoolExecutor]:
    """Make threads that write, and are done when the context has ended, also by an interrupt.

    Then what has not begun is left, and what has begun ends where it calls `check_stopped`.
    """
    event = threading.Event()
    outer: tuple[threading.Event, ...] = getattr(_stopped, "events", ())
    pool = ThreadPoolExecutor(num_threads, name, partial(_begin, (*outer, event)))
    try:
        yield pool
        pool.shutdown()
    except BaseException:
        event.set()
        undisturbed(partial(pool.shutdown, cancel_futures=True))
        raise


def check_stopped() -> None:
    """End what a thread of `workers` does if nobody waits for it any more.

    Raises
    ------
    WorkStoppedError
        It is so.
    """
    for event in getattr(_stopped, "events", ()):
        if event.is_set():
            raise WorkStoppedError


def _begin(events: tuple[threading.Event, ...]) -> None:
    _stopped.events = events
