"""Lance tables and partitioned namespaces in Spark, with PySpark as the only Spark dependency.

::

    lance_df.spark.read(spark, "./flights.lance", filter="month = 3").show()
    df.write.format("lance_df").mode("append").save("./flights.lance")
    lance_df.spark.append(df, "./events", partition_by=["year(ts)"])

Needs ``pip install "lance_df[spark]"`` and Java 17 on the driver and on every executor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lance_df.spark.appending import append
    from lance_df.spark.changes.committing import ChangeSummary
    from lance_df.spark.changes.editing import delete, update
    from lance_df.spark.changes.merging import MergeBuilder, merge
    from lance_df.spark.changes.upserts import upsert_batches
    from lance_df.spark.failures import typed_errors
    from lance_df.spark.ingesting.job import IngestJob, IngestSource
    from lance_df.spark.ingesting.running import IngestSummary, ingest
    from lance_df.spark.pipeline.compaction import compact
    from lance_df.spark.pipeline.health import repair, verify
    from lance_df.spark.pipeline.joins import partitioned_join
    from lance_df.spark.pipeline.repartitioning import repartition
    from lance_df.spark.pipeline.statistics import build_statistics
    from lance_df.spark.pruning.pruned import explain_scan, prune
    from lance_df.spark.saving import write
    from lance_df.spark.sessions import read, register, session
    from lance_df.spark.statements import sql

__all__ = [
    "ChangeSummary",
    "IngestJob",
    "IngestSource",
    "IngestSummary",
    "MergeBuilder",
    "append",
    "build_statistics",
    "compact",
    "delete",
    "explain_scan",
    "ingest",
    "merge",
    "partitioned_join",
    "prune",
    "read",
    "register",
    "repair",
    "repartition",
    "session",
    "sql",
    "typed_errors",
    "update",
    "upsert_batches",
    "verify",
    "write",
]

_HOMES = {
    "ChangeSummary": "lance_df.spark.changes.committing",
    "MergeBuilder": "lance_df.spark.changes.merging",
    "merge": "lance_df.spark.changes.merging",
    "delete": "lance_df.spark.changes.editing",
    "upsert_batches": "lance_df.spark.changes.upserts",
    "update": "lance_df.spark.changes.editing",
    "IngestJob": "lance_df.spark.ingesting.job",
    "IngestSource": "lance_df.spark.ingesting.job",
    "IngestSummary": "lance_df.spark.ingesting.running",
    "explain_scan": "lance_df.spark.pruning.pruned",
    "ingest": "lance_df.spark.ingesting.running",
    "append": "lance_df.spark.appending",
    "build_statistics": "lance_df.spark.pipeline.statistics",
    "compact": "lance_df.spark.pipeline.compaction",
    "partitioned_join": "lance_df.spark.pipeline.joins",
    "prune": "lance_df.spark.pruning.pruned",
    "read": "lance_df.spark.sessions",
    "register": "lance_df.spark.sessions",
    "repair": "lance_df.spark.pipeline.health",
    "repartition": "lance_df.spark.pipeline.repartitioning",
    "session": "lance_df.spark.sessions",
    "sql": "lance_df.spark.statements",
    "typed_errors": "lance_df.spark.failures",
    "verify": "lance_df.spark.pipeline.health",
    "write": "lance_df.spark.saving",
}


def __getattr__(name: str) -> object:
    # Without PySpark, `import lance_df.spark` works, and the first use raises an error that names it.
    if name not in _HOMES:
        raise AttributeError(f"module 'lance_df.spark' has no attribute {name!r}")
    from importlib import import_module

    from lance_df.spark.requirements import require_pyspark

    require_pyspark()
    return getattr(import_module(_HOMES[name]), name)
