"""The thresholds of scans, in one object that tests and tools may replace.

Thresholds never change an answer. Small ones let small tables take every code path; `Adjustable.replaced`
sets them for a block. Each process has its own.
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
    """The current limits of a part of the package.

    Parameters
    ----------
    limits
        The defaults.

    Attributes
    ----------
    current
        A frozen dataclass. Code that uses a limit reads it anew each time.
    """

    def __init__(self, limits: L) -> None:
        self.current = limits

    def replace(self, **changes: Any) -> None:
        """Replace some limits from now on.

        Caches use a new capacity only if they are created later.
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
        Tasks of a scan for each core; several, so that workers finish at about the same time.
    min_task_rows, max_task_rows
        Rows of a task. Scans of remote tables use ``max_task_rows`` only: two tasks that share a file request
        its footer and its pages twice.
    task_alignment
        Tasks begin at multiples of this number of rows.
    max_pruned_tasks
        Scans with up to this number of tasks prune them one by one before they run.
    max_joined_fragments, max_joined_rows, max_joined_bytes
        Limits of neighbouring small fragments that one task reads as one. With ``max_joined_fragments=1``
        none are joined.
    max_small_file_bytes
        Size limit of the data file of a small fragment. A store returns so many bytes about as fast as a few.
    max_window_rows, max_window_bytes
        Rows that are read at once. With fewer, calls cost more than the work, and threads wait for each other
        in calls; more do not fit into the processor's cache.
    remote_window_bytes
        Like ``max_window_bytes``, but for files in a store, where a window costs a request for each column.
    first_limited_rows
        Rows of the first window of a scan with a limit.
    sparse_ratio
        If fewer than one in this number of rows matches, single rows are read instead of pages.
    observed_zone_rows
        Scans record the bounds of filter columns for zones of this number of rows.
    gathered_rows
        Up to this number of scattered matches share a batch.
    max_cached_result_rows, max_cached_result_bytes
        Limits of a scan result that is cached.
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
    max_window_bytes: int = 32 * 1024 * 1024
    remote_window_bytes: int = 8 * 1024 * 1024
    first_limited_rows: int = 4096
    sparse_ratio: int = 4
    observed_zone_rows: int = 64 * 1024
    gathered_rows: int = 16 * 1024
    max_cached_result_rows: int = 1024
    max_cached_result_bytes: int = 64 * 1024


SCAN_LIMITS: Final = Adjustable(ScanLimits())
