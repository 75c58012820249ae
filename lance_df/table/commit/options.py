"""How patient a commit is."""

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
    from lance_df.table.commit.lock import CommitLock
    from lance_df.table.writing.uncommitted import Attempt

_USUAL_ATTEMPT = 0.01
_LONGEST_ATTEMPT = 0.5
# Of waiting writers each one's turn comes about once in so many attempts. Waits that went on growing would
# leave all turns to those that come new.
_MOST_TURNS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitOptions:
    """How a commit behaves when other writers are faster.

    Attributes
    ----------
    max_retries
        How often it starts again. With 0, an overwrite demands that the table still is what was read.
    strict
        Follow no other commit, whatever it did: fail as soon as the table is not what was read.
    commit_timeout
        How long after its begin it still starts again; None for no limit.
    marks
        Of changes that must not be committed twice: `AlreadyCommittedError` if they were.
    detached
        Make a version that is no part of the table's history, and can be reached by its number only.
    lock
        Held while the version is made, see :mod:`lance_df.table.commit.lock`.
    properties
        Kept with the transaction, beside its own.
    is_part
        Whether it shows only by another commit that follows: it is then logged as a detail.
    attempts
        Gets each attempt to publish, before it begins.
    clock_ns, monotonic, sleep, jitter
        The time of day for the timestamp; the time that passes, and waiting, between attempts; a number
        below 1 by which the wait is shortened, so that writers do not meet again.
    """

    max_retries: int = 100
    strict: bool = False
    commit_timeout: dt.timedelta | None = dt.timedelta(minutes=30)
    marks: tuple[Mark, ...] = ()
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
            raise InvalidInputError(f"max_retries must be 0 or more, not {self.max_retries}")

    def wait(self, attempt: int, seconds: float = _USUAL_ATTEMPT) -> None:
        """Wait after an attempt that another writer won.

        Parameters
        ----------
        attempt
            Counts from 0.
        seconds
            How long an attempt takes.
        """
        turns = min(2 ** min(attempt, 30), _MOST_TURNS)
        self.sleep(self.jitter() * min(seconds, _LONGEST_ATTEMPT) * turns)
