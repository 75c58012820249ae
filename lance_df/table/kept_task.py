"""Keep what scans of a few rows return: small tables are asked the same again, and versions never change."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from lance_df.cache import Footprint
from lance_df.table.limits import SCAN_LIMITS

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from lance_df.scan.plan import ScanPlan, ScanTask


# of a plan with its predicates and columns, and of a task
_PLAN_BYTES: Final = 6 * 1024
_TASK_BYTES: Final = 256


def keep_few_rows(plan: ScanPlan) -> ScanPlan:
    """Return a plan that keeps the batches of its only task, if these are small, from its first run on."""
    if len(plan.tasks) != 1 or plan.tasks[0].num_rows > SCAN_LIMITS.current.max_cached_result_rows:
        return plan
    return dataclasses.replace(plan, tasks=(_KeptTask(plan.tasks[0]),))


def plan_footprint(plan: ScanPlan) -> Footprint:
    """Return what counts the memory of a plan, and of the batches that it keeps."""
    footprint = Footprint(_PLAN_BYTES + _TASK_BYTES * len(plan.tasks))
    for task in plan.tasks[:1]:
        if isinstance(task, _KeptTask):
            task.footprint = footprint
    return footprint


class _KeptTask:
    """A `ScanTask` that reads once."""

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
        """Yield the batches of the task. Threads that are first at once read it each."""
        found = self._batches
        if found is None:
            found = tuple(self._task.read())
            num_bytes = sum(batch.get_total_buffer_size() for batch in found)
            if num_bytes <= SCAN_LIMITS.current.max_cached_result_bytes:
                self._batches = found
                self.footprint.add(num_bytes + _TASK_BYTES)
        yield from found
