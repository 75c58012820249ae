"""Report the progress of a Spark job: the tasks of the running stage, and the data that they have read.

Spark plans the next stage with the results of the current one, so the total number of tasks is unknown.
Shares and remaining times are those of the running stage.
"""

from __future__ import annotations

import threading
import time
import uuid
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from lance_df.records import dataclass
from lance_df.spark.failures import OF_SPARK
from lance_df.spark.sessions import is_connect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_INTERVAL: Final = 0.5
_ENDED: Final[tuple[type[Exception], ...]] = (*OF_SPARK, OSError)


@dataclass(frozen=True, slots=True)
class IngestProgress:
    """The progress of a running ingest.

    Attributes
    ----------
    seconds
        Seconds since the ingest began.
    stage
        The number of the running stage, counted from 1; 0 before the first one.
    partitions_done, partitions
        Numbers of Spark's partitions of the rows, each of which is a task of this stage.
    rows, bytes
        Rows and bytes that finished tasks of this stage have read, from files or from the previous stage.
        Spark does not count reads of Python sources.
    seconds_left
        Estimated seconds until the end of this stage; None until a partition is done.
    """

    seconds: float
    stage: int = 0
    partitions_done: int = 0
    partitions: int = 0
    rows: int = 0
    bytes: int = 0
    seconds_left: float | None = None


@contextmanager
def watched(spark: SparkSession, listener: Callable[[IngestProgress], None] | None) -> Iterator[None]:
    """Report to a listener the jobs that this thread runs within the context."""
    if listener is None:
        yield
    elif is_connect(spark):
        reports: Any = ServerReports(listener)
        spark.registerProgressHandler(reports)
        try:
            yield
        finally:
            spark.removeProgressHandler(reports)
    else:
        with watched_driver(spark.sparkContext, listener):
            yield


class ServerReports:
    """Passes the reports of a Spark Connect server to a listener: stages, tasks and bytes."""

    def __init__(
        self, listener: Callable[[IngestProgress], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._listener = listener
        self._clock = clock
        self._began = clock()
        self._stages: dict[int, float] = {}

    def __call__(self, stages: Iterable[Any] | None, **_: object) -> None:
        """Pass a report of PySpark to the listener."""
        now = self._clock()
        running = [stage for stage in stages or () if not stage.done]
        if not running:
            self._listener(IngestProgress(now - self._began, len(self._stages)))
            return
        stage = max(running, key=lambda stage: stage.stage_id)
        began = self._stages.setdefault(stage.stage_id, now)
        done, total = stage.num_completed_tasks, stage.num_tasks
        left = _seconds_left(now - began, done, total)
        progress = IngestProgress(now - self._began, len(self._stages), done, total)
        self._listener(replace(progress, bytes=stage.num_bytes_read, seconds_left=left))


@contextmanager
def watched_driver(
    context: SparkContext, listener: Callable[[IngestProgress], None], *, interval: float = _INTERVAL
) -> Iterator[None]:
    """Report to a listener the jobs that this thread runs within the context; for a local driver."""
    group = str(uuid.uuid4())
    former = context.getLocalProperty("spark.jobGroup.id")
    context.setLocalProperty("spark.jobGroup.id", group)
    ended = threading.Event()
    watcher = Watcher(context, group)

    def watch() -> None:
        while not ended.wait(interval):
            try:
                progress = watcher.look()
            except _ENDED:
                return
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
    """Reads the state of the jobs in a Spark job group."""

    def __init__(
        self, context: SparkContext, group: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._context = context
        self._group = group
        self._clock = clock
        self._began = clock()
        self._stages: dict[int, float] = {}

    def look(self) -> IngestProgress:
        """Return the current progress."""
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
        left = _seconds_left(now - began, done, total)
        return IngestProgress(now - self._began, len(self._stages), done, total, rows, size, left)

    def _running(self) -> int | None:
        """Return the newest running stage of the group."""
        tracker = self._context.statusTracker()
        active = set(tracker.getActiveStageIds())
        ours: set[int] = set()
        for job in tracker.getJobIdsForGroup(self._group):
            info = tracker.getJobInfo(job)
            if info is not None:
                ours.update(info.stageIds)
        return max(active & ours, default=None)

    def _read(self, stage: int) -> tuple[int, int]:
        """Return the numbers of rows and bytes that finished tasks of a stage have read."""
        # the public tracker counts tasks only
        jvm = self._context._jsc
        if jvm is None:
            return 0, 0
        data = jvm.sc().statusStore().lastStageAttempt(stage)
        return (
            data.inputRecords() + data.shuffleReadRecords(),
            data.inputBytes() + data.shuffleReadBytes(),
        )


def _seconds_left(seconds: float, done: int, total: int) -> float | None:
    return None if done == 0 else seconds / done * (total - done)
