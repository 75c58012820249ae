"""Rows cross to writers in batches of few rows, without a bound for bytes, where that is safe."""

from __future__ import annotations

import datetime as dt
import warnings

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DecimalType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

import lance_df
from lance_df.namespace.snapshot import NamespaceSnapshot
from lance_df.spark.appending import routed
from lance_df.spark.opened import SourceRef
from lance_df.spark.options import SourceOptions
from lance_df.spark.row_batches import bounded_by_rows, joined
from lance_df.storage import open_location

pytestmark = pytest.mark.spark

ROWS, BYTES = (f"spark.sql.execution.arrow.max{what}PerBatch" for what in ("Records", "Bytes"))
ADVISORY = "spark.sql.adaptive.advisoryPartitionSizeInBytes"
NARROW = StructType([StructField(name, kind) for name, kind in {"n": LongType(), "s": StringType()}.items()])


def of(data_type):
    return StructType([StructField("x", data_type)])


@pytest.fixture
def setting(spark):
    """Set something for the session, until the test ends."""
    names = []

    def change(name, value):
        names.append(name)
        spark.conf.set(name, value)

    yield change
    for name in names:
        spark.conf.unset(name)


def crossed(spark):
    """Return the rows of each batch that crosses from a task."""

    def count(batches):
        for batch in batches:
            yield pa.record_batch([pa.array([batch.num_rows])], ["n"])

    with warnings.catch_warnings():
        # of pandas, which is not used here
        warnings.simplefilter("ignore", FutureWarning)
        rows = spark.range(0, 2500, numPartitions=1).mapInArrow(count, "n long").collect()
    return [row.n for row in rows]


def test_batches_have_few_rows_and_no_bound_for_bytes(spark):
    local = spark.sparkContext.getLocalProperty
    spark.sparkContext.setLocalProperty(ROWS, "2000")
    with bounded_by_rows(spark, NARROW):
        assert crossed(spark) == [1000, 1000, 500]
        assert local(BYTES) == str(2**31 - 1)
    assert local(BYTES) is None
    assert local(ROWS) == "2000"
    spark.sparkContext.setLocalProperty(ROWS, None)
    assert crossed(spark) == [2500]


def test_what_the_session_sets_holds(spark, setting):
    setting(BYTES, "64")
    with bounded_by_rows(spark, NARROW):
        assert len(crossed(spark)) > 10
    setting(ROWS, "2000")
    with bounded_by_rows(spark, NARROW):
        assert crossed(spark)[0] < 100
        assert spark.sparkContext.getLocalProperty(BYTES) is None


@pytest.mark.parametrize(
    ("data_type", "is_bounded"),
    [
        (IntegerType(), True),
        (DecimalType(30, 2), True),
        (NARROW, True),
        (BinaryType(), False),
        (ArrayType(IntegerType()), False),
        (of(of(BinaryType())), False),
    ],
)
def test_rows_that_may_be_wide_are_bounded_by_bytes(spark, data_type, is_bounded):
    with bounded_by_rows(spark, of(data_type)):
        assert (spark.sparkContext.getLocalProperty(BYTES) is not None) == is_bounded


def test_writers_put_small_batches_together():
    rows = pa.table({"n": range(50_000), "s": [None if n % 7 == 0 else f"text {n}" for n in range(50_000)]})
    found = list(joined(rows.to_batches(max_chunksize=1000)))
    assert pa.Table.from_batches(found) == rows
    assert [batch.num_rows for batch in found] == [17_000, 17_000, 16_000]
    wide = pa.table({"s": ["x" * 3_000_000] * 8})
    assert [batch.num_rows for batch in joined(wide.to_batches(max_chunksize=1))] == [3, 3, 2]
    one = rows.to_batches()[0]
    assert next(joined([one])) is one
    assert list(joined([])) == []


def test_small_tasks_are_not_sorted_by_spark(spark, tmp_path, setting):
    days = [dt.date(2024, 1, 1) + dt.timedelta(n % 150) for n in range(500)]
    table = pa.table({"day": days, "k": range(500)})
    root = str(tmp_path / "ns")
    frame = spark.createDataFrame(table).repartition(4)
    lance_df.spark.append(frame, root, partition_by=["month(day)"])
    namespace = lance_df.PartitionedNamespace.open(root)
    assert namespace.to_table().sort_by("k") == table
    names = namespace.partitions()["location"].to_pylist()
    assert [len(lance_df.dataset(f"{root}/{name}").get_fragments()) for name in names] == [1] * 5
    snapshot = NamespaceSnapshot.open(open_location(root))
    ref = SourceRef.of(snapshot, SourceOptions(root))

    def is_sorted(sort_by=(), distribution="hash"):
        found = routed(frame, ref, snapshot, sort_by, distribution=distribution)
        assert found.columns == ["day", "k"]
        return "Sort [" in found._jdf.queryExecution().optimizedPlan().toString()

    assert not is_sorted()
    assert is_sorted(["k"])
    assert is_sorted(distribution="none")
    for size, wanted in (("65536k", False), ("64MB", False), ("1g", True), ("100000000", True), ("?", True)):
        if size == "?":
            setting("spark.sql.adaptive.enabled", "false")
        else:
            setting(ADVISORY, size)
        assert is_sorted() == wanted
