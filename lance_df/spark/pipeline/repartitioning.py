"""`repartition`: move rows from partitions of older spec versions to partitions of the newest one."""

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

# The least number of members that one task checks.
_SEEN_AT_ONCE = 256


def repartition(
    spark: SparkSession,
    root: str | os.PathLike[str],
    *,
    step_bytes: int = STEP_BYTES,
    task_bytes: int = TASK_BYTES,
    storage_options: Mapping[str, Any] | None = None,
) -> RepartitionMetrics:
    """Move rows from partitions of older spec versions to partitions of the newest one.

    The job works in steps. In each step, tasks copy the rows of some partitions, and one commit replaces the
    old rows by the copies. If the job dies, the committed steps remain, and the next call moves the rest. The
    emptied partitions remain. If there is nothing to move, there is no new version.

    Parameters
    ----------
    root
        Path of the namespace.
    step_bytes
        Stored bytes to move in one commit. A larger partition is moved in one commit, too.
    task_bytes
        Stored bytes for one task. Each task writes separate files in each new partition; `compact` joins
        them.
    storage_options
        Options for the fsspec filesystem.

    Raises
    ------
    NotFoundError
        The partitioned namespace does not exist.
    RetryableConflictError
        Every attempt conflicted with other changes of the rows to move.
    UnsupportedFeatureError
        Blobs may lie in base paths of a single partition.
    CommitStateUnknownError
        It is not known whether a step was published. Another call does no harm.
    LanceError
        A task failed. Spark's error is the cause.
    """
    check_task_bytes(task_bytes)
    snapshot = NamespaceSnapshot.open(open_location(root, storage_options))
    workers = _Tasks(spark, task_bytes)
    return repartition_namespace(snapshot.root, snapshot.manifest, workers, step_bytes=step_bytes)[1]


class _Tasks:
    """Runs the steps in Spark tasks."""

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
        """Write copies of the rows to their new partitions."""
        # in order, so that each task writes to few partitions
        tasks = cut_in_order(rows, num_workers(self._spark), self._task_bytes)
        return run_in_tasks(self._spark, job.stage, tasks)
