"""What every call of DataFusion is surrounded by: the process may be forked, interrupted, or at its end.

DataFusion runs on threads of one runtime, which is made at the first statement of a process. A forked child
has the runtime without its threads: what it is asked for is never done.

A SIGINT that comes while a callback of ours runs in the main thread is raised there, and DataFusion makes an
error of its own of it, a panic, or nothing at all. So a call raises what a SIGINT raised while it ran.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from lance_df.errors import ForkedProcessError
from lance_df.exits import busy, is_main
from lance_df.forks import is_inherited

_PROBE_SECONDS = 5.0

_NOBODY = 0
# the process whose threads DataFusion's runtime has
_owner: int | None = None


@contextmanager
def engine_call() -> Iterator[None]:
    """Mark a call of DataFusion that plans or runs something. Not to be held across a ``yield``.

    Raises
    ------
    ForkedProcessError
        The threads of DataFusion are in the parent of this process.
    KeyboardInterrupt
        Or what else the handler of SIGINT raises.
    """
    check_process()
    with busy(), _interruptible():
        yield


def check_process() -> None:
    """Refuse what DataFusion's threads are needed for, where they are in another process.

    Raises
    ------
    ForkedProcessError
        They are.
    """
    global _owner  # noqa: PLW0603 - one runtime for the process
    pid = os.getpid()
    if _owner == pid:
        return None
    if _owner is None:  # others may have called DataFusion in the parent
        _owner = pid if not is_inherited("datafusion") or _answers() else _NOBODY
        return check_process()
    raise ForkedProcessError(
        "DataFusion has run statements before this process was forked, and its threads do not survive that; "
        "start processes that use SQL or filters with the start method 'spawn' or 'forkserver' "
        "(multiprocessing.get_context('spawn')), or fork before the first statement"
    )


def _answers() -> bool:
    """Whether the runtime has threads in this process."""
    from datafusion import SessionContext

    done = threading.Event()

    def ask() -> None:
        for _ in SessionContext().sql("SELECT 1").execute_stream():
            pass
        done.set()

    threading.Thread(target=ask, name="lance_df-probe", daemon=True).start()
    return done.wait(_PROBE_SECONDS)


_former: Callable[[int, Any], Any] = signal.default_int_handler
_raised: list[BaseException] = []


def _note(number: int, frame: Any) -> None:
    """Handle SIGINT as it was handled before, and remember what that raises."""
    try:
        _former(number, frame)
    except BaseException as err:
        _raised.append(err)
        raise


@contextmanager
def _interruptible() -> Iterator[None]:
    """Raise what a SIGINT raises meanwhile, in the main thread, where it is handled.

    An interruption between two lines here leaves `_note` as the handler, which acts as the former one.
    """
    global _former  # noqa: PLW0603 - signals have one handler
    former = signal.getsignal(signal.SIGINT) if is_main() else None
    if not callable(former):  # ignored, or not Python's
        yield
        return
    is_outermost = former is not _note
    if is_outermost:
        _raised.clear()
        _former = former
        signal.signal(signal.SIGINT, _note)
    number = len(_raised)
    try:
        yield
    except BaseException as err:
        if err in _raised[number:]:
            raise
        if len(_raised) > number:
            raise _raised[-1] from None
        raise
    else:
        if len(_raised) > number:
            raise _raised[-1]
    finally:
        if is_outermost:
            signal.signal(signal.SIGINT, former)
            _raised.clear()
