"""Let Ctrl-C end a stuck process: engines check signals only when their threads are idle."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_PATIENCE_SECONDS: Final = 3.0
_INTERRUPTED: Final = 130


@contextlib.contextmanager
def leaving_when_stuck(is_quiet: Callable[[], bool] = lambda: False) -> Iterator[None]:
    """Let a second Ctrl-C end the process if the work continues for some seconds after the first.

    Parameters
    ----------
    is_quiet
        Returns whether another program currently uses the terminal.
    """
    if not sys.stderr.isatty() or threading.current_thread() is not threading.main_thread():
        yield
        return
    received, sent = os.pipe()
    os.set_blocking(sent, False)
    former = signal.set_wakeup_fd(sent, warn_on_full_buffer=False)
    done = threading.Event()
    watch = threading.Thread(target=_watch, args=(received, done, is_quiet), daemon=True)
    watch.start()
    try:
        yield
    finally:
        done.set()
        signal.set_wakeup_fd(former)
        os.close(sent)  # which ends the thread
        watch.join()
        os.close(received)


def _watch(received: int, done: threading.Event, is_quiet: Callable[[], bool]) -> None:
    first: float | None = None
    is_warned = False
    while not done.is_set():
        wait = None if first is None or is_warned else max(0.0, first + _PATIENCE_SECONDS - time.monotonic())
        if select.select([received], [], [], wait)[0]:
            numbers = os.read(received, 64)
            if not numbers:
                return
            if signal.SIGINT not in numbers or is_quiet():
                continue
            if is_warned:
                os._exit(_INTERRUPTED)
            first = first or time.monotonic()
        elif not done.is_set():
            sys.stderr.write("\nthe engine is busy and has not stopped yet; Ctrl-C again ends the program\n")
            sys.stderr.flush()
            is_warned = True
