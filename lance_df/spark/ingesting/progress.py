"""How far a job of Spark is, as far as Spark tells: tasks of the stage that runs, and what they have read.

Spark plans the next stage when it knows the results of this one, so that nobody knows how many tasks there
will be in all: shares and times left are those of the stage that runs.
"""

from __future__ import annotations

import threading
import time
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark import SparkContext

_INTERVAL: Final = 0.5


@dataclass(frozen=True, slots=True)
class IngestProgress:
    """What is known while an ingest runs.

    Attributes
    ----------
    seconds
        Since it began.
    stage
        The number of the stage that runs, counted from 1; 0 before the first one.
    partitions_done, partitions
        Partitions of the rows, as Spark cuts them: tasks of this stage.
    rows, bytes
        That finished tasks of this stage have read, from files or from the stage before; Spark does not count
        what Python sources read.
    seconds_left
        Of this stage, once a partition is done.
    """

    seconds: float
    stage: int = 0
    partitions_done: int = 0
    partitions: int = 0
    rows: int = 0
    bytes: int = 0
    seconds_left: float | None = None


@contextmanager
def watched(
    context: SparkContext, listener: Callable[[IngestProgress], None] | None, *, interval: float = _INTERVAL
) -> Iterator[None]:
    """Tell a listener of the jobs that this thread runs meanwhile."""
    if listener is None:
        yield
        return
    group = str(uuid.uuid4())
    former = context.getLocalProperty("spark.jobGroup.id")
    context.setLocalProperty("spark.jobGroup.id", group)
    ended = threading.Event()
    watcher = Watcher(context, group)

    def watch() -> None:
        while not ended.wait(interval):
            try:
                progress = watcher.look()
            except (Py4JError, OSError):
                return  # the session has ended
            listener(progress)

    thread = threading.Thread(target=watch, name="lance_df-ingest-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        context.setLocalProperty("spark.jobGroup.id", former)  # type: ignore[arg-type] # None takes it away


class Watcher:
    """Looks at the jobs of a group."""

    def __init__(
        self, context: SparkContext, group: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._context = context
        self._group = group
        self._clock = clock
        self._began = clock()
        self._stages: dict[int, float] = {}

    def look(self) -> IngestProgress:
        """Return what is known now."""
        now = self._clock()
        stage = self._running()
        if stage is None:
            return IngestProgress(now - self._began, len(self._stages))
        began = self._stages.setdefault(stage, now)
        info = self._context.statusTracker().getStageInfo(stage)
        if info is None:
            return IngestProgress(now - self._began, len(self._stages))
        done, total = info.numCompletedTasks, info.numTasks
        rows, size = self._read(stage)
        left = None if done == 0 else (now - began) / done * (total - done)
        return IngestProgress(now - self._began, len(self._stages), done, total, rows, size, left)

    def _running(self) -> int | None:
        """Return the newest stage of the group that runs."""
        tracker = self._context.statusTracker()
        active = set(tracker.getActiveStageIds())
        ours: set[int] = set()
        for job in tracker.getJobIdsForGroup(self._group):
            info = tracker.getJobInfo(job)
            if info is not None:
                ours.update(info.stageIds)
        return max(active & ours, default=None)

    def _read(self, stage: int) -> tuple[int, int]:
        """Return rows and bytes that finished tasks of a stage have read."""
        # the public tracker counts tasks only
        jvm = self._context._jsc
        if jvm is None:
            return 0, 0
        data = jvm.sc().statusStore().lastStageAttempt(stage)
        return (
            data.inputRecords() + data.shuffleReadRecords(),
            data.inputBytes() + data.shuffleReadBytes(),
        )
