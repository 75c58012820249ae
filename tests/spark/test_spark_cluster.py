"""A cluster of two workers: packages from an archive, S3 with credentials in tasks, executors that die."""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pytest

import lance_df

pytestmark = pytest.mark.spark

ROOT = Path(__file__).resolve().parents[2]
ROWS = 40_000
TASKS = 8

DRIVER = """
import json, sys, time
from pathlib import Path

from pyspark.sql import functions as F

import lance_df

root, files, storage, told = sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), sys.argv[4]
spark = lance_df.spark.session()
answers = {}


def where(batches):
    import os, socket
    import lance_df
    import pyarrow as pa

    for _ in batches:
        pass
    yield pa.RecordBatch.from_pydict({"file": [lance_df.__file__], "worker": [os.getcwd()]})


found = set()
for _ in range(30):  # an executor that is slow to start may lose its tasks to copies on the other one
    rows = spark.range(0, 64, 1, 8).mapInArrow(where, "file STRING, worker STRING").distinct().collect()
    found |= {(row["file"], row["worker"]) for row in rows}
    if len({worker for _, worker in found}) == 2:
        break
    time.sleep(1)
answers["packages"] = sorted(found)


def once(name, action):
    # In the first attempt of one task only, wherever it runs.

    def act(batches):
        import os, signal, time
        from pathlib import Path
        from pyspark import TaskContext

        context = TaskContext.get()
        batches = list(batches)
        yield from batches[:1]
        if context.partitionId() == 3:
            try:
                Path(files, name).touch(exist_ok=False)
                is_first = True
            except FileExistsError:
                is_first = False
            if is_first and action == "sleep":
                time.sleep(120)
                Path(files, "woke").touch()
            if is_first and action == "die":
                # the worker, the daemon that has forked it, and the executor
                with open(f"/proc/{os.getppid()}/stat") as text:
                    executor = int(text.read().rsplit(")", 1)[1].split()[1])
                os.kill(executor, signal.SIGKILL)
                os.kill(os.getpid(), signal.SIGKILL)
        yield from batches[1:]

    return act


rows = spark.range(0, ROWS, 1, TASKS).select("id", (F.col("id") % 5).cast("int").alias("part"))
for run, action in (("first", "die"), ("second", "sleep")):
    held = rows.mapInArrow(once(run, action), rows.schema)
    lance_df.spark.append(
        held, root, partition_by=["part"], run_id=run, distribution="none", storage_options=storage
    )
    answers[run] = lance_df.spark.read(spark, root, storage_options=storage).count()

read = lance_df.spark.read(spark, root, storage_options=storage)
kept = lance_df.spark.prune(read.where("part = 3").groupBy("part").agg(F.count("*"), F.sum("id")))
answers["sums"] = [list(row) for row in kept.collect()]
lance_df.spark.compact(spark, root, storage_options=storage)
answers["compacted"] = lance_df.spark.read(spark, root, storage_options=storage).count()

even = rows.where("id % 2 = 0").mapInArrow(once("third", "die"), rows.schema)
merged = lance_df.spark.merge(spark, root, even, "id", storage_options=storage)
merged = merged.when_matched_update({"part": "target.part + 10"}).execute()
deleted = lance_df.spark.delete(spark, root, "id < 10", storage_options=storage)
updated = lance_df.spark.update(spark, root, {"part": "4"}, "id = 11", storage_options=storage)
answers["changed"] = [merged.num_updated_rows, deleted.num_deleted_rows, updated.num_updated_rows]
Path(told).write_text(json.dumps(answers))
"""


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def wait_for(log, text, process):
    until = time.monotonic() + 120
    while text not in log.read_text(errors="replace"):
        assert process.poll() is None, log.read_text(errors="replace")
        assert time.monotonic() < until, log.read_text(errors="replace")
        time.sleep(0.1)


@pytest.fixture
def cluster(tmp_path):
    """A master with two workers of one core each; the address of the master."""
    import pyspark

    home = Path(pyspark.__file__).parent
    environment = os.environ | {
        "SPARK_HOME": str(home),
        "SPARK_NO_DAEMONIZE": "1",
        "SPARK_WORKER_DIR": str(tmp_path / "work"),
        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    # what the workers are to get from the archive
    environment.pop("PYTHONPATH", None)
    environment.pop("PRELOAD_IN_WORKERS", None)
    port, web = free_port(), free_port()
    address = f"spark://127.0.0.1:{port}"
    master = ["Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", str(web)]
    # Spark runs no copy of a task on the host of the first
    first, second = (
        ["Worker", "--cores", "1", "--memory", "1g", "--host", host, "--webui-port", "0", address]
        for host in ("127.0.0.2", "127.0.0.3")
    )
    with ExitStack() as stack:
        for name, arguments, ready in (
            ("master", master, "I have been elected leader"),
            ("worker1", first, "Successfully registered"),
            ("worker2", second, "Successfully registered"),
        ):
            log = tmp_path / f"{name}.log"
            out = stack.enter_context(log.open("w"))
            kind, *rest = arguments
            process = subprocess.Popen(
                [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind.lower()}.{kind}", *rest],
                env=environment | {"SPARK_LOCAL_IP": rest[rest.index("--host") + 1]},
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
            stack.callback(process.wait)
            stack.callback(os.killpg, process.pid, signal.SIGKILL)
            wait_for(log, ready, process)
        yield address


def packed_environment(folder):
    """Return an archive with a Python that knows the package from there alone."""
    environment = folder / "environment"
    (environment / "bin").mkdir(parents=True)
    # as they are installed
    for source, package in ((ROOT / "lance_df", "lance_df"), (ROOT / "udfs", "lance_df/udfs")):
        ignored = shutil.ignore_patterns("__pycache__", "checked", "sanitize")
        shutil.copytree(source, environment / "site" / package, ignore=ignored, dirs_exist_ok=True)
    python = environment / "bin" / "python"
    python.write_text(
        "#!/bin/sh\n"
        'PYTHONPATH="$(cd "$(dirname "$0")/.." && pwd)/site:$PYTHONPATH" '
        f'exec {sys.executable} "$@"\n'
    )
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    return shutil.make_archive(str(folder / "environment"), "gztar", environment)


def test_a_cluster_with_packages_from_an_archive_loses_an_executor_and_waits_for_no_straggler(
    cluster, s3_options, bucket, tmp_path
):
    archive = packed_environment(tmp_path)
    root, told, files = f"{bucket}/cluster/events", tmp_path / "told.json", tmp_path / "files"
    files.mkdir()
    program = tmp_path / "driver.py"
    program.write_text(DRIVER.replace("ROWS", str(ROWS)).replace("TASKS", str(TASKS)))
    conf = {
        "spark.pyspark.python": "./environment/bin/python",
        "spark.pyspark.driver.python": str(tmp_path / "environment" / "bin" / "python"),
        "spark.speculation": "true",
        "spark.speculation.interval": "200ms",
        "spark.speculation.multiplier": "1.2",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.minTaskRuntime": "1s",
        "spark.sql.shuffle.partitions": "4",
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": "600m",
        # no task begins before both executors are there
        "spark.cores.max": "2",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
        "spark.python.task.killTimeout": "100ms",
    }
    import pyspark

    command = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", cluster]
    command += ["--archives", f"{archive}#environment"]
    for name, value in conf.items():
        command += ["--conf", f"{name}={value}"]
    command += [str(program), root, str(files), json.dumps(s3_options), str(told)]
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTHONPATH", "PYSPARK_PYTHON", "PRELOAD_IN_WORKERS") and not name.startswith("AWS_")
    }
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=900, check=False
    )
    said = [line for line in (done.stderr + done.stdout).splitlines() if " INFO " not in line]
    assert done.returncode == 0, "\n".join(said[-100:])
    answers = json.loads(told.read_text())
    for file, worker in answers["packages"]:
        assert Path(file).is_relative_to(Path(worker).parent), answers["packages"]
    assert len({worker for _, worker in answers["packages"]}) == 2
    # the copy of the task that sleeps was done first
    assert {path.name for path in files.iterdir()} == {"first", "second", "third"}
    assert (answers["first"], answers["second"], answers["compacted"]) == (ROWS, 2 * ROWS, 2 * ROWS)
    of_part = [number for number in range(ROWS) if number % 5 == 3]
    assert answers["sums"] == [[3, 2 * len(of_part), 2 * sum(of_part)]]

    assert answers["changed"] == [ROWS, 20, 2]
    namespace = lance_df.PartitionedNamespace.open(root, storage_options=s3_options)
    found = namespace.to_table()
    wanted = [(number, number % 5 + 10 * (number % 2 == 0)) for number in range(10, ROWS) if number != 11]
    wanted.append((11, 4))
    assert sorted(zip(*map(pa.ChunkedArray.to_pylist, found.columns), strict=True)) == sorted(wanted * 2)
    assert lance_df.verify(root, storage_options=s3_options, deep=True).ok
    namespace.cleanup_old_versions(dt.timedelta(0), delete_unverified=True)
    assert namespace.count_rows() == 2 * ROWS - 20
