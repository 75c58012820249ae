"""Run the main path of Spark over Spark Connect, on a server of its own: takes a minute, and Java.

First with workers that have the package from a zip alone, then streams, with the package as it stands here.

    python tools/spark_connect.py
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
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
    spark.stop()


def streams(_package: str, folder: str) -> None:
    """Follow the rows that a table gets."""
    import pyarrow as pa

    import lance_df

    spark = session()
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
    spark.stop()


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
        {"batches": batches, "streams": streams}[name](package, folder)
        return
    with tempfile.TemporaryDirectory() as folder:
        build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder]
        subprocess.run(build, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        [wheel] = Path(folder).glob("*.whl")
        package = shutil.copy(str(wheel), f"{folder}/lance_df.zip")
        for name in ("batches", "streams"):
            environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_CONNECT_MODE_ENABLED": "1"}
            environment.pop("PYTHONPATH", None)
            if name == "streams":
                environment["PYTHONPATH"] = str(ROOT)
            command = [sys.executable, "-W", "ignore", __file__, name, package, folder]
            subprocess.run(command, cwd=folder, env=environment, check=True)
            print(f"{name}: right", flush=True)


if __name__ == "__main__":
    main()
