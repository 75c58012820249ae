"""Ctrl-C while something is written: what has to be finished is finished, and what need not be is not begun.

Python raises `KeyboardInterrupt` in the main thread, between any two instructions, and again each time the
user presses Ctrl-C. Other threads are not interrupted: they ask whether they are to stop.

While a write, a call of DataFusion or a command of the shell is under way the handler of SIGINT is `_handle`,
which calls the one that was there, or puts that off.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from _thread import interrupt_main, start_new_thread
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from contextvars import copy_context
from functools import partial
from types import FrameType
from typing import Any, Final, ParamSpec, TypeVar

from lance_df.exits import busy, is_main

P = ParamSpec("P")
R = TypeVar("R")

_PATIENCE_SECONDS: Final = 5.0
_IMPORT: Final = "<frozen importlib._bootstrap>"
_LATER_SECONDS: Final = 0.1
# What `signal` wraps to make enums of numbers, which takes longer than all else here.
_native: Final[Any] = sys.modules.get("_signal", signal)
_SIGINT: Final = int(signal.SIGINT)
_stopped = threading.local()


class WorkStoppedError(BaseException):
    """The thread works for one that was interrupted, and nobody waits for its result.

    Like `KeyboardInterrupt` it is no `Exception`: nobody tries again.
    """


class _Signals:
    """What is known of SIGINT while `_handle` is its handler. Only the main thread comes here.

    Attributes
    ----------
    former
        The handler that was there.
    raises_once
        Whether what the former handler raises again, within some seconds, is left out.
    is_raised_at_the_end
        Whether that is raised again, whatever becomes of it.
    ends_wait
        When signals are not put off any more; None where they are not.
    was_put_off
        Whether one was.
    num_imports
        Calls that import modules, of which the whole is a part.
    ends_import
        When an import is not waited for any more; None where none is.
    error, num_errors, time_of_error
        What the former handler raised last, how often it did, and when.
    """

    def __init__(self) -> None:
        self.former: Callable[[int, Any], object] = signal.default_int_handler
        self.raises_once = False
        self.is_raised_at_the_end = False
        self.ends_wait: float | None = None
        self.was_put_off = False
        self.num_imports = 0
        self.ends_import: float | None = None
        self.error: BaseException | None = None
        self.num_errors = 0
        self.time_of_error = float("-inf")


_signals: Final = _Signals()


def _handle(number: int, frame: FrameType | None) -> None:
    now = time.monotonic()
    if _signals.ends_wait is not None and now < _signals.ends_wait:
        _signals.was_put_off = True
        return
    if _signals.raises_once and now < _signals.time_of_error + _PATIENCE_SECONDS:
        return
    if _num_imports(frame) <= _signals.num_imports:
        _signals.ends_import = None
    elif _signals.ends_import is None or now < _signals.ends_import:
        # a package of which a part was imported may never be imported again
        _signals.ends_import = _signals.ends_import or now + _PATIENCE_SECONDS
        start_new_thread(_interrupt_later, ())
        return
    try:
        _signals.former(number, frame)
    except BaseException as err:
        _signals.error = err
        _signals.num_errors += 1
        _signals.time_of_error = now
        raise


def _num_imports(frame: FrameType | None) -> int:
    """Return how many calls of a stack are those that import modules."""
    number = 0
    while frame is not None:
        number += frame.f_code.co_filename == _IMPORT
        frame = frame.f_back
    return number


def _interrupt_later() -> None:
    time.sleep(_LATER_SECONDS)
    if sys.platform == "win32":
        interrupt_main(signal.SIGINT)
        return
    # what `interrupt_main` simulates does not end a wait for a lock
    ident = threading.main_thread().ident
    if ident is not None:
        signal.pthread_kill(ident, signal.SIGINT)


@contextmanager
def _handled(*, raises_once: bool = False) -> Iterator[bool]:
    """Let `_handle` be the handler of SIGINT, in the main thread; say whether it is."""
    former = _native.getsignal(_SIGINT) if is_main() else None
    if not callable(former):  # ignored, or not Python's
        yield False
        return
    is_outermost, outer = former is not _handle, _signals.raises_once

    def restore() -> None:
        _signals.raises_once = outer
        if is_outermost:
            _signals.raises_once, _signals.error = False, None
            # it may be ended by another thread, and the handler may be the user's by now
            if is_main() and _native.getsignal(_SIGINT) is _handle:
                _native.signal(_SIGINT, former)

    try:
        try:
            if is_outermost:
                _signals.former, _signals.is_raised_at_the_end = former, False
                _signals.time_of_error = float("-inf")
                _signals.num_imports = _num_imports(sys._getframe())
                _signals.ends_import = None
                _native.signal(_SIGINT, _handle)
            _signals.raises_once = raises_once or (outer and not is_outermost)
            yield True
        finally:
            restore()
    finally:  # again, for where an interrupt comes before it is done
        restore()


@contextmanager
def imports_finished() -> Iterator[None]:
    """Let a SIGINT raise when the import that is under way is done, for programs that go on afterwards.

    Python's lock of all imports may be held for ever by one that is broken off; other threads wait for it.
    """
    with _handled():
        yield


@contextmanager
def raised_at_the_end() -> Iterator[None]:
    """Raise what a SIGINT raises meanwhile, also where that is lost or made an error of another kind.

    DataFusion does so with what its callbacks raise.
    """
    with _handled() as is_handled:
        if not is_handled:
            yield
            return
        number, outer = _signals.num_errors, _signals.is_raised_at_the_end
        _signals.is_raised_at_the_end = True
        try:
            yield
        except BaseException as err:
            last = _signals.error
            if _signals.num_errors == number or last is None or err is last:
                raise
            raise last from None
        finally:
            _signals.is_raised_at_the_end = outer
            if _signals.was_put_off and not outer:
                _signals.was_put_off = False
                _handle(signal.SIGINT, None)
        if _signals.num_errors > number and _signals.error is not None:
            raise _signals.error


@contextmanager
def interrupted_once() -> Iterator[None]:
    """Let a SIGINT raise, and further ones not for some seconds, so that what was begun is cleaned up."""
    with _handled(raises_once=True):
        yield


def undisturbed(work: Callable[[], R]) -> R:
    """Do something to its end, however often the user presses Ctrl-C meanwhile, and return its result.

    Such an interrupt is raised when the work is done, or has taken some seconds since.
    """
    with _handled() as is_handled:
        if not is_handled or _signals.ends_wait is not None:
            return work()
        _signals.ends_wait = time.monotonic() + _PATIENCE_SECONDS
        try:
            result = work()
        finally:
            _signals.ends_wait = None
            if _signals.was_put_off:
                _signals.was_put_off = False
                _handle(signal.SIGINT, None)
        return result


@contextmanager
def callback(*, panics: bool = False) -> Iterator[None]:
    """Put a SIGINT off while DataFusion calls, which makes another error of what is raised here.

    It is raised soon afterwards. Where whoever calls DataFusion raises it in the end, it need not be put off,
    unless DataFusion ``panics``.
    """
    with _handled() as is_handled:
        is_raised = _signals.is_raised_at_the_end and not panics
        if not is_handled or is_raised or _signals.ends_wait is not None:
            yield
            return
        _signals.ends_wait = time.monotonic() + _PATIENCE_SECONDS
        try:
            yield
        finally:
            _signals.ends_wait = None
            if _signals.was_put_off and not _signals.is_raised_at_the_end:
                _signals.was_put_off = False
                start_new_thread(_interrupt_later, ())


def apart(work: Callable[[], R], abandoned: Callable[[], None]) -> R:
    """Return what ``work`` returns, which a thread of its own does, so that a SIGINT is raised at once.

    It ends threads of `workers` as well. It is for native code that may compute for long without looking for
    signals.

    Parameters
    ----------
    abandoned
        Called where a SIGINT is raised. ``work`` goes on until it notices, and its result is lost.
    """
    events: tuple[threading.Event, ...] = getattr(_stopped, "events", ())
    if not (is_main() or events):
        return work()
    outcome: Future[R] = Future()
    context = copy_context()

    def run() -> None:
        with suppress(WorkStoppedError):
            try:
                with busy():
                    result = context.run(work)
            except BaseException as err:  # noqa: BLE001 - raised by whoever waits
                outcome.set_exception(err)
            else:
                outcome.set_result(result)

    thread = threading.Thread(target=run, name="lance-df-apart", daemon=True)
    try:
        undisturbed(thread.start)
        # on Windows no signal ends a wait for a lock
        while (events or sys.platform == "win32") and not outcome.done():
            wait([outcome], _LATER_SECONDS)
            check_stopped()
        return outcome.result()
    finally:
        if not outcome.done() and thread.ident is not None:
            undisturbed(partial(_abandon, abandoned, thread.ident))


def _abandon(abandoned: Callable[[], None], ident: int) -> None:
    abandoned()
    _raise_in(ident)


def _raise_in(ident: int) -> None:
    """End what a thread does when it runs Python code next, which DataFusion lets threads do that wait."""
    import ctypes

    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(ident), ctypes.py_object(WorkStoppedError))


class _Pool(ThreadPoolExecutor):
    """Threads that are known to be there when they are, also where an interrupt comes as they begin."""

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        return undisturbed(lambda: super(_Pool, self).submit(fn, *args, **kwargs))


@contextmanager
def workers(num_threads: int, name: str = "lance-df-work") -> Iterator[ThreadPoolExecutor]:
    """Make threads that write, and are done when the context has ended, also by an interrupt.

    Then what has not begun is left, and what has begun ends where it calls `check_stopped`.
    """
    with interrupted_once(), generator_workers(num_threads, name) as pool:
        yield pool


@contextmanager
def generator_workers(num_threads: int, name: str) -> Iterator[ThreadPoolExecutor]:
    """Do the same for a generator: it may be suspended for long, and leaves the handler of SIGINT alone."""
    event = threading.Event()
    outer: tuple[threading.Event, ...] = getattr(_stopped, "events", ())
    pool = _Pool(num_threads, name, partial(_begin, (*outer, event)))
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
