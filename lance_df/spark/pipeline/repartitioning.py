"""`repartition`: move rows of partitions of older spec versions to those of the newest one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lance_df.namespace.changes.repartition import (
    STEP_BYTES,
    MoveJob,
    OldRows,
    RepartitionMetrics,
    old_rows_of,
)
from lance_df.namespace.changes.repartition import repartition as repartition_namespace
from lance_df.namespace.snapshot import NamespaceSnapshot
from lance_df.spark.pipeline.tasks import (
    TASK_BYTES,
    check_task_bytes,
    cut_in_order,
    evenly,
    num_workers,
    run_in_tasks,
)
from lance_df.storage import open_location

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from pyspark.sql import SparkSession

    from lance_df.namespace.changes.advanced import MemberRef
    from lance_df.namespace.changes.staged import StagedPartitions

# Members to check in one task, at least.
_SEEN_AT_ONCE = 256


def repartition(
    spark: SparkSession,
    root: str | os.PathLike[str],
    *,
    step_bytes: int = STEP_BYTES,
    task_bytes: int = TASK_BYTES,
    storage_options: Mapping[str, Any] | None = None,
) -> RepartitionMetrics:
    """Move the rows of partitions of older spec versions to those of the newest one.

    Step by step: tasks write the rows of some partitions anew, and one commit shows them where they are to
    be, and no longer where they were. When the job dies, what was moved stays moved, and the next call goes
    on with the rest. Partitions without rows are left behind. Without anything to do there is no new version.

    Parameters
    ----------
    root
        Of the namespace.
    step_bytes
        Stored bytes to move by one commit; a partition that has more is moved by one all the same.
    task_bytes
        Stored bytes for one task, which writes files of its own in each new partition: `compact` joins these.
    storage_options
        For the fsspec filesystem.

    Raises
    ------
    NotFoundError
        There is no partitioned namespace.
    RetryableConflictError
        Others changed what was to be moved, again and again.
    UnsupportedFeatureError
        Blobs may lie in base paths of a single partition.
    CommitStateUnknownError
        It is not known whether a step was published. To run again does no harm.
    LanceError
        What went wrong in a task, with Spark's error as its cause.
    """
    check_task_bytes(task_bytes)
    snapshot = NamespaceSnapshot.open(open_location(root, storage_options))
    workers = _Tasks(spark, task_bytes)
    return repartition_namespace(snapshot.root, snapshot.manifest, workers, step_bytes=step_bytes)[1]


class _Tasks:
    """The work is done by tasks of Spark."""

    def __init__(self, spark: SparkSession, task_bytes: int) -> None:
        self._spark = spark
        self._task_bytes = task_bytes

    def old_rows(self, members: Sequence[MemberRef]) -> list[OldRows]:
        """Return the fragments of members that have rows."""
        tasks = evenly(members, num_workers(self._spark), _SEEN_AT_ONCE)
        old_rows = [rows for part in run_in_tasks(self._spark, old_rows_of, tasks) for rows in part]
        order = {member.name: number for number, member in enumerate(members)}
        return sorted(old_rows, key=lambda rows: order[rows.member.name])

    def stage(self, job: MoveJob, rows: Sequence[OldRows]) -> list[StagedPartitions]:
        """Write rows anew."""
        # in their order: each task is to write to few partitions
        tasks = cut_in_order(rows, num_workers(self._spark), self._task_bytes)
        return run_in_tasks(self._spark, job.stage, tasks)
