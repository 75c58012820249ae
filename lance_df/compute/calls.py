"""Guard calls of DataFusion against forks, interrupts and the exit of the process.

DataFusion runs on the threads of one runtime, which is made at the first statement of a process. A forked
child has the runtime without its threads, so calls in the child would never return.

If SIGINT is raised in the main thread while a callback of this package runs, DataFusion turns it into an
error of its own, a panic, or nothing at all. So every call raises afterwards what a SIGINT raised while it
ran.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from typing import Final, TypeVar

from lance_df.errors import ForkedProcessError
from lance_df.exits import busy
from lance_df.forks import is_inherited
from lance_df.interrupts import raised_at_the_end

T = TypeVar("T")

PANICS: Final = "DataFusion panics: "
_PROBE_SECONDS = 5.0

_NOBODY = 0
# the process that has the threads of DataFusion's runtime
_owner: int | None = None


@contextmanager
def engine_call() -> Iterator[None]:
    """Mark a call of DataFusion that plans or runs something. It must not contain a ``yield``.

    Raises
    ------
    ForkedProcessError
        DataFusion's threads are in the parent of this process.
    KeyboardInterrupt
        The handler of SIGINT raises this, or another exception.
    Exception
        DataFusion raises it, or panics, in which case the message starts with `PANICS`.
    """
    check_process()
    with busy(), raised_at_the_end():
        try:
            yield
        except BaseException as err:
            if type(err).__name__ != "PanicException":  # a BaseException of pyo3
                raise
            raise Exception(f"{PANICS}{err}") from err  # noqa: TRY002 - as all that DataFusion raises


def outside_runtime(function: Callable[[], T]) -> T:
    """Call ``function`` on another thread, since DataFusion panics if its own callback calls it directly.

    The function may plan and collect rows, but must not begin a stream, which waits for DataFusion's threads,
    all of which may be in callbacks.
    """
    context = copy_context()
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(context.run, function).result()


def check_process() -> None:
    """Refuse to use DataFusion if its threads are in another process.

    Raises
    ------
    ForkedProcessError
        The threads are in another process.
    """
    global _owner  # noqa: PLW0603 - one runtime for the process
    pid = os.getpid()
    if _owner == pid:
        return None
    if _owner is None:  # other code may have called DataFusion in the parent
        _owner = pid if not is_inherited("datafusion") or _answers() else _NOBODY
        return check_process()
    raise ForkedProcessError(
        "DataFusion ran statements before this process was forked, and its threads do not survive a fork; "
        "start processes that use SQL or filters with the start method 'spawn' or 'forkserver' "
        "(multiprocessing.get_context('spawn')), or fork before the first statement"
    )


def _answers() -> bool:
    """Return whether the runtime has threads in this process."""
    from datafusion import SessionContext

    done = threading.Event()

    def ask() -> None:
        for _ in SessionContext().sql("SELECT 1").execute_stream():
            pass
        done.set()

    threading.Thread(target=ask, name="lance_df-probe", daemon=True).start()
    return done.wait(_PROBE_SECONDS)
