"""What every call of DataFusion is surrounded by: the process may be forked, interrupted, or at its end.

DataFusion runs on threads of one runtime, which is made at the first statement of a process. A forked child
has the runtime without its threads: what it is asked for is never done.

A SIGINT that comes while a callback of ours runs in the main thread is raised there, and DataFusion makes an
error of its own of it, a panic, or nothing at all. So a call raises what a SIGINT raised while it ran.
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
    Exception
        DataFusion raises it, or panics: the message starts with `PANICS`.
    """
    check_process()
    with busy(), raised_at_the_end():
        try:
            yield
        except BaseException as err:
            if type(err).__name__ != "PanicException":  # which pyo3 has in no module, and is no Exception
                raise
            raise Exception(f"{PANICS}{err}") from err  # noqa: TRY002 - as all that DataFusion raises


def outside_runtime(function: Callable[[], T]) -> T:
    """Call ``function`` on another thread: DataFusion panics when a callback of its own calls it directly.

    It may plan, and collect rows, but not begin a stream: that waits for DataFusion's threads, and all of
    these may be in callbacks.
    """
    context = copy_context()
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(context.run, function).result()


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
