"""Jobs that are cancelled, or whose workers are killed, on a real Spark: nothing is seen, errors tell."""

from __future__ import annotations

import datetime as dt
import os
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.functions import col
from pyspark.sql.pandas.functions import arrow_udf

import lance_df
from lance_df.errors import JobCancelledError, JobFailedError
from lance_df.spark import IngestJob, IngestSource
from lance_df.spark.failures import OF_SPARK, typed_errors
from lance_df.spark.pipeline import compaction, repartitioning
from lance_df.spark.pipeline.tasks import run_in_tasks

pytestmark = pytest.mark.spark

PATIENCE = 120  # seconds, until a test fails that would wait for ever
SCHEMA = pa.schema([("k", pa.int64())])


def files(target):
    return sorted(path.name for path in Path(target).rglob("*.lance") if "__manifest" not in str(path))


def appears(path):
    """Wait for a file."""
    ends = time.monotonic() + PATIENCE
    while not Path(path).exists():
        if time.monotonic() > ends:
            raise TimeoutError(path)
        time.sleep(0.01)


@contextmanager
def cancelled_when(path, cancel):
    """Cancel jobs from another thread as soon as a file is there."""

    def run():
        appears(path)
        cancel()

    canceller = threading.Thread(target=run)
    canceller.start()
    try:
        yield
    finally:
        canceller.join(PATIENCE)


def rows_that_wait(spark, sign, written=None):
    """Return rows of two tasks. After some they wait for data files, make a sign, and wait.

    Without a sign they kill their process instead.
    """
    patience = PATIENCE

    def wait(numbers: pa.Array) -> pa.Array:
        import os
        import signal
        import time
        from pathlib import Path

        if numbers[0].as_py() % 100_000 < 80_000:
            return numbers
        for _ in range(patience * 20):
            found = [] if written is None else Path(written).rglob("*.lance")
            if written is None or any("__manifest" not in str(path) for path in found):
                if sign is None:
                    os.kill(os.getpid(), signal.SIGKILL)
                Path(sign).touch()
            time.sleep(0.05)
        raise TimeoutError("nobody cancelled the job")

    return spark.range(0, 200_000, 1, 2).select(arrow_udf(wait, "bigint")(col("id")).alias("k"))


def wait_for_workers(spark, folder):
    """Run two tasks that meet: as many as there are workers, so that no other task runs any more."""
    ends = time.time() + PATIENCE

    def meet(numbers: pa.Array) -> pa.Array:
        import time
        from pathlib import Path

        Path(folder, f"met-{numbers[0]}").touch()
        while len(list(Path(folder).glob("met-*"))) < 2:
            if time.time() > ends:
                raise TimeoutError("a task that was cancelled keeps its worker")
            time.sleep(0.01)
        return numbers

    assert spark.range(0, 2, 1, 2).select(arrow_udf(meet, "bigint")(col("id"))).count() == 2


def clean_up(dataset, target):
    """Remove all files; a worker that is being killed may yet finish one."""
    ends = time.time() + PATIENCE
    while True:
        dataset.cleanup_old_versions(dt.timedelta(0), delete_unverified=True)
        if not files(target) or time.time() > ends:
            break
        time.sleep(0.2)
    assert files(target) == []


def test_a_cancelled_write_leaves_what_can_be_cleaned_up(spark, tmp_path):
    target, sign = str(tmp_path / "t.lance"), tmp_path / "sign"
    lance_df.write_dataset(SCHEMA.empty_table(), target)
    # a table: tasks keep rows of partitions in memory until there are more of them
    rows = rows_that_wait(spark, sign, written=target)
    writer = rows.write.format("lance_df").mode("append").option("maxRowsPerFile", 5000)
    with (
        cancelled_when(sign, spark.sparkContext.cancelAllJobs),
        pytest.raises(JobCancelledError, match="cancelled") as raised,
        typed_errors(),
    ):
        writer.save(target)
    assert isinstance(raised.value.__cause__, OF_SPARK)
    wait_for_workers(spark, tmp_path)
    dataset = lance_df.dataset(target)
    assert (dataset.version, dataset.count_rows()) == (1, 0)
    assert files(target)  # of tasks that were killed while they wrote
    clean_up(dataset, target)


def test_workers_that_are_killed_each_time(spark, tmp_path):
    target = str(tmp_path / "t.lance")
    lance_df.write_dataset(SCHEMA.empty_table(), target)
    rows = rows_that_wait(spark, None, written=target)
    writer = rows.write.format("lance_df").mode("append").option("maxRowsPerFile", 5000)
    said = r"failed 2 times: Python worker exited unexpectedly \(crashed\)"
    with pytest.raises(JobFailedError, match=said) as raised, typed_errors():
        writer.save(target)
    assert isinstance(raised.value.__cause__, OF_SPARK)
    assert not isinstance(raised.value, JobCancelledError)
    with pytest.raises(JobFailedError, match=said):
        lance_df.spark.append(
            rows_that_wait(spark, None), tmp_path / "ns", partition_by=["bucket(k, 2)"], run_id="monday"
        )
    assert not (tmp_path / "ns" / "__manifest").exists()
    assert files(tmp_path / "ns") == []
    wait_for_workers(spark, tmp_path)
    dataset = lance_df.dataset(target)
    assert (dataset.version, dataset.count_rows()) == (1, 0)
    assert files(target)
    clean_up(dataset, target)


def test_cancelled_appends_and_ingests_say_so(spark, tmp_path):
    target, context = str(tmp_path / "ns"), spark.sparkContext
    namespace = lance_df.PartitionedNamespace.create(target, SCHEMA, ["bucket(k, 2)"])
    rows_that_wait(spark, tmp_path / "ingest").createOrReplaceGlobalTempView("rows_that_wait")
    source = IngestSource(name="rows", table="global_temp.rows_that_wait")
    try:
        with cancelled_when(tmp_path / "append", spark.interruptAll), pytest.raises(JobCancelledError):
            lance_df.spark.append(rows_that_wait(spark, tmp_path / "append"), target)
        context.setJobGroup("ours", "an ingest", interruptOnCancel=True)
        with (
            cancelled_when(tmp_path / "ingest", lambda: context.cancelJobGroup("ours")),
            pytest.raises(JobCancelledError, match="job group ours") as raised,
        ):
            lance_df.spark.ingest(IngestJob(sources=(source,), target=target, statistics=False), spark)
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)
        context.setLocalProperty("spark.job.interruptOnCancel", None)
        spark.catalog.dropGlobalTempView("rows_that_wait")
    assert isinstance(raised.value.__cause__, OF_SPARK)
    opened = lance_df.PartitionedNamespace.open(target)
    assert (opened.version, opened.count_rows(), files(target)) == (namespace.version, 0, [])


def test_cancelled_rewrites_leave_nothing(spark, tmp_path, monkeypatch):
    target = str(tmp_path / "ns")
    namespace = lance_df.PartitionedNamespace.create(target, SCHEMA, ["bucket(k, 2)"])
    for first in (0, 100):
        namespace.append(pa.table({"k": range(first, first + 100)}))
    namespace.update_partition_spec(["bucket(k, 3)"])
    before = lance_df.PartitionedNamespace.open(target).version, files(target)

    def cancelled_after(step):
        """Let tasks write, and then wait to be cancelled."""
        sign = tmp_path / step

        def run(spark, function, work):
            found = run_in_tasks(spark, function, work)
            if getattr(function, "func", function).__name__ != step:
                return found
            assert len(files(target)) > len(before[1])
            waits = f"touch {sign}; for i in $(seq {PATIENCE}); do [ -e {sign}.end ] && break; sleep 1; done"
            with cancelled_when(sign, spark.sparkContext.cancelAllJobs):
                return run_in_tasks(spark, os.system, [waits])

        return run

    for module, step, run in (
        (compaction, "_rewrite", lance_df.spark.compact),
        (repartitioning, "stage", lance_df.spark.repartition),
    ):
        monkeypatch.setattr(module, "run_in_tasks", cancelled_after(step))
        with pytest.raises(JobCancelledError) as raised:
            run(spark, target)
        (tmp_path / f"{step}.end").touch()
        assert isinstance(raised.value.__cause__, OF_SPARK)
        assert (lance_df.PartitionedNamespace.open(target).version, files(target)) == before
