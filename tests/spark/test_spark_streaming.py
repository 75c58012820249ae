"""Structured Streaming on a real Spark: batches land once, also when the query starts again."""

from __future__ import annotations

import shutil

import pyarrow as pa
import pytest

import lance_df

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
