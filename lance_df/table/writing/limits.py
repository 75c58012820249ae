"""The thresholds of scans, in one object that tests and tools may replace.

No threshold changes an answer. Small ones let small tables take every path; `Adjustable.replaced` sets them
for a while. Each process has its own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from lance_df.records import dataclass

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    L = TypeVar("L", bound=DataclassInstance)
else:
    L = TypeVar("L")


class Adjustable(Generic[L]):
    """The limits of a room that are in force.

    Parameters
    ----------
    limits
        The defaults.

    Attributes
    ----------
    current
        A frozen dataclass. Readers fetch it each time they need it.
    """

    def __init__(self, limits: L) -> None:
        self.current = limits

    def replace(self, **changes: Any) -> None:
        """Replace some limits from now on.

        Caches take over a new capacity when they are made.
        """
        self.current = dataclasses.replace(self.current, **changes)

    @contextmanager
    def replaced(self, **changes: Any) -> Iterator[None]:
        """Replace some limits until the block ends."""
        former = self.current
        self.replace(**changes)
        try:
            yield
        finally:
            self.current = former


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanLimits:
    """Thresholds of scans. Each is at least 1.

    Attributes
    ----------
    tasks_per_core
        Tasks that a scan is cut into for each core, so that workers finish together.
    min_task_rows, max_task_rows
        Rows of a task. Scans of remote tables use ``max_task_rows`` only: two tasks that share a file ask for
        its footer and its pages twice.
    task_alignment
        Tasks begin at multiples of so many rows.
    max_pruned_tasks
        Scans of no more tasks prune these one by one before they run.
    max_joined_fragments, max_joined_rows, max_joined_bytes
        Of neighbouring small fragments that one task reads as one. With ``max_joined_fragments=1`` none are.
    max_small_file_bytes
        Of the data file of a small fragment. A store returns so many bytes about as fast as a few.
    max_window_rows, max_window_bytes
        Rows that are read at once. Fewer cost more in calls than in work, and threads wait for each other
        in calls; more do not fit the processor's cache.
    remote_window_bytes
        As ``max_window_bytes``, of files in a store: a window costs a request for each column.
    first_limited_rows
        The first window of a scan with a limit.
    sparse_ratio
        Where fewer than one row in so many matches, single rows are read instead of pages.
    gathered_rows
        Scattered matches up to this number share a batch.
    max_cached_result_rows, max_cached_result_bytes
        Of the result of a scan that is kept.
    """

    tasks_per_core: int = 4
    min_task_rows: int = 128 * 1024
    max_task_rows: int = 1024 * 1024
    task_alignment: int = 1024
    max_pruned_tasks: int = 64
    max_joined_fragments: int = 128
    max_joined_rows: int = 64 * 1024
    max_joined_bytes: int = 4 * 1024 * 1024
    max_small_file_bytes: int = 256 * 1024
    max_window_rows: int = 512 * 1024
    max_window_bytes: int = 48 * 1024 * 1024
    remote_window_bytes: int = 8 * 1024 * 1024
    first_limited_rows: int = 4096
    sparse_ratio: int = 4
    gathered_rows: int = 16 * 1024
    max_cached_result_rows: int = 1024
    max_cached_result_bytes: int = 64 * 1024


SCAN_LIMITS: Final = Adjustable(ScanLimits())
