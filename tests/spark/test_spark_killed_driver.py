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


def test_a_killed_driver_leaves_nothing_that_is_seen_and_a_rerun_adds_all_once(spark, spark_conf, tmp_path):
    root, written, released, told = (tmp_path / name for name in ("target", "written", "released", "told"))
    old = pa.table({"k": pa.array([-1, -2], pa.int32()), "s": ["a", "ü b"]})
    lance_df.PartitionedNamespace.create(root, old.schema, ["identity(s)"]).append(old)
    before = data_files(root), rows_of(root), lance_df.PartitionedNamespace.open(root).version
    arguments = [str(root), str(written), str(released), json.dumps(spark_conf)]
    with told.open("w") as out:
        process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", DRIVER, *arguments],
            start_new_session=True,
            stdout=out,
            stderr=out,
        )
    try:
        kill_when_written(process, written, told)
    finally:
        released.touch()  # for a worker that outlives its driver
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

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
