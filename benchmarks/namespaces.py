"""Partitioned namespaces beside hive-partitioned Parquet and single tables: seconds elapsed / of the CPU.

``plan``: find the one partition of a point query among 10,000 to 1,000,000 rows of ``__manifest``.
``many``: append 10 rows to each of many partitions, then read one, and all.
``months``: append TPC-H lineitem to 84 partitions by month.
``commits``: transactions of 8 threads, each over two partitions of its own.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ.setdefault("LANCE_LOG", "error")

import datafusion
import duckdb
import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import lance_df
from lance_df.cache import DEFAULT_CACHE_BYTES
from lance_df.expr.from_pyarrow import to_predicate
from lance_df.namespace.names import partition_names
from lance_df.namespace.published import members_at
from lance_df.namespace.snapshot import NamespaceSnapshot
from lance_df.scan.request import ScanRequest
from lance_df.storage import open_location

if TYPE_CHECKING:
    from collections.abc import Callable


def timed(name: str, work: Callable[[], Any], rounds: int) -> Any:
    """Run some rounds, and print the least that one took."""
    best = [float("inf"), float("inf")]
    for _ in range(rounds):
        wall, cpu = time.perf_counter(), time.process_time()
        found = work()
        spent = time.perf_counter() - wall, time.process_time() - cpu
        best = [min(pair) for pair in zip(best, spent, strict=True)]
    print(f"{name:52} {best[0]:9.4f} / {best[1]:8.4f}", flush=True)
    return found


def forget() -> None:
    """Make the next look at a namespace the first one of the process, but for compiled code."""
    lance_df.set_cache_bytes(0)
    lance_df.set_cache_bytes(DEFAULT_CACHE_BYTES)


def plan(folder: Path, arguments: argparse.Namespace) -> None:
    """Find a partition by its value."""
    for count in arguments.counts:
        root = folder / f"plan{count}"
        _with_rows(root, count)
        location = open_location(str(root))
        predicate = to_predicate(pc.field("k") == 77, pa.schema([("k", pa.int64())]))
        request = ScanRequest(predicate=predicate)

        def find(snapshot: NamespaceSnapshot, request: ScanRequest = request) -> None:
            kept = snapshot.latest().kept(request)
            (member,) = members_at(snapshot.root, snapshot.manifest, kept.positions)
            assert member.version == 1

        def first(location: Any = location, find: Any = find) -> None:
            forget()
            find(NamespaceSnapshot.open(location))

        timed(f"{count:,} partitions: point query planned, first", first, arguments.rounds)
        snapshot = NamespaceSnapshot.open(location)
        timed(f"{count:,} partitions: and again", lambda s=snapshot, f=find: f(s), 3 * arguments.rounds)


def _with_rows(root: Path, count: int) -> None:
    """Make a namespace that lists partitions which do not exist."""
    namespace = lance_df.PartitionedNamespace.create(root, pa.schema([("k", pa.int64())]), ["k"])
    manifest = namespace._table.manifest
    names = pa.array([f"v1${name}" for name in partition_names(count)])
    values = pa.array(np.arange(count))
    tables = pc.binary_join_element_wise(names, "dataset", "$")
    numbers = pa.array([f"{number:08x}_" for number in range(count)])
    given = {
        "namespace": {"object_id": names},
        "table": {
            "object_id": tables,
            "location": pc.binary_join_element_wise(numbers, tables, ""),
            "read_version": pa.array(np.ones(count, np.uint64)),
        },
    }
    schema, parts = manifest.table.arrow_schema, []
    for kind, columns in given.items():
        common = {"object_type": pa.repeat(kind, count), "metadata": pa.repeat("{}", count)}
        row = {**common, **columns, manifest.specs.current.fields[0].column: values}
        parts.append(pa.table([row.get(each.name, pa.nulls(count, each.type)) for each in schema], schema))
    manifest.changed(pa.concat_tables(parts), {})


def many(folder: Path, arguments: argparse.Namespace) -> None:
    """Write and read partitions of 10 rows."""
    count, value = arguments.partitions, arguments.partitions // 2
    numbers = np.arange(count * 10)
    rows = pa.table({"id": numbers, "k": numbers % count, "x": numbers * 1.37})
    columns = {"k": rows["k"], "id": rows["id"], "x": rows["x"]}
    hive = folder / "hive"
    root = folder / "many"
    lance_df.PartitionedNamespace.create(folder / "first", rows.schema, ["k"]).append(rows.slice(0, 20))
    namespace = lance_df.PartitionedNamespace.create(root, rows.schema, ["k"])
    timed(f"{count:,} partitions of 10 rows: ours, appended", lambda: namespace.append(rows), 1)
    connection = duckdb.connect()
    connection.register("rows_", pa.table(columns))
    written = f"COPY rows_ TO '{hive}' (FORMAT parquet, PARTITION_BY (k))"
    timed("  DuckDB, hive-partitioned Parquet", lambda: connection.execute(written), 1)

    def context() -> datafusion.SessionContext:
        made = datafusion.SessionContext()
        made.register_parquet("t", str(hive), table_partition_cols=[("k", pa.int64())])
        return made

    rounds = arguments.rounds
    opened = context()
    glob = f"read_parquet('{hive}/*/*.parquet', hive_partitioning = true, hive_types = {{'k': BIGINT}})"
    for what, where, number in (("one partition", f" WHERE k = {value}", 10), ("all", "", len(rows))):
        sql = f"SELECT id, k, x FROM t{where}"
        session = lance_df.SessionContext()
        lance_df.register(session, "t", str(root))
        predicate = None if not where else f"k = {value}"

        def check(found: pa.Table, number: int = number) -> None:
            assert len(found) == number

        def cold(predicate: str | None = predicate, check: Any = check) -> None:
            forget()
            check(lance_df.PartitionedNamespace.open(root).to_table(filter=predicate))

        timed(f"  read {what}: ours, opened anew", cold, rounds)
        warm = lance_df.PartitionedNamespace.open(root)
        timed(f"  read {what}: ours", lambda w=warm, p=predicate, c=check: c(w.to_table(filter=p)), rounds)
        timed(
            f"  read {what}: ours, SQL",
            lambda s=session, q=sql, c=check: c(s.sql(q).to_arrow_table()),
            rounds,
        )
        timed(
            f"  read {what}: DataFusion, hive",
            lambda q=sql, c=check: c(opened.sql(q).to_arrow_table()),
            rounds,
        )
        duck = f"SELECT * FROM {glob}{where}"
        timed(
            f"  read {what}: DuckDB, hive",
            lambda q=duck, c=check: c(connection.sql(q).to_arrow_table()),
            rounds,
        )
    tables = [str(path) for path in root.iterdir() if path.name != "__manifest"]
    timed(
        "  read all: pylance, each table opened",
        lambda: pa.concat_tables([lance.dataset(path).to_table() for path in tables]),
        1,
    )


def months(folder: Path, arguments: argparse.Namespace) -> None:
    """Write lineitem by month."""
    if arguments.lineitem is None:
        print("months: pass --lineitem, a Parquet file")
        return
    rows = pq.read_table(arguments.lineitem)
    ship = rows["l_shipdate"]
    parts = {"year_": pc.year(ship).cast(pa.int32()), "month_": pc.month(ship).cast(pa.int32())}
    wide = rows
    for name, column in parts.items():
        wide = wide.append_column(name, column)
    numbers = iter(range(1000))

    def target() -> Path:
        return folder / f"months{next(numbers)}"

    def ours() -> Path:
        root = target()
        by = ["year(l_shipdate)", "month(l_shipdate)"]
        lance_df.PartitionedNamespace.create(root, rows.schema, by).append(rows)
        return root

    def by_datafusion() -> Path:
        context = datafusion.SessionContext()
        context.register_record_batches("t", [wide.to_batches()])
        root = target()
        sql = f"COPY (SELECT * FROM t) TO '{root}/' STORED AS PARQUET PARTITIONED BY (year_, month_)"
        context.sql(sql).collect()
        return root

    def by_duckdb() -> Path:
        connection = duckdb.connect()
        connection.register("t", wide)
        root = target()
        connection.execute(f"COPY t TO '{root}' (FORMAT parquet, PARTITION_BY (year_, month_))")
        return root

    for name, work in (("ours", ours), ("DataFusion", by_datafusion), ("DuckDB", by_duckdb)):
        root = timed(f"{len(rows):,} rows into months: {name}", work, arguments.rounds)
        sizes = [path.stat().st_size for path in Path(root).rglob("*") if path.is_file()]
        print(f"  {sum(sizes) >> 20} MiB in {len(sizes)} files")


def commits(folder: Path, arguments: argparse.Namespace) -> None:  # noqa: ARG001
    """Let threads publish transactions."""
    threads, each = 8, 5
    rows = [pa.table({"p": [2 * n, 2 * n + 1], "x": [n, n]}) for n in range(threads)]
    namespace = lance_df.PartitionedNamespace.create(folder / "commits", rows[0].schema, ["p"])
    namespace.append(pa.concat_tables(rows))
    before = namespace.version

    def run(number: int) -> None:
        mine = lance_df.PartitionedNamespace.open(namespace.uri)
        for _ in range(each):
            mine.append(rows[number])

    def together() -> None:
        workers = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    timed(f"{threads} threads, {each} transactions over 2 partitions each", together, 1)
    namespace.checkout_latest()
    print(f"  {threads * each} transactions in {namespace.version - before} commits")


CASES = {"plan": plan, "many": many, "months": months, "commits": commits}


def main() -> None:
    """Run cases in folders that are removed afterwards."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", default=list(CASES), choices=list(CASES))
    parser.add_argument("--counts", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--lineitem", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--target", type=Path, help="a folder on the disk to measure")
    arguments = parser.parse_args()
    for case in arguments.cases:
        folder = Path(tempfile.mkdtemp(dir=arguments.target))
        try:
            CASES[case](folder, arguments)
        finally:
            with suppress(OSError):
                shutil.rmtree(folder)


if __name__ == "__main__":
    main()
