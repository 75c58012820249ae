"""Joins of TPC-H lineitem and orders in Spark: by partition, beside Spark's own of Parquet in the same run.

``sums``: Spark adds up what the join gives. ``merged``: a query says so, and tasks add up what they join.
``keys``: it groups by the key of the join, in its tasks.
Seconds elapsed / of the CPU, as `benchmarks/spark.py` tells them. The namespaces have 8 and 16 buckets of the
key; the shuffle is Spark's default for tables of this size, no broadcast.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.dataset as pads
from spark import beside, run

import lance_df

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KEYS = {"orders": ("o_orderkey", 8), "lineitem": ("l_orderkey", 16)}
SUMS = ["count(*) AS n", "sum(l_quantity) AS quantity", "sum(o_totalprice) AS price"]
OF_KEYS = """SELECT o_orderkey, count(*) AS n, sum(l_extendedprice) AS price
    FROM {} JOIN {} ON o_orderkey = l_orderkey GROUP BY o_orderkey"""


def prepare(spark: SparkSession, folder: Path, arguments: argparse.Namespace) -> None:
    """Write the namespaces, and name the files of Parquet."""
    for name, (key, buckets) in KEYS.items():
        source = str(arguments.data / f"{name}.parquet")
        rows = pads.dataset(source).scanner().to_reader()
        spec = [lance_df.partition.bucket(key, buckets)]
        lance_df.PartitionedNamespace.create(folder / name, rows.schema, spec).append(rows)
        spark.read.parquet(source).createOrReplaceTempView(name)


def sums(spark: SparkSession, folder: Path, arguments: argparse.Namespace) -> None:
    """Join, and add up two columns."""
    own = lance_df.spark.partitioned_join(
        spark,
        folder / "orders",
        folder / "lineitem",
        on={"o_orderkey": "l_orderkey"},
        select=["l_quantity", "o_totalprice"],
    )
    theirs = spark.table("orders").join(spark.table("lineitem"), on=_equal(spark))
    _compare("sums", own.selectExpr(*SUMS), theirs.selectExpr(*SUMS), arguments.rounds)


def merged(spark: SparkSession, folder: Path, arguments: argparse.Namespace) -> None:
    """Join, and add up two columns in the tasks."""
    own = lance_df.spark.partitioned_join(
        spark,
        folder / "orders",
        folder / "lineitem",
        sql=f"SELECT {', '.join(SUMS)} FROM l JOIN r ON o_orderkey = l_orderkey",
    )
    theirs = spark.table("orders").join(spark.table("lineitem"), on=_equal(spark))
    _compare("merged", own, theirs.selectExpr(*SUMS), arguments.rounds)


def keys(spark: SparkSession, folder: Path, arguments: argparse.Namespace) -> None:
    """Join, group by the key, and add up what is left."""
    own = lance_df.spark.partitioned_join(
        spark, folder / "orders", folder / "lineitem", sql=OF_KEYS.format("l", "r")
    )
    theirs = spark.sql(OF_KEYS.format("orders", "lineitem"))
    total = ["sum(n) AS n", "max(price) AS price"]
    _compare("keys", own.selectExpr(*total), theirs.selectExpr(*total), arguments.rounds)


def _equal(spark: SparkSession) -> object:
    return spark.table("orders")["o_orderkey"] == spark.table("lineitem")["l_orderkey"]


def _compare(name: str, own: DataFrame, theirs: DataFrame, rounds: int) -> None:
    answers: dict[str, set[object]] = {"parquet": set(), "lance_df": set()}
    works = {
        "parquet": lambda: answers["parquet"].add(theirs.first()),
        "lance_df": lambda: answers["lance_df"].add(own.first()),
    }
    beside(name, works, rounds)
    if answers["parquet"] != answers["lance_df"]:
        raise RuntimeError(f"the answers differ: {answers}")


if __name__ == "__main__":
    run({"sums": sums, "merged": merged, "keys": keys}, prepare)
