"""Join lineitem and orders: as DataFusion does, as sessions do, and by partition, all at once and one by one.

Usage: python benchmarks/partitioned_join.py FOLDER_WITH_PARQUET [ROUNDS]

The tables are written as namespaces of 16 and 8 buckets of the order's key. Every way to join each query runs
in a process of its own, so that its peak memory is its own, and takes its turn in every round. The memory is
the anonymous one: pages of mapped files are there, too, as long as nobody else needs the room.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable

QUERIES = {
    "sums": """SELECT count(*), sum(l_quantity), sum(o_totalprice)
        FROM orders JOIN lineitem ON o_orderkey = l_orderkey""",
    "by key": """SELECT max(n) FROM (SELECT o_orderkey, count(*) AS n, sum(l_extendedprice)
        FROM orders JOIN lineitem ON o_orderkey = l_orderkey GROUP BY o_orderkey)""",
}
TABLES = {"orders": ("o_orderkey", 8), "lineitem": ("l_orderkey", 16)}
# partitioned_joins and join_memory_limit; what a context of DataFusion's reads
WAYS: dict[str, tuple[str, int | None] | str] = {
    "DataFusion, Parquet": "Parquet",
    "DataFusion, the namespaces": "namespaces",
    "ordinary join": ("never", None),
    "by partition": ("always", None),
    "within 64 MiB": ("always", 64 << 20),
    "one group at a time": ("always", 1),
    "as a session chooses": ("auto", None),
}


def main() -> None:
    parquet = Path(sys.argv[1])
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 7
    with tempfile.TemporaryDirectory() as folder:
        write(parquet, Path(folder))
        measured: dict[tuple[str, str], list[dict[str, Any]]] = {
            (way, name): [] for name in QUERIES for way in WAYS
        }
        workers = {
            key: subprocess.Popen(
                [sys.executable, __file__, "--worker", *key, folder, str(parquet)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for key in measured
        }
        for _ in range(rounds):
            for key, worker in workers.items():
                measured[key].append(ask(worker))
        report(measured)
        for worker in workers.values():
            worker.communicate()


def write(parquet: Path, folder: Path) -> None:
    import pyarrow.parquet as pq

    import lance_df

    for name, (key, num_buckets) in TABLES.items():
        rows = pq.read_table(parquet / f"{name}.parquet")
        namespace = lance_df.PartitionedNamespace.create(
            folder / name, rows.schema, [lance_df.partition.bucket(key, num_buckets)]
        )
        namespace.append(rows)


def ask(worker: subprocess.Popen[str]) -> dict[str, Any]:
    if worker.stdin is None or worker.stdout is None:
        raise RuntimeError("a worker without pipes")
    worker.stdin.write("again\n")
    worker.stdin.flush()
    reply: dict[str, Any] = json.loads(worker.stdout.readline())
    return reply


def report(measured: dict[tuple[str, str], list[dict[str, Any]]]) -> None:
    for name in QUERIES:
        answers = {json.dumps(run["answer"]) for way in WAYS for run in measured[way, name]}
        if len(answers) > 1:
            raise RuntimeError(f"the answers differ: {answers}")
        print(
            f"\n| {name} | elapsed | processor | peak memory | above the start |\n|---|---:|---:|---:|---:|"
        )
        for way in WAYS:
            runs = measured[way, name]
            best = {key: min(run[key] for run in runs) for key in ("elapsed", "processor")}
            peak = max(run["peak"] for run in runs) / 2**20
            above = peak - runs[0]["before"] / 2**20
            spent = f"{best['elapsed']:.3f} s | {best['processor']:.3f} s"
            print(f"| {way} | {spent} | {peak:.0f} MiB | {above:.0f} MiB |")


def work(way: str, name: str, folder: str, parquet: str) -> None:
    sql = session(way, folder, parquet)
    for _ in sys.stdin:
        with Watch() as watch:
            processor, elapsed = time.process_time(), time.perf_counter()
            rows = sql(QUERIES[name]).to_pylist()
            spent = time.perf_counter() - elapsed, time.process_time() - processor
        reply = {
            "elapsed": spent[0],
            "processor": spent[1],
            "peak": watch.most,
            "before": watch.before,
            "answer": [str(value) for row in rows for value in row.values()],
        }
        print(json.dumps(reply), flush=True)


class Watch:
    """Looks at the anonymous memory of this process every few milliseconds.

    Attributes
    ----------
    before, most
        What it was at first, and at most, in bytes.
    """

    def __enter__(self) -> Self:
        self.before = self.most = anonymous_bytes()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._done.wait(0.005):
            self.most = max(self.most, anonymous_bytes())


def anonymous_bytes() -> int:
    """Return the memory of this process that holds no pages of files."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("RssAnon:")[2].split()[0]) * 1024


def session(way: str, folder: str, parquet: str) -> Callable[[str], Any]:
    how = WAYS[way]
    if isinstance(how, str):
        import datafusion

        context = datafusion.SessionContext()
        for name in TABLES:
            if how == "Parquet":
                context.register_parquet(name, str(Path(parquet) / f"{name}.parquet"))
            else:
                import lance_df

                lance_df.register(context, name, Path(folder) / name)
    else:
        import lance_df

        joins, limit = how
        context = lance_df.connect(folder, partitioned_joins=joins, join_memory_limit=limit)
    return context.sql


if __name__ == "__main__":
    if sys.argv[1] == "--worker":
        work(*sys.argv[2:])
    else:
        main()
