"""Tables of lance_df in Spark beside Spark's own Parquet in the same run: seconds elapsed / of the CPU.

``write``: TPC-H lineitem by ``df.write``, one file a task. ``where``: a month of a namespace, once by
``where()`` and `lance_df.spark.prune`, once by the option ``filter``. ``compact``: 10,000 small files as few
large ones, beside Spark's rewrite of as many Parquet files.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.dataset as pads
import pyarrow.parquet as pq
from spark import beside, drain, run

import lance_df

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES = 10_000
MONTH = "l_shipdate >= DATE '1995-03-01' AND l_shipdate < DATE '1995-04-01'"


def write(spark: SparkSession, folder: Path, arguments: argparse.Namespace) -> None:
    """Write one table."""
    rows = spark.read.parquet(str(arguments.data / "lineitem.parquet"))
    table, parquet = folder / "written.lance", folder / "written.parquet"
    works = {
        "parquet": lambda: rows.write.mode("overwrite").parquet(str(parquet)),
        "lance_df": lambda: rows.write.format("lance_df").mode("overwrite").save(str(table)),
    }
    beside("write", works, arguments.rounds)
    assert lance_df.dataset(str(table)).count_rows() == spark.read.parquet(str(parquet)).count()


def where(spark: SparkSession, folder: Path, arguments: argparse.Namespace) -> None:
    """Read one month, all of its columns: `where` beside `filter`, which stands for the peer here."""
    namespace = folder / "by_month"
    rows = pads.dataset(str(arguments.data / "lineitem.parquet")).scanner().to_reader()
    spec = [lance_df.partition.year("l_shipdate"), lance_df.partition.month("l_shipdate")]
    lance_df.PartitionedNamespace.create(namespace, rows.schema, spec).append(rows)
    works = {
        "parquet": lambda: drain(lance_df.spark.read(spark, namespace, filter=MONTH)),
        "lance_df": lambda: drain(lance_df.spark.prune(lance_df.spark.read(spark, namespace).where(MONTH))),
    }
    beside("where", works, 5 * arguments.rounds)


def compact(spark: SparkSession, folder: Path, arguments: argparse.Namespace) -> None:
    """Join small files."""
    rows = pq.read_table(arguments.data / "lineitem.parquet")
    size = -(-rows.num_rows // FILES)
    table, parquet = folder / "small.lance", folder / "small"
    lance_df.write_dataset(rows, table, max_rows_per_file=size)
    pads.write_dataset(
        rows, parquet, format="parquet", max_rows_per_file=size, max_rows_per_group=size, max_open_files=1
    )
    num_rows = rows.num_rows
    del rows

    def compact_table() -> None:
        copy = folder / "copy.lance"
        lance_df.spark.compact(spark, copy)
        assert lance_df.dataset(str(copy)).count_rows() == num_rows

    def rewrite() -> None:
        target = folder / "rewritten"
        spark.read.parquet(str(parquet)).write.mode("overwrite").parquet(str(target))

    for _ in range(max(1, arguments.rounds // 2)):
        shutil.rmtree(folder / "copy.lance", ignore_errors=True)
        shutil.copytree(table, folder / "copy.lance")
        beside("compact", {"parquet": rewrite, "lance_df": compact_table}, 1)


if __name__ == "__main__":
    run({"write": write, "where": where, "compact": compact})
