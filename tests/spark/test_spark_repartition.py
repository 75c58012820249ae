"""`lance_df.spark.repartition`: the steps of `PartitionedNamespace.repartition`, written by tasks."""

from __future__ import annotations

import pyarrow as pa
import pytest
from local_tasks import NO_SPARK, LocalTasks

import lance_df
from lance_df import partition
from lance_df.errors import NotFoundError, StorageError
from lance_df.namespace.changes import repartition as steps
from lance_df.spark.pipeline import repartitioning

COLUMNS = pa.schema([("k", pa.int64()), ("at", pa.timestamp("ns")), ("s", pa.string())])
ROWS = pa.table(
    [
        pa.array(range(600), pa.int64()),
        # nanoseconds, which Spark does not have
        pa.array([i * 10**12 + 7 for i in range(600)], pa.timestamp("ns")),
        pa.array([f"s{i % 5}" for i in range(600)]),
    ],
    COLUMNS,
)


@pytest.fixture
def root(tmp_path):
    """A namespace with rows in 5 members of an older spec version, and in one of the newest."""
    namespace = lance_df.PartitionedNamespace.create(tmp_path / "ns", COLUMNS, [partition.identity("s")])
    namespace.append(ROWS.slice(0, 300))
    namespace.append(ROWS.slice(300, 250))
    namespace.update_partition_spec([partition.bucket("k", 3)])
    namespace.append(ROWS.slice(550))
    return tmp_path / "ns"


@pytest.fixture
def tasks(monkeypatch):
    return LocalTasks().install(monkeypatch, repartitioning)


def opened(root):
    return lance_df.PartitionedNamespace.open(root)


def check(root):
    assert opened(root).to_table().sort_by("k") == ROWS
    assert lance_df.verify(root, deep=True).ok


@pytest.mark.spark
def test_rows_move_on_spark(spark, root):
    before = opened(root).version
    metrics = lance_df.spark.repartition(spark, root, task_bytes=1)
    assert (metrics.partitions, metrics.rows, metrics.commits) == (5, 550, 1)
    assert opened(root).version == before + 1
    check(root)
    assert opened(root).at(before).to_table().sort_by("k") == ROWS


def test_tasks_take_neighbours_and_steps_are_commits(root, tasks):
    before = opened(root).version
    metrics = lance_df.spark.repartition(NO_SPARK, root, step_bytes=1, task_bytes=1)
    assert (metrics.partitions, metrics.rows, metrics.commits) == (5, 550, 5)
    assert tasks.tasks["stage"] == 10
    assert opened(root).version == before + 5
    check(root)
    assert lance_df.spark.repartition(NO_SPARK, root).commits == 0
    assert opened(root).version == before + 5
    with pytest.raises(NotFoundError):
        lance_df.spark.repartition(NO_SPARK, root.parent / "none")


def test_a_task_that_is_killed_leaves_nothing_and_the_next_job_goes_on(tmp_path, tasks, monkeypatch):
    root = tmp_path / "ns"
    namespace = lance_df.PartitionedNamespace.create(root, COLUMNS, [partition.identity("s")])
    namespace.append(ROWS)
    namespace.update_partition_spec([partition.bucket("k", 3)])
    stage, calls = steps.stage_partitions, []

    def killed(*args, **kwargs):
        found = stage(*args, **kwargs)
        calls.append(found)
        if len(calls) == 3:
            raise StorageError("gone")
        return found

    with monkeypatch.context() as patched:
        patched.setattr(steps, "stage_partitions", killed)
        with pytest.raises(StorageError, match="gone"):
            lance_df.spark.repartition(NO_SPARK, root, step_bytes=1)
    assert opened(root).version == namespace.version + 2
    check(root)
    before = sorted(root.rglob("data/*"))
    with monkeypatch.context() as patched:
        # what a process that dies has written is there, and nobody knows of it
        patched.setattr(steps, "stage_partitions", lambda *args, **kwargs: (stage(*args, **kwargs), 1 / 0))
        with pytest.raises(ZeroDivisionError):
            lance_df.spark.repartition(NO_SPARK, root)
    assert sorted(root.rglob("data/*")) == before
    assert lance_df.spark.repartition(NO_SPARK, root).partitions == 3
    check(root)
