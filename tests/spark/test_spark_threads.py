"""Jobs of several threads, on a real Spark."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from pyspark.sql.functions import col
from pyspark.sql.pandas.functions import arrow_udf

import lance_df

PATIENCE = 120  # seconds, until a test fails that would wait for ever


def meeting_rows(spark, folder, first):
    """Return rows of one task, which waits for that of another job."""
    ends = time.time() + PATIENCE

    def meet(numbers: pa.Array) -> pa.Array:
        import time
        from pathlib import Path

        Path(folder, f"met-{first}").touch()
        while len(list(Path(folder).glob("met-*"))) < 2:
            if time.time() > ends:
                raise TimeoutError("the other job does not run")
            time.sleep(0.01)
        return numbers

    return spark.range(first, first + 100, 1, 1).select(arrow_udf(meet, "bigint")(col("id")).alias("k"))


@pytest.mark.spark
def test_two_jobs_at_once_on_one_namespace_both_land(spark, tmp_path):
    target = str(tmp_path / "ns")
    namespace = lance_df.PartitionedNamespace.create(target, pa.schema([("k", pa.int64())]), ["bucket(k, 3)"])

    def append():
        lance_df.spark.append(meeting_rows(spark, tmp_path, 0), target)

    def write():
        lance_df.spark.register(spark)
        meeting_rows(spark, tmp_path, 100).write.format("lance_df").mode("append").save(target)

    with ThreadPoolExecutor(2) as threads:
        for job in [threads.submit(append), threads.submit(write)]:
            job.result(2 * PATIENCE)
    opened = lance_df.PartitionedNamespace.open(target)
    assert opened.version == namespace.version + 2
    assert sorted(opened.to_table()["k"].to_pylist()) == list(range(200))
    assert lance_df.verify(target, deep=True).ok
