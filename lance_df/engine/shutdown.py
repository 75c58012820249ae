"""Let no scan be under way when the interpreter goes down.

DataFusion's workers may still be pulling a batch when a process ends right after a LIMIT query, or after one
that failed; a worker that runs or wants to run Python code at that moment aborts the process (observed with
DataFusion 55). So every step registers here, and the exit waits for the steps that run and starts no more;
streams that have not ended get the time to.
"""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

_WAIT_SECONDS = 10.0
# Streams that somebody still holds do not end.
_END_SECONDS = 0.5
# After the end of a stream a worker lets go of it, which it tells nobody.
_SETTLE_SECONDS = 0.05
_RECENT_SECONDS = 0.5

_changed = threading.Condition()
_steps = 0
_streams = 0
_last_end = float("-inf")
_closing = False


@contextmanager
def scan_step() -> Iterator[bool]:
    """Mark one step of a scan; yields False when the interpreter is going down and nothing may start."""
    global _steps  # noqa: PLW0603 - one counter for the process
    with _changed:
        allowed = not _closing
        _steps += 1
    try:
        yield allowed
    finally:
        with _changed:
            _steps -= 1
            _changed.notify_all()


@contextmanager
def scan_stream() -> Iterator[None]:
    """Mark one stream of a scan, from its first step to its end."""
    global _streams, _last_end  # noqa: PLW0603
    with _changed:
        _streams += 1
    try:
        yield
    finally:
        with _changed:
            _streams -= 1
            _last_end = time.monotonic()
            _changed.notify_all()


@atexit.register
def _wait_for_steps() -> None:
    global _closing  # noqa: PLW0603
    with _changed:
        _closing = True
        _changed.wait_for(lambda: _steps == 0, timeout=_WAIT_SECONDS)
        _changed.wait_for(lambda: _streams == 0, timeout=_END_SECONDS)
    if time.monotonic() - _last_end < _RECENT_SECONDS:
        time.sleep(_SETTLE_SECONDS)
