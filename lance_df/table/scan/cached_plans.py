"""Cache the plans of a table version, and the batches of scans with few rows."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from lance_df.cache import Footprint
from lance_df.table.scan.limits import SCAN_LIMITS
from lance_df.table.scan.plan import plan_scan

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from lance_df.scan.plan import ScanPlan, ScanTask
    from lance_df.scan.request import ScanRequest
    from lance_df.table.table import Table

# Plans of tables with more fragments take much memory, and save little time.
_MAX_FRAGMENTS: Final = 1024
# memory of a plan with its predicates and columns, and of a task
_PLAN_BYTES: Final = 6 * 1024
_TASK_BYTES: Final = 256


def cached_plan(table: Table, request: ScanRequest) -> ScanPlan:
    """Return the plan of a scan; equal requests share it until a scan observes more statistics.

    Takes the arguments of `plan_scan`, and raises the same errors.
    """
    if len(table.fragments) > _MAX_FRAGMENTS or not request.options.cached_plans:
        return plan_scan(table, request)
    key = (request, table.shared.observed.bounds.num_observed)
    try:
        hash(key)
    except TypeError:  # a list of values
        return plan_scan(table, request)
    return table.scan_plans.get(key, lambda: _with_cached_batches(plan_scan(table, request)), plan_footprint)


def plan_footprint(plan: ScanPlan) -> Footprint:
    """Return a counter of the memory of a plan, and of the batches that it caches."""
    footprint = Footprint(_PLAN_BYTES + _TASK_BYTES * len(plan.tasks))
    for task in plan.tasks[:1]:
        if isinstance(task, _CachedTask):
            task.footprint = footprint
    return footprint


def _with_cached_batches(plan: ScanPlan) -> ScanPlan:
    """Let a plan with a single task cache its batches, if they are small."""
    if len(plan.tasks) != 1 or plan.tasks[0].num_rows > SCAN_LIMITS.current.max_cached_result_rows:
        return plan
    return dataclasses.replace(plan, tasks=(_CachedTask(plan.tasks[0]),))


class _CachedTask:
    """A `ScanTask` that reads once, and then returns cached batches."""

    def __init__(self, task: ScanTask) -> None:
        self._task = task
        self.footprint = Footprint()
        self._batches: tuple[pa.RecordBatch, ...] | None = None

    @property
    def num_rows(self) -> int:
        return self._task.num_rows

    @property
    def num_bytes(self) -> int:
        return self._task.num_bytes

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches of the task. Threads that start together before the first result each read it."""
        batches = self._batches
        if batches is None:
            batches = tuple(self._task.read())
            num_bytes = sum(batch.get_total_buffer_size() for batch in batches)
            if num_bytes <= SCAN_LIMITS.current.max_cached_result_bytes:
                self._batches = batches
                self.footprint.add(num_bytes + _TASK_BYTES)
        yield from batches
