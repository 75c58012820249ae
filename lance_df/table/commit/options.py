"""Options of commits: retries, timeouts, locks."""

from __future__ import annotations

import datetime as dt
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from lance_df.errors import InvalidInputError
from lance_df.records import dataclass
from lance_df.table.commit.marks import Mark

if TYPE_CHECKING:
    import pyarrow as pa

    from lance_df.table.commit.lock import CommitLock
    from lance_df.table.writing.uncommitted import Attempt

_USUAL_ATTEMPT = 0.01
_LONGEST_ATTEMPT = 0.5
# The longest wait, in attempts: one of the waiting writers gets its turn about once in this time. If waits
# kept growing, new writers would get all the turns.
_MOST_TURNS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitOptions:
    """How a commit behaves when other writers are faster.

    Attributes
    ----------
    max_retries
        How often the commit is retried. With 0, an overwrite fails if the table has changed since it was
        read.
    strict
        Whether to fail if there was any other commit since the table was read.
    commit_timeout
        The time after which it is not retried any more; None for no limit.
    marks
        Marks of changes that must not be committed twice; if one was, `AlreadyCommittedError` is raised.
    columns
        The columns that the table must still have, of any ids; `RetryableConflictError` is raised otherwise.
    detached
        Whether to make a version outside the table's history, which can be reached only by its number.
    lock
        Held while the version is made, see :mod:`lance_df.table.commit.lock`.
    properties
        Stored with the transaction, in addition to its own.
    is_part
        Whether a later commit makes this one visible; then it is logged at level DEBUG, and an interrupt has
        no note on it.
    attempts
        A list to which each attempt to publish is appended before it begins.
    clock_ns, monotonic, sleep, jitter
        Functions for the timestamp, for the elapsed time, for waiting, and for a factor below 1 that
        shortens the wait, so that writers do not collide again.
    """

    max_retries: int = 100
    strict: bool = False
    commit_timeout: dt.timedelta | None = dt.timedelta(minutes=30)
    marks: tuple[Mark, ...] = ()
    columns: pa.Schema | None = None
    detached: bool = False
    lock: CommitLock | None = None
    properties: Mapping[str, str] = field(default_factory=dict, hash=False)
    is_part: bool = False
    attempts: list[Attempt] | None = field(default=None, hash=False, compare=False)
    clock_ns: Callable[[], int] = time.time_ns
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    jitter: Callable[[], float] = field(default=random.random)

    def __post_init__(self) -> None:
        if self.max_retries < 0:
            raise InvalidInputError(f"max_retries must be at least 0, got {self.max_retries}")

    def wait(self, attempt: int, seconds: float = _USUAL_ATTEMPT) -> None:
        """Wait after another writer won an attempt.

        Parameters
        ----------
        attempt
            Counts from 0.
        seconds
            How long an attempt takes.
        """
        turns = min(2 ** min(attempt, 30), _MOST_TURNS)
        self.sleep(self.jitter() * min(seconds, _LONGEST_ATTEMPT) * turns)
