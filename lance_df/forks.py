"""Renew locks and other state in forked children, and refuse what cannot work there.

After ``os.fork()`` a child has only the thread that forked. Locks that other threads held stay locked, and
their work is never finished. Locks made by `new_lock` are free in a child; `after_fork_in_child` renews other
state; an `Origin` guards work that threads do across several calls.
"""

from __future__ import annotations

import os
import sys
import threading
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final
from weakref import ref

from lance_df.errors import ForkedProcessError

if TYPE_CHECKING:
    from collections.abc import Callable

_MIN_PRUNED: Final = 1024

# Without callbacks of the references: an interrupt that comes while one runs is lost.
_locks: list[ref[threading.Lock]] = []
_num_pruned = _MIN_PRUNED
_inherited: frozenset[str] = frozenset()
_adding: Final = threading.Lock()


def new_lock() -> threading.Lock:
    """Return a lock that is free in a forked child, even if a thread held it in the parent.

    The guarded state may be half changed there, so use it only for caches, counters and what can be
    recomputed.
    """
    global _locks, _num_pruned  # noqa: PLW0603 - one list for the process
    lock = threading.Lock()
    with _adding:
        _locks.append(ref(lock))
        if len(_locks) > _num_pruned:
            _locks = [known for known in _locks if known() is not None]
            _num_pruned = max(_MIN_PRUNED, 2 * len(_locks))
    return lock


def after_fork_in_child(function: Callable[[], None]) -> None:
    """Register a function to be called in every forked child before anything else runs there."""
    if hasattr(os, "register_at_fork"):  # Windows has no fork
        os.register_at_fork(after_in_child=function)


def is_inherited(package: str) -> bool:
    """Whether this is a forked child whose parent had imported a package."""
    return package in _inherited


class Origin:
    """The process that began some work which only its threads can finish."""

    __slots__ = ("_pid",)

    def __init__(self) -> None:
        self._pid = os.getpid()

    def check(self) -> None:
        """Refuse to continue in another process.

        Raises
        ------
        ForkedProcessError
            This is a forked child.
        """
        if os.getpid() != self._pid:
            raise ForkedProcessError(
                "this read was started before the process was forked, and its threads run in the parent "
                "process; start the read again in this process"
            )


def _renew_locks() -> None:
    global _inherited  # noqa: PLW0603
    _inherited = frozenset(name for name in sys.modules if "." not in name)
    _renew(_adding)
    for known in _locks:
        if (lock := known()) is not None:
            _renew(lock)
    if sys.version_info < (3, 12):
        _renew_properties()


def _renew(lock: Any) -> None:
    lock._at_fork_reinit()  # as the standard library does for its own locks


def _renew_properties() -> None:
    """Free the locks of cached properties in Python 3.11, which all objects of a class share."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] != "lance_df":
            continue
        for kind in list(vars(module).values()):
            for member in list(vars(kind).values()) if isinstance(kind, type) else ():
                if isinstance(member, cached_property):
                    _renew(member.lock)  # type: ignore[attr-defined] # no longer there in 3.12


after_fork_in_child(_renew_locks)
