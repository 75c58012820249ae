"""Commit locks, which exclude other writers while a version is created, if the store cannot.

As in pylance, a lock is called with the number of the version and returns a context manager. It works only if
every writer of the table uses the same lock.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, TypeAlias

from lance_df.errors import CommitStateUnknownError, InvalidInputError, LanceError, StorageError

CommitLock: TypeAlias = Callable[[int], AbstractContextManager[Any]]


def checked_lock(lock: object) -> CommitLock | None:
    """Return the lock that a user passed.

    Raises
    ------
    InvalidInputError
        The lock is not callable.
    """
    if lock is None or callable(lock):
        return lock
    raise InvalidInputError(
        "commit_lock must be a function that takes a version and returns a context manager, got "
        f"{type(lock).__name__}"
    )


@contextmanager
def held(lock: CommitLock, version: int, *, what: str) -> Iterator[None]:
    """Hold a lock for a version.

    Raises
    ------
    StorageError
        The lock could not be acquired; nothing was done.
    CommitStateUnknownError
        The block ran, but releasing the lock failed.
    """
    try:
        manager = lock(version)
        manager.__enter__()
    except LanceError as err:
        if str(err):
            raise
        raise type(err)(f"{what}: its commit_lock raised CommitConflictError without a message") from err
    except Exception as err:
        raise StorageError(f"{what}: its commit_lock could not be acquired: {err!r}") from err
    try:
        yield
    except BaseException:
        with suppress(Exception):
            manager.__exit__(*sys.exc_info())
        raise
    try:
        manager.__exit__(None, None, None)
    except Exception as err:
        raise CommitStateUnknownError(
            f"{what}: the commit succeeded, but its commit_lock could not be released: {err!r}; check the "
            "table"
        ) from err
