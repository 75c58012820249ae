"""Run the main path of Spark over Spark Connect, on a server of its own: takes a minute, and Java.

First reads, writes and an ingest, with workers that have the package from a zip alone; then, with the package
as it stands here, streams, and `lance-df ingest` from a process that knows the address of the server alone.

    python tools/spark_connect.py
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROOT = Path(__file__).resolve().parents[1]


def session() -> SparkSession:
    """Start a server, and connect to it."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.remote("local[2]")
    for key, value in {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "OFF",
    }.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    _check("connect" in type(spark).__module__, "this is no session of Spark Connect")
    return spark


def batches(package: str, folder: str) -> None:
    """Read, write and append with the package from a zip, and look at errors."""
    from pyspark.sql.functions import udf

    import lance_df
    from lance_df.errors import ColumnNotFoundError, InvalidInputError

    spark = session()
    spark.addArtifacts(package, pyfile=True)
    lance_df.spark.register(spark)
    table, namespace = f"{folder}/table", f"{folder}/namespace"

    def read(**options: Any) -> DataFrame:
        return spark.read.format("lance_df").options(**options).load(table)

    @udf("string")
    def home(_number: int) -> str:
        import lance_df

        return lance_df.__file__

    [found] = spark.range(1).select(home("id")).collect()
    _check(".zip" in found[0], f"a worker has the package from {found[0]}")
    rows = spark.range(0, 1000, 1, 2).selectExpr("id AS k", "CAST(id % 3 AS STRING) AS s")
    rows.write.format("lance_df").mode("append").save(table)
    keys = sorted(read(filter="k >= 998").toArrow()["k"].to_pylist())
    _check(keys == [998, 999], f"keys {keys} were read")
    spark.sql(f"CREATE TEMPORARY VIEW v USING lance_df OPTIONS (path '{table}')")
    spark.sql("INSERT INTO v SELECT k + 1000, s FROM v WHERE k < 10")
    _check(lance_df.dataset(table).count_rows() == 1010, "INSERT INTO added other rows")
    for _ in range(2):
        lance_df.spark.append(rows, namespace, partition_by=["identity(s)"], run_id="first")
    count = lance_df.PartitionedNamespace.open(namespace).count_rows()
    _check(count == 1000, f"{count} rows were appended")
    with _expected(ColumnNotFoundError), lance_df.spark.typed_errors():
        read(columns="nope").count()
    with _expected(InvalidInputError):
        lance_df.spark.append(spark.sql("SELECT 'x' AS k, 'y' AS s"), namespace)
    ingests(spark, folder)
    spark.stop()


def ingests(spark: SparkSession, folder: str) -> None:
    """Take in a file with rows that do not fit: once, with rejects, statistics and a summary."""
    import lance_df
    from lance_df.errors import InvalidInputError, NotFoundError
    from lance_df.spark import IngestJob, IngestSource, ingest

    rows = "".join(f"{n},{'AB'[n % 2]}\n" for n in range(20_000))
    Path(folder, "rows.csv").write_text(f"k,s\n{rows}x,A\ny,B\n", encoding="utf-8")
    job = IngestJob(
        sources=(IngestSource(paths=(f"{folder}/rows.csv",)),),
        sql="SELECT k, s FROM source",
        target=f"{folder}/ingested",
        schema="k INT, s STRING",
        partition_by=("identity(s)",),
        sort_by=("k",),
        rejects=f"{folder}/rejects",
        statistics=True,
        id="monday",
        conf={"spark.sql.session.timeZone": "Asia/Tokyo"},
    )
    zone = spark.conf.get("spark.sql.session.timeZone")
    told: list[Any] = []
    done = ingest(job, spark, on_progress=told.append)
    counts = (done.rows_in, done.rows_out, done.rows_rejected, done.partitions, done.is_repeated)
    _check(counts == (20_002, 20_000, 2, 2, False), f"an ingest tells {done}")
    _check(any(each.partitions for each in told), f"of progress was told {told}")
    _check(spark.conf.get("spark.sql.session.timeZone") == zone, "the settings of a job are the session's")
    views = [each.name for each in spark.catalog.listTables()]
    _check("source" not in views, f"the session has the views {views}")
    namespace = lance_df.PartitionedNamespace.open(job.target)
    _check(namespace.count_rows() == 20_000, f"{namespace.count_rows()} rows were taken in")
    members = [path.parent for path in Path(job.target).glob("*/data") if path.parent.name != "__manifest"]
    covered = [bool(lance_df.dataset(member).list_indices()) for member in members]
    _check(covered == [True, True], f"statistics of partitions: {covered}")
    _check(lance_df.dataset(done.rejects).count_rows() == 2, "there are other rejects")
    again = ingest(job, spark)
    _check(again.is_repeated and again.version == done.version, f"a repeated ingest tells {again}")
    with _expected(InvalidInputError):
        ingest(replace(job, id="tuesday", rejects=None), spark)
    with _expected(NotFoundError):
        ingest(replace(job, id="tuesday", sources=(IngestSource(paths=(f"{folder}/no.csv",)),)), spark)
    with _expected(InvalidInputError):
        ingest(replace(job, id="tuesday", master="local[2]"), spark)
    namespace.checkout_latest()
    _check(namespace.count_rows() == 20_000, "other ingests added rows")


def installed(_package: str, folder: str) -> None:
    """Follow the rows that a table gets, and take some in from another process."""
    spark = session()
    streams(spark, folder)
    from_command_line("sc://localhost", folder)
    spark.stop()


def from_command_line(server: str, folder: str) -> None:
    """Run `lance-df ingest` with a server as its master."""
    Path(folder, "numbers.csv").write_text("k\n1\n2\nx\n", encoding="utf-8")
    words = [
        "ingest",
        f"{folder}/numbers.csv",
        "numbers.lance",
        "--schema",
        "k INT",
        "--rejects",
        "odd.lance",
    ]
    command = [sys.executable, "-W", "ignore", "-m", "lance_df.cli", *words, "--id", "a", "--statistics"]
    environment = {name: text for name, text in os.environ.items() if name != "SPARK_CONNECT_MODE_ENABLED"}
    elsewhere = Path(folder, "elsewhere")
    elsewhere.mkdir()
    # the repetition starts no session
    for is_repeated, master in ((False, server), (True, "sc://nowhere")):
        options = ["--master", master, "--format", "json"]
        done = subprocess.run(
            [*command, *options], cwd=elsewhere, env=environment, check=True, stdout=subprocess.PIPE
        )
        told = json.loads(done.stdout)
        _check(told["is_repeated"] == is_repeated, f"the command line tells {told}")
    _check((elsewhere / "numbers.lance").is_dir(), "a path is not relative to where the command is run")
    _check((told["version"], told["rejects_version"]) == (2, None), f"the command line tells {told}")


def streams(spark: SparkSession, folder: str) -> None:
    """Follow the rows that a table gets."""
    import pyarrow as pa

    import lance_df

    lance_df.spark.register(spark)
    source, copy = f"{folder}/source", f"{folder}/copy"
    for first in (0, 100):
        rows = pa.table({"k": pa.array(range(first, first + 100), pa.int64())})
        lance_df.write_dataset(rows, source, mode="append")
        query = (
            spark.readStream.format("lance_df")
            .load(source)
            .writeStream.format("lance_df")
            .option("checkpointLocation", f"{folder}/checkpoint")
            .trigger(availableNow=True)
            .start(copy)
        )
        query.awaitTermination()
        found = sorted(lance_df.dataset(copy).to_table()["k"].to_pylist())
        _check(found == list(range(first + 100)), f"{len(found)} rows were copied")


class _expected:  # noqa: N801 - reads as a function
    def __init__(self, kind: type[Exception]) -> None:
        self.kind = kind

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        _check(kind is self.kind, f"{kind} was raised in place of {self.kind}")
        return True


def _check(is_right: bool, message: str) -> None:
    if not is_right:
        raise SystemExit(message)


def main() -> None:
    if len(sys.argv) == 4:
        name, package, folder = sys.argv[1:]
        sys.path.insert(0, package if name == "batches" else str(ROOT))
        {"batches": batches, "installed": installed}[name](package, folder)
        return
    with tempfile.TemporaryDirectory() as folder:
        build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, str(ROOT)]
        subprocess.run(build, check=True)
        [wheel] = Path(folder).glob("*.whl")
        package = shutil.copy(str(wheel), f"{folder}/lance_df.zip")
        for name in sys.argv[1:] or ("batches", "installed"):
            environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_CONNECT_MODE_ENABLED": "1"}
            environment.pop("PYTHONPATH", None)
            if name == "installed":
                environment["PYTHONPATH"] = str(ROOT)
            command = [sys.executable, "-W", "ignore", __file__, name, package, folder]
            subprocess.run(command, cwd=folder, env=environment, check=True)
            print(f"{name}: right", flush=True)


if __name__ == "__main__":
    main()
