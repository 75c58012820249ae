"""The tasks of one scan node of one physical plan, distributed over the partitions that DataFusion runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from lance_df.forks import new_lock
from lance_df.scan.plan import ScanTask


class WorkList:
    """A queue of tasks that the partitions of one scan node share, first come, first served.

    DataFusion may execute the same plan again; a recursive query does so once for each iteration. The n-th
    execution of a partition belongs to the n-th round, and every round distributes all tasks.
    """

    def __init__(self) -> None:
        self._lock = new_lock()
        self._executions: Counter[int] = Counter()
        self._rounds: list[Iterator[ScanTask]] = []

    def start(self, partition: int, tasks: Sequence[ScanTask]) -> Iterator[ScanTask]:
        """Start an execution of ``partition`` and return an iterator over the tasks that it takes."""
        with self._lock:
            number = self._executions[partition]
            self._executions[partition] += 1
            while len(self._rounds) <= number:
                self._rounds.append(iter(tasks))
            shared = self._rounds[number]
        return self._take(shared)

    def _take(self, shared: Iterator[ScanTask]) -> Iterator[ScanTask]:
        while True:
            with self._lock:
                task = next(shared, None)
            if task is None:
                return
            yield task
