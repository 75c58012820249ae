"""Structured Streaming on a real Spark: batches land once, also when the query starts again."""

from __future__ import annotations

import shutil

import pyarrow as pa
import pytest

import lance_df
from lance_df.errors import UnsupportedFeatureError
from lance_df.spark.failures import typed_errors

pytestmark = pytest.mark.spark


def put(folder, name, count, first):
    rows = [f'{{"k": {k}, "s": "s{k % 3}"}}' for k in range(first, first + count)]
    (folder / f"{name}.json").write_text("\n".join(rows))


def run(spark, source, target, checkpoint):
    query = (
        spark.readStream.schema("k bigint, s string")
        .option("maxFilesPerTrigger", 1)
        .json(str(source))
        .writeStream.format("lance_df")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start(str(target))
    )
    assert query.awaitTermination(300)
    return query


@pytest.mark.parametrize("kind", ["table", "namespace"])
def test_batches_land_once_across_restarts(spark, tmp_path, kind):
    source, target, checkpoint = (tmp_path / name for name in ("source", "target", "checkpoint"))
    source.mkdir()
    if kind == "namespace":
        schema = pa.schema([("k", pa.int64()), ("s", pa.string())])
        lance_df.PartitionedNamespace.create(target, schema, ["identity(s)"])
    put(source, "a", 10, 0)
    run(spark, source, target, checkpoint)
    put(source, "b", 10, 10)
    run(spark, source, target, checkpoint)
    # as after a crash between the commit of the batch and Spark's note of it
    (checkpoint / "commits" / "1").unlink()
    (checkpoint / "commits" / ".1.crc").unlink(missing_ok=True)
    put(source, "c", 10, 20)
    run(spark, source, target, checkpoint)
    found = spark.read.format("lance_df").load(str(target)).toArrow()
    assert sorted(found["k"].to_pylist()) == list(range(30))
    # another query is another sequence of batches
    shutil.rmtree(checkpoint)
    run(spark, source, target, checkpoint)
    assert spark.read.format("lance_df").load(str(target)).count() == 60


def follow(spark, source, target, checkpoint, **options):
    """Copy what is new of a source into a target."""
    query = (
        spark.readStream.format("lance_df")
        .options(**options)
        .load(str(source))
        .writeStream.format("lance_df")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start(str(target))
    )
    with typed_errors():
        assert query.awaitTermination(300)


def test_new_rows_of_a_source_reach_a_sink_once(spark, tmp_path):
    source, target, checkpoint = (tmp_path / name for name in ("source", "target", "checkpoint"))
    schema = pa.schema([("k", pa.int64()), ("s", pa.string())])
    namespace = lance_df.PartitionedNamespace.create(source, schema, ["identity(s)"])

    def add(first):
        rows = pa.table({"k": range(first, first + 10), "s": ["a", "b"] * 5}, schema=schema)
        namespace.append(rows)

    add(0)
    follow(spark, source, target, checkpoint, maxVersionsPerTrigger=1)
    for first in (10, 20):
        add(first)
    follow(spark, source, target, checkpoint, maxVersionsPerTrigger=1)
    # as after a crash between the commit of a batch and Spark's note of it
    (checkpoint / "commits" / "2").unlink()
    (checkpoint / "commits" / ".2.crc").unlink(missing_ok=True)
    add(30)
    follow(spark, source, target, checkpoint, maxVersionsPerTrigger=1)
    copy = lance_df.dataset(target)
    assert sorted(copy.to_table()["k"].to_pylist()) == list(range(40))
    assert copy.version == 4
    namespace.delete("k = 3")
    with pytest.raises(UnsupportedFeatureError, match="skipChangeCommits"):
        follow(spark, source, target, checkpoint)
    assert lance_df.dataset(target).version == 4
