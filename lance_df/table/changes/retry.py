"""Compute a change and commit it; on a conflict, compute it again from the newest version."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

from lance_df.errors import InvalidInputError, RetryableConflictError
from lance_df.records import dataclass
from lance_df.table.commit.loop import commit_change
from lance_df.table.metadata.missing_files import check_same_table, conflict_if_gone

if TYPE_CHECKING:
    from lance_df.format.operations import Operation
    from lance_df.table.commit.options import CommitOptions
    from lance_df.table.commit.row_account import RowChange
    from lance_df.table.table import Table

R = TypeVar("R")

_log = logging.getLogger("lance_df")


@dataclass(frozen=True, slots=True)
class Change(Generic[R]):
    """An operation that was computed from one version of a table, and its result for the caller.

    ``rows`` states the change of row counts, counted by the code that selected the rows.
    """

    operation: Operation
    rows: RowChange
    result: R


Compute: TypeAlias = Callable[["Table"], AbstractContextManager[Change[R]]]
"""Writes the files of a change; leaving the context with an error removes them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryOptions:
    """How often, and for how long, a change is computed again.

    Attributes
    ----------
    retries
        The maximum number of repetitions.
    timeout
        Seconds after which it is not computed again; the first attempt is never interrupted.
    clock, sleep
        Functions that return the time and wait, in seconds.
    """

    retries: int = 10
    timeout: float = 30.0
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def __post_init__(self) -> None:
        if self.retries < 0:
            raise InvalidInputError(f"conflict_retries must not be negative, got {self.retries}")


def commit_with_retries(
    table: Table, compute: Compute[R], options: RetryOptions, commit_options: CommitOptions | None = None
) -> tuple[Table, R]:
    """Compute a change from a version of a table, and commit it.

    Returns
    -------
    The table at the new version, and the result of the change.

    Raises
    ------
    RetryableConflictError
        Other commits conflicted each time.
    IncompatibleConflictError
        Another commit makes the change meaningless.
    CommitStateUnknownError
        The store failed in a way that leaves open whether the change was committed.
    AlreadyCommittedError
        See the marks of ``commit_options``.
    """
    start = options.clock()
    attempt = 0
    while True:
        try:
            with conflict_if_gone(table), compute(table) as change:
                made = commit_change(table, change.operation, rows=change.rows, options=commit_options)
                return made, change.result
        except RetryableConflictError:
            if attempt >= options.retries or options.clock() - start >= options.timeout:
                raise
        options.sleep(random.uniform(0, min(1.0, 0.01 * 2**attempt)))
        attempt += 1
        with conflict_if_gone(table):
            latest = table.latest()
        check_same_table(table, latest.manifest_file)
        table = latest
        _log.info("%s: computing the change again from version %d", table.uri, table.version)
