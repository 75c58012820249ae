"""Changes of a table that is larger than the memory of the driver, in a cluster of two executors.

Usage: python benchmarks/spark_memory.py FOLDER [--driver 512m]

FOLDER has lineitem.parquet. All of its rows are a table and a namespace of 16 buckets. A merge changes
every second order, deletes some and inserts new ones; then come an update and a delete. What the JVM of the
driver may take is ``--driver``; what its Python takes at most is printed, with the size of the rows.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

_WRITE = """
import sys
import pyarrow.dataset as pads
import lance_df

rows = pads.dataset(sys.argv[1])
if sys.argv[3] == "table":
    lance_df.write_dataset(rows.scanner().to_reader(), sys.argv[2], max_rows_per_file=1 << 20)
else:
    spec = [lance_df.partition.bucket("l_orderkey", 16)]
    lance_df.PartitionedNamespace.create(sys.argv[2], rows.schema, spec).append(rows.scanner().to_reader())
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("data", type=Path, help="folder with lineitem.parquet")
    parser.add_argument("--driver", default="512m", help="memory of the driver's JVM")
    arguments = parser.parse_args()
    parquet = str(arguments.data / "lineitem.parquet")
    with tempfile.TemporaryDirectory() as folder:
        roots = {kind: str(Path(folder, kind)) for kind in ("table", "namespace")}
        for kind, root in roots.items():
            subprocess.run([sys.executable, "-c", _WRITE, parquet, root, kind], check=True)
        import lance_df

        spark = lance_df.spark.session(
            "local-cluster[2,1,2048]",
            conf={
                "spark.driver.memory": arguments.driver,
                "spark.executor.memory": "2g",
                "spark.driver.host": "127.0.0.1",
                "spark.ui.enabled": "false",
                "spark.log.level": "ERROR",
            },
        )
        heap = spark._sc._jvm.java.lang.Runtime.getRuntime().maxMemory()  # type: ignore[union-attr]
        size = num_bytes(parquet)
        print(
            f"rows: {size / 2**20:,.0f} MiB as Arrow; the JVM of the driver: {heap / 2**20:,.0f} MiB at most"
        )
        for kind, root in roots.items():
            change(spark, kind, root, parquet)
        spark.stop()


def num_bytes(parquet: str) -> int:
    """Return how large the rows are in memory."""
    code = (
        "import sys, pyarrow.dataset as d; "
        "print(sum(b.nbytes for b in d.dataset(sys.argv[1]).scanner().to_batches()))"
    )
    return int(subprocess.run([sys.executable, "-c", code, parquet], check=True, capture_output=True).stdout)


def change(spark: SparkSession, kind: str, root: str, parquet: str) -> None:
    """Merge, update and delete, and check how many rows are left."""
    from pyspark.sql import functions

    import lance_df.spark as lance_spark

    rows = spark.read.parquet(parquet)
    changed = rows.where("l_orderkey % 2 = 0").withColumn("l_comment", functions.lit("changed"))
    new = rows.where("l_orderkey % 25 = 1").withColumn(
        "l_orderkey", functions.expr("l_orderkey + 1000000000")
    )
    merge = (
        lance_spark.merge(spark, root, changed.union(new), on=["l_orderkey", "l_linenumber"])
        .when_matched_delete(condition="target.l_orderkey % 1000 = 0")
        .when_matched_update_all()
        .when_not_matched_insert_all()
    )
    works: dict[str, Callable[[], object]] = {
        "merge": merge.execute,
        "update": lambda: lance_spark.update(
            spark, root, {"l_comment": "concat(l_comment, '!')"}, where="l_orderkey % 3 = 0"
        ),
        "delete": lambda: lance_spark.delete(spark, root, "l_orderkey % 5 = 1"),
    }
    for name, work in works.items():
        began = time.monotonic()
        summary = work()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{kind}: {name} {time.monotonic() - began:.0f} s, Python {peak:,.0f} MiB at most: {summary}")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
