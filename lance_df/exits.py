"""Let no thread be in native code that comes back to Python when the interpreter goes down.

A daemon thread, or one of DataFusion's, that wants to run Python code while the interpreter ends is ended by
CPython in the middle of whatever called it. Rust and C++ abort the process then. So threads say when they are
`busy` with such code, what native code takes one by one is `stoppable`, and the exit waits for both. From
then on a thread that comes by stays where it is, for ever. One of DataFusion's gets an error, as somebody may
wait for it; so does one that is busy, and stays when it is no longer. Where threads compute on in native code
the process ends with the interpreter, before any of them comes back.
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
# After a call has returned, a thread of DataFusion releases what it held, without a notification. Until it
# has, it is awake, or waits for the GIL, which it gets while the exit sleeps.
_SETTLE_SECONDS: Final = 0.05
_SAMPLE_SECONDS: Final = 0.002
_SAMPLES: Final = 3
_THREADS: Final = Path("/proc/self/task")
_RECENT_SECONDS: Final = 0.5

_Item = TypeVar("_Item")

_lock: Final = new_lock()
_busy: Final[Counter[int]] = Counter()
_parked: Final[set[int]] = set()
# when native code was given an item, by generator, while it has it
_given: Final[dict[object, float]] = {}
_last_end = float("-inf")
_closing = False


@contextmanager
def busy() -> Iterator[None]:
    """Mark what calls native code that may call Python, or is called by it.

    Raises
    ------
    LanceError
        The interpreter is going down.
    """
    global _last_end  # noqa: PLW0603 - one for the process
    if is_main():  # it runs the exit itself
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
    """Yield items to native code, such as a reader of Arrow's.

    Raises
    ------
    LanceError
        The interpreter is going down.
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
    """Go no further when the interpreter is going down; see `busy`.

    Raises
    ------
    LanceError
        It is, and somebody may wait for this thread, or for a lock that it holds.
    """
    if not _closing:
        return
    if is_main() or _is_foreign() or threading.get_ident() in _busy:
        raise LanceError("the interpreter is going down: nothing is read any more")
    _park()


def is_main() -> bool:
    """Whether this is the main thread. (To ask for the current thread makes an object for one of others.)"""
    return threading.get_ident() == threading.main_thread().ident


def at_exit(function: Callable[[], None]) -> None:
    """Call a function at the exit, before threads are waited for: it ends what they do."""
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
    """Whether another thread runs, or waits for a processor or a disk; true where that is not known."""
    this = str(threading.get_native_id())
    try:
        texts = [(each / "stat").read_bytes() for each in _THREADS.iterdir() if each.name != this]
    except OSError:  # not Linux, or a thread that just ended
        return True
    # the state follows the name, which is in parentheses and may have some (proc_pid_stat(5))
    return any(text.rpartition(b") ")[2][:1] != b"S" for text in texts)


def _leave_out_native_handlers() -> None:
    """End the process as soon as the interpreter has gone down.

    A thread that computes for a statement that was abandoned calls Python when it is done. It crashes where
    the interpreter is gone, while native libraries still run what they do at an exit.
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
