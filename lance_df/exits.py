"""Wait at exit for threads in native code that may return to Python, so that the process does not crash.

CPython ends a daemon thread, or one of DataFusion's, that wants to run Python code during the shutdown of the
interpreter, in the middle of its callers; Rust and C++ then abort the process. Therefore threads mark such
native code as `busy`, generators that native code consumes are `stoppable`, and the exit waits for both. From
then on, a Python thread that gets here blocks for ever. A DataFusion thread gets an error instead, since
something may wait for it; so does a thread that is busy, which blocks once it is no longer busy. If threads
still compute in native code, the process ends together with the interpreter, before any of them can return.
"""

from __future__ import annotations

import atexit
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final, NoReturn, TypeVar

from lance_df.errors import LanceError
from lance_df.forks import after_fork_in_child, new_lock

_WAIT_SECONDS: Final = 10.0
_POLL_SECONDS: Final = 0.005
# After a call has returned, a DataFusion thread releases what it held, without a notification. Until then it
# is awake, or waits for the GIL, which it gets while the exit sleeps.
_SETTLE_SECONDS: Final = 0.05
_SAMPLE_SECONDS: Final = 0.002
_SAMPLES: Final = 3
_THREADS: Final = Path("/proc/self/task")
_RECENT_SECONDS: Final = 0.5

_Item = TypeVar("_Item")

_lock: Final = new_lock()
_busy: Final[Counter[int]] = Counter()
_parked: Final[set[int]] = set()
# for each generator whose item native code holds: when it was handed over
_given: Final[dict[object, float]] = {}
_last_end = float("-inf")
_closing = False


@contextmanager
def busy() -> Iterator[None]:
    """Mark code that calls native code that may call Python, or that native code calls.

    Raises
    ------
    LanceError
        The interpreter is shutting down.
    """
    global _last_end  # noqa: PLW0603 - one for the process
    if is_main():  # the main thread runs the exit itself
        check_exit()
        yield
        return
    ident = threading.get_ident()
    check_exit()
    with _lock:
        _busy[ident] += 1
    try:
        yield
    finally:
        with _lock:
            _last_end = time.monotonic()
            _busy[ident] -= 1
            if is_outermost := not _busy[ident]:
                del _busy[ident]
        if is_outermost and _closing and not _is_foreign():
            _park()


def stoppable(items: Generator[_Item]) -> Generator[_Item]:
    """Yield items to native code, for example a reader of Arrow.

    Raises
    ------
    LanceError
        The interpreter is shutting down.
    """
    with closing(items):
        while True:
            with busy():
                try:
                    item = next(items)
                except StopIteration:
                    return
            key = object()
            if not is_main():
                _given[key] = time.monotonic()
            try:
                yield item
            finally:
                _given.pop(key, None)


def check_exit() -> None:
    """Stop here if the interpreter is shutting down; see `busy`.

    Raises
    ------
    LanceError
        It is shutting down, and something may wait for this thread, or for a lock that it holds.
    """
    if not _closing:
        return
    if is_main() or _is_foreign() or threading.get_ident() in _busy:
        raise LanceError("the interpreter is shutting down; no more data is read")
    _park()


def is_main() -> bool:
    """Whether this is the main thread. (`current_thread` would make an object for a foreign thread.)"""
    return threading.get_ident() == threading.main_thread().ident


def at_exit(function: Callable[[], None]) -> None:
    """Call a function at exit, before waiting for threads; it should end their work."""
    _functions.append(function)


_functions: Final[list[Callable[[], None]]] = []


def _is_foreign() -> bool:
    """Whether this is a thread that Python did not start."""
    return isinstance(threading.current_thread(), threading._DummyThread)


def _park() -> NoReturn:
    with _lock:
        _parked.add(threading.get_ident())
    for_ever = threading.Lock()
    while True:
        for_ever.acquire()


@atexit.register
def _wait() -> None:
    former = signal.getsignal(signal.SIGINT)
    if not (is_main() and callable(former)):
        _end()
        return
    # an interrupt would end the wait, not the threads
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        _end()
    finally:
        signal.signal(signal.SIGINT, former)


def _end() -> None:
    global _closing  # noqa: PLW0603
    _closing = True
    for function in _functions:
        function()
    begin = time.monotonic()
    while time.monotonic() < begin + _WAIT_SECONDS and not _is_quiet():
        time.sleep(_POLL_SECONDS)
    if time.monotonic() - _last_end < _RECENT_SECONDS:
        _settle()
    if _others_are_awake():
        _leave_out_native_handlers()


def _settle() -> None:
    end = time.monotonic() + _SETTLE_SECONDS
    samples = 0
    while samples < _SAMPLES and time.monotonic() < end:
        time.sleep(_SAMPLE_SECONDS)
        samples = 0 if _others_are_awake() else samples + 1


def _others_are_awake() -> bool:
    """Whether another thread runs or waits for a processor or a disk; true if this is unknown."""
    this = str(threading.get_native_id())
    try:
        texts = [(each / "stat").read_bytes() for each in _THREADS.iterdir() if each.name != this]
    except OSError:  # not Linux, or a thread that just ended
        return True
    # the state follows the name in parentheses, which may contain parentheses (proc_pid_stat(5))
    return any(text.rpartition(b") ")[2][:1] != b"S" for text in texts)


def _leave_out_native_handlers() -> None:
    """End the process as soon as the interpreter has shut down.

    A thread that computes for an abandoned statement calls Python when it is done. It would crash after the
    interpreter is gone, while native libraries still run their exit handlers.
    """
    if sys.platform != "linux":
        return
    import ctypes

    library = ctypes.CDLL(None)
    if hasattr(library, "on_exit"):  # glibc's; it passes the exit code on
        library.fflush(None)
        library.on_exit(library._exit, None)


def _is_quiet() -> bool:
    recently = time.monotonic() - _RECENT_SECONDS
    if any(moment > recently for moment in list(_given.values())):
        return False
    with _lock:
        return _busy.keys() <= _parked


def _forget_threads() -> None:
    _busy.clear()
    _parked.clear()
    _given.clear()


after_fork_in_child(_forget_threads)
