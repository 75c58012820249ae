"""What Spark itself takes for rows that Python hands over, or gets: TPC-H lineitem, by groups of columns.

``floor`` is a data source of Python that hands over Arrow batches which lie in memory, their decimals as
integers, and drops those that it gets: nothing written in Python can be faster, whatever it reads or writes.
Seconds elapsed / of the CPU, as `benchmarks/spark.py` tells them, beside Spark's own Parquet and lance_df.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as pads
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType
from spark import beside, drain, session

import lance_df
from lance_df.namespace.snapshot import NamespaceSnapshot
from lance_df.spark.appending import routed
from lance_df.spark.decimals import to_integers, with_decimals, with_integers, without_integers
from lance_df.spark.opened import SourceRef
from lance_df.spark.options import SourceOptions
from lance_df.spark.types import arrow_schema, spark_schema, to_spark
from lance_df.spark.workers import keep_imports
from lance_df.storage import open_location

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

COLUMNS = {
    "numbers": ["l_orderkey", "l_partkey", "l_suppkey", "l_linenumber"],
    "decimals": ["l_quantity", "l_extendedprice", "l_discount", "l_tax"],
    "dates": ["l_shipdate", "l_commitdate", "l_receiptdate"],
    "strings": ["l_returnflag", "l_linestatus", "l_shipinstruct", "l_shipmode", "l_comment"],
    "all": [],
}
PARTS = 4


class Memory(DataSource):
    """Batches of files that are mapped into memory; nothing of what is written."""

    @classmethod
    def name(cls) -> str:
        return "memory"

    def schema(self) -> Any:
        return StructType.fromJson(json.loads(Path(self.options["path"], "schema.json").read_text()))

    def reader(self, schema: Any) -> DataSourceReader:  # noqa: ARG002 - Spark's, not ours
        path = self.options["path"]

        class Reader(DataSourceReader):
            def partitions(self) -> list[InputPartition]:
                return [InputPartition(f"{path}/{part}.arrow") for part in range(PARTS)]

            def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
                keep_imports()
                file = pa.ipc.open_file(pa.memory_map(partition.value))
                for number in range(file.num_record_batches):
                    yield file.get_batch(number)

        return Reader()

    def writer(self, schema: Any, overwrite: bool) -> DataSourceArrowWriter:  # noqa: ARG002
        class Writer(DataSourceArrowWriter):
            def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
                for _ in iterator:
                    pass
                return WriterCommitMessage()

        return Writer()


def keep(rows: pa.Table, folder: Path, rows_per_batch: int) -> None:
    """Lay down rows as the source `Memory` wants them, in the types that Spark takes."""
    folder.mkdir(parents=True, exist_ok=True)
    size = -(-rows.num_rows // PARTS)
    sent = with_integers(spark_schema(rows.schema))
    (folder / "schema.json").write_text(sent.json())
    schema, plain = arrow_schema(sent), arrow_schema(without_integers(sent))
    for part in range(PARTS):
        batches = rows.slice(part * size, size).combine_chunks().to_batches(max_chunksize=rows_per_batch)
        with pa.ipc.new_file(folder / f"{part}.arrow", schema) as file:
            for batch in batches:
                file.write_batch(to_integers(to_spark(batch, plain), sent, schema))


def read(spark: SparkSession, folder: Path, arguments: argparse.Namespace) -> None:
    """Read columns of one table."""
    source = str(arguments.data / "lineitem.parquet")
    rows = pads.dataset(source).to_table()
    table = str(folder / "lineitem.lance")
    lance_df.write_dataset(rows, table)
    for name in arguments.columns:
        columns = COLUMNS[name] or rows.column_names
        frames = {
            "parquet": spark.read.parquet(source).select(*columns),
            "lance_df": lance_df.spark.read(spark, table, columns=columns),
        }
        for size in arguments.batch:
            kept = folder / f"{name}-{size}"
            keep(rows.select(columns), kept, size)
            frames[f"floor {size}"] = with_decimals(spark.read.format("memory").load(str(kept)))
        works: dict[str, Callable[[], None]] = {
            system: partial(drain, frame) for system, frame in frames.items()
        }
        beside(f"read {name}", works, arguments.rounds)


def write(spark: SparkSession, folder: Path, arguments: argparse.Namespace) -> None:
    """Write partitions by month; the floor sends rows the same way, and drops them."""
    rows = spark.read.parquet(str(arguments.data / "lineitem.parquet"))
    by = ["year(l_shipdate)", "month(l_shipdate)"]
    namespace = str(folder / "by_month")
    lance_df.spark.append(rows.limit(0), namespace, partition_by=by)
    snapshot = NamespaceSnapshot.open(open_location(namespace))
    ref = SourceRef.of(snapshot, SourceOptions(namespace))

    def floor(*, is_routed: bool) -> None:
        sent = routed(rows, ref, snapshot, distribution="hash") if is_routed else rows
        sent.write.format("memory").mode("append").save(namespace)

    def parquet() -> None:
        month = "CAST(trunc(l_shipdate, 'MM') AS STRING) AS month"
        sent = rows.selectExpr("*", month).write.partitionBy("month").mode("overwrite")
        sent.parquet(str(folder / "parquet"))

    works: dict[str, Callable[[], None]] = {
        "parquet": parquet,
        "lance_df": lambda: lance_df.spark.append(rows, namespace),
        "floor": lambda: floor(is_routed=True),
        "unrouted": lambda: floor(is_routed=False),
    }
    beside("write", works, arguments.rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("data", type=Path, help="folder with lineitem.parquet")
    parser.add_argument("--only", choices=("read", "write"), nargs="+", default=["read", "write"])
    parser.add_argument("--columns", choices=tuple(COLUMNS), nargs="+", default=["all"])
    parser.add_argument("--batch", type=int, nargs="+", default=[65536], help="rows of a batch of the floor")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--memory", default="4g")
    arguments = parser.parse_args()
    spark = session(arguments)
    spark.dataSource.register(Memory)
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.only:
            {"read": read, "write": write}[name](spark, Path(folder), arguments)
    spark.stop()


if __name__ == "__main__":
    main()
