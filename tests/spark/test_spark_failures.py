"""Tasks that fail or die, on a real Spark: nothing is lost, nothing comes twice, and the error is typed."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql.functions import col
from pyspark.sql.pandas.functions import arrow_udf

import lance_df
from lance_df.errors import CorruptDataError, InvalidInputError, RetryableConflictError
from lance_df.spark.failures import typed_errors

pytestmark = pytest.mark.spark


def files(target):
    return sorted(path.name for path in Path(target).rglob("*.lance") if "__manifest" not in str(path))


def dying_once(folder):
    """Return a function of rows that ends the process of the first task that sees the number 777."""

    def die(numbers: pa.Array) -> pa.Array:
        import os

        if 777 in numbers.to_pylist():
            try:
                os.close(os.open(f"{folder}/died", os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return numbers
            os._exit(1)
        return numbers

    return arrow_udf(die, "bigint")


def test_a_worker_that_dies_is_replaced(spark, tmp_path):
    target = str(tmp_path / "target")
    schema = pa.schema([("k", pa.int64())])
    lance_df.PartitionedNamespace.create(target, schema, ["bucket(k, 2)"])
    rows = spark.range(0, 1000, 1, 2).select(dying_once(tmp_path)(col("id")).alias("k"))
    rows.write.format("lance_df").mode("append").option("maxRowsPerFile", 100).save(target)
    assert (tmp_path / "died").exists()
    found = spark.read.format("lance_df").load(target).toArrow()
    assert sorted(found["k"].to_pylist()) == list(range(1000))
    lance_df.PartitionedNamespace.open(target).cleanup_old_versions(dt.timedelta(0), delete_unverified=True)
    assert spark.read.format("lance_df").load(target).count() == 1000


@pytest.mark.parametrize("num_tasks", [1, 2])
def test_a_job_that_fails_for_good_leaves_nothing(spark, tmp_path, num_tasks):
    target = str(tmp_path / "t.lance")
    lance_df.write_dataset(pa.table({"k": pa.array([1], pa.int16())}), target)
    before = files(target)
    rows = spark.range(0, 100_000, 1, num_tasks).toDF("k")
    with pytest.raises(InvalidInputError, match="'k'") as raised, typed_errors():
        rows.write.format("lance_df").mode("append").save(target)
    assert isinstance(raised.value.__cause__, PySparkException)
    dataset = lance_df.dataset(target)
    assert dataset.version == 1
    if num_tasks > 1:  # Spark kills the others when one task has failed
        dataset.cleanup_old_versions(dt.timedelta(0), delete_unverified=True)
    assert files(target) == before


def test_a_file_that_vanishes_is_named(spark, tmp_path):
    target = str(tmp_path / "t.lance")
    lance_df.write_dataset(pa.table({"k": [1, 2]}), target)
    df = spark.read.format("lance_df").load(target)
    name = files(target)[0]
    (tmp_path / "t.lance" / "data" / name).unlink()
    with pytest.raises(CorruptDataError, match=name), typed_errors():
        df.count()


def test_columns_that_change_while_tasks_write_are_a_conflict(spark, tmp_path):
    target = str(tmp_path / "target")
    schema = pa.schema([("k", pa.int64()), ("s", pa.string())])
    namespace = lance_df.PartitionedNamespace.create(target, schema, ["bucket(k, 2)"])

    def meddle(numbers: pa.Array) -> pa.Array:
        import lance_df

        # Spark may call it more than once for a row
        opened = lance_df.PartitionedNamespace.open(target)
        if "s" in opened.schema.names:
            opened.drop_columns(["s"])
        return numbers

    rows = spark.range(0, 10, 1, 1).select(arrow_udf(meddle, "bigint")(col("id")).alias("k"))
    writer = rows.selectExpr("k", "'x' AS s").write.format("lance_df").mode("append")
    with pytest.raises(RetryableConflictError, match="schema") as raised, typed_errors():
        writer.save(target)
    assert isinstance(raised.value.__cause__, PySparkException)
    opened = lance_df.PartitionedNamespace.open(target)
    assert (opened.version, opened.count_rows(), files(target)) == (namespace.version + 1, 0, [])
