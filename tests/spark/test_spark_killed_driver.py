"""A driver that is killed between the data and the commit: Python, its JVM and all their workers at once."""

from __future__ import annotations

import datetime as dt
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

import lance_df
from lance_df.spark import IngestJob, IngestSource, ingest

pytestmark = pytest.mark.spark

DRIVER = """
import json, sys, time
from pathlib import Path

import lance_df
from lance_df.spark.source import LanceSource

root, written, released, conf = sys.argv[1:]


class Held(LanceSource):
    # says that all tasks have written, and commits nothing

    def writer(self, schema, overwrite):
        writer = super().writer(schema, overwrite)

        def commit(messages):
            Path(written).touch()
            while not Path(released).exists():
                time.sleep(0.01)
            raise RuntimeError("held")

        writer.commit = commit
        return writer


spark = lance_df.spark.session("local[2]", conf=json.loads(conf))
spark.dataSource.register(Held)
rows = spark.sql("SELECT INT(id) AS k, IF(id % 2 = 0, 'a', 'new$ 1') AS s FROM range(0, 6, 1, 2)")
rows.write.format("lance_df").option("runId", "first").mode("append").save(root)
"""


INGEST = """
import json, sys

import lance_df
from lance_df.spark import IngestJob, IngestSource, ingest

source, target, rejects, conf = sys.argv[1:]
spark = lance_df.spark.session("local[2]", conf=json.loads(conf))
job = IngestJob(
    sources=(IngestSource(name="rows", paths=(source,)),),
    target=target, schema="k INT, s STRING", rejects=rejects, id="monday",
)
ingest(job, spark)
"""

# loaded by the workers of the driver
HOLD_REJECTS = """
import os, time
from pathlib import Path

from lance_df.spark.ingesting.sink import IngestWriter


def held(self, report, done):
    # the rows are visible, the rejects are not
    Path(os.environ["WRITTEN"]).touch()
    while not Path(os.environ["RELEASED"]).exists():
        time.sleep(0.01)
    os._exit(1)


IngestWriter._with_rejects = held
"""

UPSERTS = """
import json, sys, time
from pathlib import Path

import lance_df
from lance_df.spark.changes import merging

source, target, checkpoint, written, released, conf, moment = sys.argv[1:]


def hold():
    Path(written).touch()
    while not Path(released).exists():
        time.sleep(0.01)
    raise RuntimeError("held")


if moment == "before the commit":
    run = merging._Merge.run

    def held(self, *args):
        run(self, *args)
        hold()

    merging._Merge.run = held

spark = lance_df.spark.session("local[2]", conf=json.loads(conf))
upsert = lance_df.spark.upsert_batches(
    target,
    on="k",
    sink_id="sums",
    clauses=lambda merge: merge.when_matched_update(
        {"n": "target.n + source.n"}
    ).when_not_matched_insert(),
)


def upsert_and_hold(batch, number):
    upsert(batch, number)
    hold()


stream = spark.readStream.schema("k bigint, n bigint").json(source)
query = stream.writeStream.foreachBatch(upsert_and_hold).option("checkpointLocation", checkpoint)
query.trigger(availableNow=True).start().awaitTermination(300)
"""


def data_files(root):
    return sorted(path for path in Path(root).rglob("data/*.lance") if "__manifest" not in path.parts)


def rows_of(root):
    found = lance_df.PartitionedNamespace.open(root).to_table()
    return sorted(zip(found["k"].to_pylist(), found["s"].to_pylist(), strict=True))


def kill_when_written(process, written, told):
    """Wait until nothing but the commit is left to do, and kill the whole driver."""
    until = time.monotonic() + 300
    while not written.exists():
        assert process.poll() is None, told.read_text()
        assert time.monotonic() < until, "the driver has not come to its commit"
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)


def run_until_written(program, arguments, written, released, told, **environment):
    """Run a driver in a process of its own, and kill it when it says that it has written."""
    with told.open("w") as out:
        process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", program, *arguments],
            start_new_session=True,
            stdout=out,
            stderr=out,
            env=os.environ | environment,
        )
    try:
        kill_when_written(process, written, told)
    finally:
        released.touch()  # for a worker that outlives its driver
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_a_killed_driver_leaves_nothing_that_is_seen_and_a_rerun_adds_all_once(spark, spark_conf, tmp_path):
    root, written, released, told = (tmp_path / name for name in ("target", "written", "released", "told"))
    old = pa.table({"k": pa.array([-1, -2], pa.int32()), "s": ["a", "ü b"]})
    lance_df.PartitionedNamespace.create(root, old.schema, ["identity(s)"]).append(old)
    before = data_files(root), rows_of(root), lance_df.PartitionedNamespace.open(root).version
    arguments = [str(root), str(written), str(released), json.dumps(spark_conf)]
    run_until_written(DRIVER, arguments, written, released, told)

    namespace = lance_df.PartitionedNamespace.open(root)
    assert len(data_files(root)) > len(before[0])
    assert (rows_of(root), namespace.version) == before[1:]

    namespace.cleanup_old_versions(dt.timedelta(0), delete_unverified=True)
    lance_df.PartitionedNamespace.repair(root, remove_orphans=True, older_than=dt.timedelta(0))
    assert data_files(root) == before[0]
    assert lance_df.verify(root).ok

    new = [(0, "a"), (1, "new$ 1"), (2, "a"), (3, "new$ 1"), (4, "a"), (5, "new$ 1")]
    rows = spark.createDataFrame(new, "k INT, s STRING").coalesce(1)
    for _ in range(2):
        rows.write.format("lance_df").option("runId", "first").mode("append").save(str(root))
        assert rows_of(root) == sorted([(-2, "ü b"), (-1, "a"), *new])


def test_an_ingest_that_is_killed_between_its_rows_and_its_rejects_is_finished_by_the_next(
    spark, spark_conf, tmp_path
):
    source, target, rejects, written, released, told = (
        tmp_path / name for name in ("rows.csv", "target", "rejects", "written", "released", "told")
    )
    source.write_text("k,s\n1,one\nmany,two\n3,three\n")
    (tmp_path / "hold_rejects.py").write_text(HOLD_REJECTS)
    run_until_written(
        INGEST,
        [str(source), str(target), str(rejects), json.dumps(spark_conf)],
        written,
        released,
        told,
        WRITTEN=str(written),
        RELEASED=str(released),
        PYTHONPATH=os.pathsep.join([str(tmp_path), os.environ["PYTHONPATH"]]),
        PRELOAD_IN_WORKERS="hold_rejects",
    )
    rows = [{"k": 1, "s": "one"}, {"k": 3, "s": "three"}]
    assert lance_df.dataset(target).to_table().to_pylist() == rows
    assert not rejects.exists() or not list(rejects.glob("_versions/*.manifest"))

    job = IngestJob(
        sources=(IngestSource(name="rows", paths=(str(source),)),),
        target=str(target),
        schema="k INT, s STRING",
        rejects=str(rejects),
        id="monday",
    )
    done = ingest(job, spark)
    assert (done.is_repeated, done.version, done.rows_rejected) == (True, 1, 1)
    assert lance_df.dataset(target).to_table().to_pylist() == rows
    (reject,) = lance_df.dataset(rejects).to_table().to_pylist()
    assert (reject["run"], reject["column"], reject["code"]) == ("monday", "k", "VALUE_DOES_NOT_FIT")
    assert json.loads(reject["row"]) == {"k": "many", "s": "two"}
    assert ingest(job, spark).rows_rejected == 0
    assert lance_df.dataset(rejects).count_rows() == 1


@pytest.mark.parametrize(
    ("kind", "moment"),
    [("namespace", "before the commit"), ("table", "between the commit and the checkpoint")],
)
def test_upserts_of_a_killed_stream_are_there_exactly_once(spark, spark_conf, tmp_path, kind, moment):
    source, target, checkpoint, written, released, told = (
        tmp_path / name for name in ("source", "target", "checkpoint", "written", "released", "told")
    )
    source.mkdir()
    (source / "a.json").write_text("\n".join(f'{{"k": {k}, "n": 1}}' for k in range(20)))
    old = pa.table({"k": range(10), "n": [100] * 10})
    if kind == "namespace":
        lance_df.PartitionedNamespace.create(target, old.schema, ["bucket(k, 2)"]).append(old)
    else:
        lance_df.write_dataset(old, target)
    wanted = [(k, 101) for k in range(10)] + [(k, 1) for k in range(10, 20)]

    def rows():
        found = lance_df.spark.read(spark, str(target)).select("k", "n").collect()
        return sorted((row.k, row.n) for row in found)

    arguments = [source, target, checkpoint, written, released]
    run_until_written(
        UPSERTS, [*map(str, arguments), json.dumps(spark_conf), moment], written, released, told
    )
    assert rows() == ([(k, 100) for k in range(10)] if moment == "before the commit" else wanted)
    assert not list((checkpoint / "commits").glob("[0-9]*"))

    upsert = lance_df.spark.upsert_batches(
        target,
        on="k",
        sink_id="sums",
        clauses=lambda merge: merge.when_matched_update(
            {"n": "target.n + source.n"}
        ).when_not_matched_insert(),
    )
    stream = spark.readStream.schema("k bigint, n bigint").json(str(source))
    query = stream.writeStream.foreachBatch(upsert).option("checkpointLocation", str(checkpoint))
    assert query.trigger(availableNow=True).start().awaitTermination(300)
    assert rows() == wanted
    assert list((checkpoint / "commits").glob("[0-9]*"))
    assert lance_df.verify(target, deep=True).ok
