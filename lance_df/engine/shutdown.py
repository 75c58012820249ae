"""Let no scan step be under way when the interpreter goes down.

DataFusion's workers may still be pulling a batch when a process ends right after a LIMIT query; a worker
inside Python code at that moment aborts the process (observed with DataFusion 55). So every step registers
here, and the exit waits for the steps that run and starts no more.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_WAIT_SECONDS = 10.0

_changed = threading.Condition()
_active = 0
_closing = False


@contextmanager
def scan_step() -> Iterator[bool]:
    """Mark one step of a scan; yields False when the interpreter is going down and nothing may start."""
    global _active  # noqa: PLW0603 - one counter for the process
    with _changed:
        allowed = not _closing
        _active += 1
    try:
        yield allowed
    finally:
        with _changed:
            _active -= 1
            _changed.notify_all()


@atexit.register
def _wait_for_steps() -> None:
    global _closing  # noqa: PLW0603
    with _changed:
        _closing = True
        _changed.wait_for(lambda: _active == 0, timeout=_WAIT_SECONDS)
