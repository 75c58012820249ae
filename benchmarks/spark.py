"""TPC-H lineitem in Spark: lance_df beside Spark's own Parquet in the same run, seconds elapsed / of the CPU.

``read``: all rows and columns. ``months``: write 84 partitions by month. ``one``: read one of them.
Rows that are read go to Spark's sink ``noop``. The CPU is that of the JVM and of all its Python workers.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.dataset as pads

import lance_df

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeAlias

    from pyspark.sql import DataFrame, SparkSession

    Work: TypeAlias = Callable[[SparkSession, Path, argparse.Namespace], None]

MONTH = "1995-03-01"
TICKS = os.sysconf("SC_CLK_TCK")
# processor seconds of processes, by their id and when they began: those of one that is gone stay
_seen: dict[tuple[int, str], float] = {}


def cpu_seconds() -> float:
    """Return what this process and all below it have used, as far as they were there at some call."""
    parents: dict[int, int] = {}
    used: dict[int, tuple[str, float]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        number = int(folder.name)
        parents[number] = int(fields[1])
        used[number] = fields[19], sum(map(int, fields[11:13])) / TICKS
    own = {os.getpid()}
    while more := {number for number, parent in parents.items() if parent in own} - own:
        own |= more
    for number in own & used.keys():
        began, spent = used[number]
        _seen[number, began] = spent
    return sum(_seen.values())


def beside(name: str, works: dict[str, Callable[[], None]], rounds: int) -> None:
    """Run each of the works in turns, and print the least that one round of it took."""
    best: dict[str, tuple[float, float]] = {}
    for _ in range(rounds):
        for system, work in works.items():
            wall, cpu = time.perf_counter(), cpu_seconds()
            work()
            spent = time.perf_counter() - wall, cpu_seconds() - cpu
            best[system] = tuple(map(min, zip(spent, best.get(system, spent), strict=True)))
    for system, (wall, cpu) in best.items():
        print(f"{name:8} {system:10} {wall:8.2f} / {cpu:8.2f}", flush=True)
    ours, theirs = best["lance_df"], best["parquet"]
    ratios = [theirs[at] / ours[at] for at in range(2)]
    print(f"{name:8} lance_df is {ratios[0]:.2f} / {ratios[1]:.2f} times as fast", flush=True)


def drain(df: DataFrame) -> None:
    """Read all rows."""
    df.write.format("noop").mode("overwrite").save()


def session(arguments: argparse.Namespace) -> SparkSession:
    """Return a session whose workers find this package."""
    root = str(Path(__file__).resolve().parents[1])
    os.environ["PYTHONPATH"] = os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])
    os.environ["PYSPARK_PYTHON"] = sys.executable
    conf = {
        "spark.driver.memory": arguments.memory,
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
    }
    return lance_df.spark.session(arguments.master, conf=conf)


def read(spark: SparkSession, folder: Path, arguments: argparse.Namespace) -> None:
    """Read all of one table."""
    source = str(arguments.data / "lineitem.parquet")
    table = str(folder / "lineitem.lance")
    lance_df.write_dataset(pads.dataset(source).scanner().to_reader(), table)
    works = {
        "parquet": lambda: drain(spark.read.parquet(source)),
        "lance_df": lambda: drain(lance_df.spark.read(spark, table)),
    }
    beside("read", works, arguments.rounds)


def months(spark: SparkSession, folder: Path, arguments: argparse.Namespace) -> None:
    """Write partitions by month, and read one of them."""
    rows = spark.read.parquet(str(arguments.data / "lineitem.parquet"))
    namespace, parquet = folder / "by_month", folder / "parquet"

    def write_namespace(distribution: str = "hash") -> None:
        shutil.rmtree(namespace, ignore_errors=True)
        fields = ["year(l_shipdate)", "month(l_shipdate)"]
        lance_df.spark.append(rows, namespace, partition_by=fields, distribution=distribution)

    def write_parquet() -> None:
        shutil.rmtree(parquet, ignore_errors=True)
        month = "CAST(trunc(l_shipdate, 'MM') AS STRING) AS month"
        rows.selectExpr("*", month).write.partitionBy("month").parquet(str(parquet))

    # as many files as Parquet writes, a few hundred, and then as few as their size needs
    works = {"parquet": write_parquet, "lance_df": lambda: write_namespace("none")}
    beside("files", works, max(1, arguments.rounds // 2))
    beside("months", {**works, "lance_df": write_namespace}, max(1, arguments.rounds // 2))
    condition = f"l_shipdate >= DATE '{MONTH}' AND l_shipdate < DATE '{MONTH}' + INTERVAL '1' MONTH"
    works = {
        "parquet": lambda: drain(spark.read.parquet(str(parquet)).where(f"month = '{MONTH}'")),
        "lance_df": lambda: drain(lance_df.spark.read(spark, namespace, filter=condition)),
    }
    beside("one", works, 2 * arguments.rounds)
    found = lance_df.spark.read(spark, namespace, filter=condition).count()
    assert found == spark.read.parquet(str(parquet)).where(f"month = '{MONTH}'").count()


def run(works: Mapping[str, Work], prepare: Work | None = None) -> None:
    """Run benchmarks, as the command line says, in one session and a folder that is removed afterwards."""
    text = sys.modules["__main__"].__doc__
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("data", type=Path, help="folder with lineitem.parquet and orders.parquet")
    parser.add_argument("--only", choices=tuple(works), nargs="+", default=list(works))
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--memory", default="4g")
    arguments = parser.parse_args()
    spark = session(arguments)
    with tempfile.TemporaryDirectory() as folder:
        if prepare is not None:
            prepare(spark, Path(folder), arguments)
        for name in arguments.only:
            works[name](spark, Path(folder), arguments)
    spark.stop()


if __name__ == "__main__":
    run({"read": read, "months": months})
