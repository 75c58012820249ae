"""Lance tables and partitioned namespaces in Spark, through PySpark alone.

::

    lance_df.spark.read(spark, "./flights.lance", filter="month = 3").show()
    df.write.format("lance_df").mode("append").save("./flights.lance")
    lance_df.spark.append(df, "./events", partition_by=["year(ts)"])

Needs ``pip install "lance_df[spark]"`` and Java 17, here and on every executor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lance_df.spark.appending import append
    from lance_df.spark.failures import typed_errors
    from lance_df.spark.ingesting.job import IngestJob, IngestSource
    from lance_df.spark.ingesting.running import IngestSummary, ingest
    from lance_df.spark.pipeline.compaction import compact
    from lance_df.spark.pipeline.health import repair, verify
    from lance_df.spark.pipeline.joins import partitioned_join
    from lance_df.spark.pipeline.repartitioning import repartition
    from lance_df.spark.pipeline.statistics import build_statistics
    from lance_df.spark.sessions import read, register, session

__all__ = [
    "IngestJob",
    "IngestSource",
    "IngestSummary",
    "append",
    "build_statistics",
    "compact",
    "ingest",
    "partitioned_join",
    "read",
    "register",
    "repair",
    "repartition",
    "session",
    "typed_errors",
    "verify",
]

_HOMES = {
    "IngestJob": "lance_df.spark.ingesting.job",
    "IngestSource": "lance_df.spark.ingesting.job",
    "IngestSummary": "lance_df.spark.ingesting.running",
    "ingest": "lance_df.spark.ingesting.running",
    "append": "lance_df.spark.appending",
    "build_statistics": "lance_df.spark.pipeline.statistics",
    "compact": "lance_df.spark.pipeline.compaction",
    "partitioned_join": "lance_df.spark.pipeline.joins",
    "read": "lance_df.spark.sessions",
    "register": "lance_df.spark.sessions",
    "repair": "lance_df.spark.pipeline.health",
    "repartition": "lance_df.spark.pipeline.repartitioning",
    "session": "lance_df.spark.sessions",
    "typed_errors": "lance_df.spark.failures",
    "verify": "lance_df.spark.pipeline.health",
}


def __getattr__(name: str) -> object:
    # so that `import lance_df.spark` works, and says what is missing, where there is no PySpark
    if name not in _HOMES:
        raise AttributeError(f"module 'lance_df.spark' has no attribute {name!r}")
    from importlib import import_module

    from lance_df.spark.requirements import require_pyspark

    require_pyspark()
    return getattr(import_module(_HOMES[name]), name)
