"""Handle Ctrl-C during writes: finish what must be finished, and begin nothing else.

Python raises `KeyboardInterrupt` in the main thread between any two instructions, and again each time the
user presses Ctrl-C. Other threads are not interrupted; they must check whether to stop.

What cannot be undone any more is noted on the exception; see `note_if_interrupted`.

During a write, a call of DataFusion or a command of the shell, the handler of SIGINT is `_handle`, which
calls the former handler, or postpones that.
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
# `signal` wraps this module to make enums of numbers, which takes longer than everything else here.
_native: Final[Any] = sys.modules.get("_signal", signal)
_SIGINT: Final = int(signal.SIGINT)
_stopped = threading.local()


class WorkStoppedError(BaseException):
    """Ends a thread that works for an interrupted one, so that nothing waits for its result.

    Like `KeyboardInterrupt` it is not an `Exception`, so that it is not retried.
    """


class _Signals:
    """The state of SIGINT while `_handle` is its handler. Only the main thread uses it.

    Attributes
    ----------
    former
        The previous handler.
    raises_once
        Whether further signals are ignored for some seconds after the former handler has raised.
    num_blocks, num_handled
        The number of times that the handler was installed, and of signals that it has handled.
    is_raised_at_the_end
        Whether the caller raises the exception again at the end, even if it got lost.
    ends_wait
        When postponing signals ends; None if they are not postponed.
    was_put_off
        Whether a signal was postponed.
    num_imports
        The number of imports on the stack when the handler was installed.
    ends_import
        When waiting for an import ends; None if none is waited for.
    error, num_errors, time_of_error
        The last exception that the former handler raised, their number, and the time of the last one.
    notes
        Return what to note on an exception that ends the outermost block; see `note_if_interrupted`.
    """

    def __init__(self) -> None:
        self.former: Callable[[int, Any], object] = signal.default_int_handler
        self.raises_once = False
        self.num_blocks = 0
        self.num_handled = 0
        self.is_raised_at_the_end = False
        self.ends_wait: float | None = None
        self.was_put_off = False
        self.num_imports = 0
        self.ends_import: float | None = None
        self.error: BaseException | None = None
        self.num_errors = 0
        self.time_of_error = float("-inf")
        self.notes: list[Callable[[], str | None]] = []


_signals: Final = _Signals()


def _handle(number: int, frame: FrameType | None) -> None:
    now = time.monotonic()
    _signals.num_handled += 1
    if _signals.ends_wait is not None and now < _signals.ends_wait:
        _signals.was_put_off = True
        return
    if _signals.raises_once and now < _signals.time_of_error + _PATIENCE_SECONDS:
        return
    if _num_imports(frame) <= _signals.num_imports:
        _signals.ends_import = None
    elif _signals.ends_import is None or now < _signals.ends_import:
        # a partly imported package may never be importable again
        _signals.ends_import = _signals.ends_import or now + _PATIENCE_SECONDS
        start_new_thread(_interrupt_later, (_signals.num_blocks, _signals.num_handled))
        return
    try:
        _signals.former(number, frame)
    except BaseException as err:
        _signals.error = err
        _signals.num_errors += 1
        _signals.time_of_error = now
        raise


def _num_imports(frame: FrameType | None) -> int:
    """Return the number of import calls on a stack."""
    number = 0
    while frame is not None:
        number += frame.f_code.co_filename == _IMPORT
        frame = frame.f_back
    return number


def _interrupt_later(num_blocks: int, num_handled: int) -> None:
    """Interrupt the main thread soon, which runs in this block and has handled so many signals."""
    time.sleep(_LATER_SECONDS)
    if sys.platform == "win32":
        interrupt_main(signal.SIGINT)
        return
    # the signal that `interrupt_main` simulates does not end a wait for a lock
    ident = threading.main_thread().ident
    if ident is None:
        return
    signal.pthread_kill(ident, signal.SIGINT)
    # A signal just before a wait does not end it: the main thread frees this one by releasing the GIL for it.
    # Until the first signal is handled, another one only wakes the main thread.
    while True:
        time.sleep(_LATER_SECONDS)
        is_pending = num_handled == _signals.num_handled and num_blocks == _signals.num_blocks
        if not is_pending or _native.getsignal(_SIGINT) is not _handle:
            return
        signal.pthread_kill(ident, signal.SIGINT)


@contextmanager
def _handled(*, raises_once: bool = False) -> Iterator[bool]:
    """Install `_handle` as the handler of SIGINT, if in the main thread; yield whether it is."""
    former = _native.getsignal(_SIGINT) if is_main() else None
    if not callable(former):  # ignored, or not Python's
        yield False
        return
    is_outermost, outer = former is not _handle, _signals.raises_once

    def restore() -> None:
        _signals.raises_once = outer
        if is_outermost:
            _signals.raises_once, _signals.error = False, None
            # another thread may end it, and the user may have changed the handler
            if is_main() and _native.getsignal(_SIGINT) is _handle:
                _native.signal(_SIGINT, former)

    try:
        try:
            if is_outermost:
                _signals.former, _signals.is_raised_at_the_end = former, False
                _signals.time_of_error = float("-inf")
                _signals.num_imports = _num_imports(sys._getframe())
                _signals.ends_import = None
                _signals.notes = []
                _signals.num_blocks += 1
                _native.signal(_SIGINT, _handle)
            _signals.raises_once = raises_once or (outer and not is_outermost)
            yield True
        finally:
            restore()
    except BaseException as err:
        if is_outermost and not isinstance(err, Exception):
            _add_notes(err)
        raise
    finally:  # again, in case an interrupt came before it was done
        restore()
        if is_outermost:
            _signals.notes = []


def _add_notes(error: BaseException) -> None:
    for note in _signals.notes:
        text = note()
        if text is not None and text not in getattr(error, "__notes__", ()):
            error.add_note(text)


def note_if_interrupted(note: Callable[[], str | None]) -> None:
    """Note something on the exception if the outermost block of this module is interrupted after all.

    Parameters
    ----------
    note
        Called then; returns the text, or None if there is nothing to note.
    """
    if is_main() and _native.getsignal(_SIGINT) is _handle:
        _signals.notes.append(note)


@contextmanager
def imports_finished() -> Iterator[None]:
    """Raise SIGINT only after the current import is done, for programs that continue afterwards.

    An import that is broken off may hold Python's global import lock for ever; other threads would wait for
    it.
    """
    with _handled():
        yield


@contextmanager
def raised_at_the_end() -> Iterator[None]:
    """At the end, raise what SIGINT raised meanwhile, even if it was lost or turned into another error.

    DataFusion loses or replaces exceptions of its callbacks.
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
    """Let the first SIGINT raise, and ignore further ones for some seconds, so that cleanup can finish."""
    with _handled(raises_once=True):
        yield


def undisturbed(work: Callable[[], R]) -> R:
    """Run some work to its end, even if the user presses Ctrl-C meanwhile, and return its result.

    The interrupt is raised when the work is done, or after some seconds.
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
    """Postpone SIGINT during a callback, since DataFusion would turn an exception into another error.

    It is raised soon afterwards. If the caller of DataFusion raises it in the end, it need not be postponed,
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
                start_new_thread(_interrupt_later, (_signals.num_blocks, _signals.num_handled))


def apart(work: Callable[[], R], abandoned: Callable[[], None]) -> R:
    """Run ``work`` in a thread of its own, so that SIGINT is raised at once; return its result.

    Threads of `workers` can be ended in the same way. This is for native code that may compute for long
    without checking for signals.

    Parameters
    ----------
    abandoned
        Called if SIGINT is raised. ``work`` continues until it notices, and its result is lost.
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
            except BaseException as err:  # noqa: BLE001 - raised by the waiting thread
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
    """End a thread at its next Python code; DataFusion lets waiting threads run Python code."""
    import ctypes

    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(ident), ctypes.py_object(WorkStoppedError))


class _Pool(ThreadPoolExecutor):
    """An executor that records all its threads, even if an interrupt comes as one begins."""

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        return undisturbed(lambda: super(_Pool, self).submit(fn, *args, **kwargs))


@contextmanager
def workers(num_threads: int, name: str = "lance-df-work") -> Iterator[ThreadPoolExecutor]:
    """Make threads for writing, which are finished when the context ends, also after an interrupt.

    After an interrupt, work that has not begun is dropped, and other work ends when it calls `check_stopped`.
    """
    with interrupted_once(), generator_workers(num_threads, name) as pool:
        yield pool


@contextmanager
def generator_workers(num_threads: int, name: str) -> Iterator[ThreadPoolExecutor]:
    """As `workers`, for a generator, which may be suspended for long: the SIGINT handler is unchanged."""
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
    """End the work of a thread of `workers` if nothing waits for it any more.

    Raises
    ------
    WorkStoppedError
        Nothing waits for the work.
    """
    for event in getattr(_stopped, "events", ()):
        if event.is_set():
            raise WorkStoppedError


def _begin(events: tuple[threading.Event, ...]) -> None:
    _stopped.events = events
