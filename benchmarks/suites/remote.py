"""A store that takes 20 ms for each request: requests, and elapsed seconds beside the longest chain of them.

"critical path" is what has to happen one after the other, and the requests that no reader does without, when
nothing is known from before and any number of requests may be on their way:

scan
    The newest version (LIST) and its manifest; then, of each file, the footer, which tells where pages are,
    and the page. 2 + 2 a file (small files are read whole: 1); 4 in a row.
point query
    Those two; the zone map; the footer and the page of the one file that it leaves. 5; 5 in a row.
partitions
    The newest version of ``__manifest``, its manifest, and footer and page of its rows; then the manifest and
    the file (small ones are read whole) of each member that is left. 4 + 2 a member; 6 in a row.
append
    The newest version and its manifest; the data file and the transaction, at once; the manifest. 5; 4 in a
    row.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
from measures import Measure
from slow_store import SlowStore, use_slow_store

import lance_df
from lance_df.engine.session import connect, register

from .common import Settings

TITLE = "store of 20 ms a request"
DELAY: Final = 0.02


def run(settings: Settings) -> Iterator[Measure]:
    store = use_slow_store(0)
    store.store.clear()
    files = 8
    rows = 2_000 if settings.quick else 50_000
    members = 20 if settings.quick else 1_000
    table = _make_table(files, rows)
    _make_namespace(members)
    store.delay = 0.002 if settings.quick else DELAY
    point = files * rows // 2 + 1
    works: dict[str, Callable[[str], Any]] = {
        "scan": lambda root: _table(root, "SELECT sum(value) AS v, count(*) AS n FROM t"),
        "point query": lambda root: _table(root, f"SELECT value AS v, id AS n FROM t WHERE id = {point}"),
        f"{members:,} partitions, all": lambda root: _events(root, "SELECT sum(value) FROM events"),
        f"{members:,} partitions, one": lambda root: _events(
            root, "SELECT value AS v FROM events WHERE day = 7"
        ),
        "append": lambda root: _append(root, table.slice(0, 10)),
    }
    values = table["value"].to_numpy()
    expected: dict[str, Any] = {
        "scan": [(float(values.sum()), len(values))],
        "point query": [(float(values[point]), point)],
        f"{members:,} partitions, all": [(float(sum(range(members))),)],
        f"{members:,} partitions, one": [(7.0,)],
        "append": len(values) + 10,
    }
    least = {
        "scan": (2 + 2 * files, 4),
        "point query": (5, 5),
        f"{members:,} partitions, all": (4 + 2 * members, 6),
        f"{members:,} partitions, one": (6, 6),
        "append": (5, 4),
    }
    for number in range(settings.rounds):
        for case, work in works.items():
            root = _renamed(store, f"{number}-{case}")
            requests, in_a_row = least[case]
            yield Measure(TITLE, case, "critical path", "s", (in_a_row * store.delay,))
            yield Measure(TITLE, case, "critical path", "requests", (requests,))
            yield from _case(store, case, lambda work=work, root=root: work(root), expected[case])  # type: ignore[misc]
    store.delay = 0
    store.store.clear()


def _renamed(store: type[SlowStore], name: str) -> str:
    """Give everything another name, so that nothing is known of it."""
    for path in list(store.store):
        if path.startswith("/made/"):
            store.store[f"/{name}/{path.removeprefix('/made/')}"] = store.store[path]
    return f"slow:///{name}"


def _case(store: type[SlowStore], case: str, work: Callable[[], Any], expected: Any) -> Iterator[Measure]:
    store.log.clear()
    start = time.perf_counter()
    answer = work()
    seconds = time.perf_counter() - start
    if answer != expected:
        raise SystemExit(f"{case}: {answer} instead of {expected}")
    yield Measure(TITLE, case, "ours", "s", (seconds,))
    yield Measure(TITLE, case, "ours", "s waiting for the store", (store.log.waiting(),))
    yield Measure(TITLE, case, "ours", "requests", (len(store.log.requests),))


def _make_table(files: int, rows: int) -> pa.Table:
    total = files * rows
    value = np.random.default_rng(1).integers(0, 1000, total).astype(np.float64)
    table = pa.table({"id": np.arange(total), "value": value})
    lance_df.write_dataset(table, "slow:///made/t.lance", max_rows_per_file=rows)
    lance_df.dataset("slow:///made/t.lance").create_scalar_index("id", "ZONEMAP")
    return table


def _make_namespace(members: int) -> None:
    rows = pa.table({"day": np.arange(members), "value": np.arange(members).astype(np.float64)})
    namespace = lance_df.PartitionedNamespace.create(
        "slow:///made/events", schema=rows.schema, partition_by=[lance_df.partition.identity("day")]
    )
    namespace.append(rows)


def _append(root: str, rows: pa.Table) -> int:
    return int(lance_df.write_dataset(rows, f"{root}/t.lance", mode="append").count_rows())


def _table(root: str, text: str) -> list[tuple[Any, ...]]:
    ctx = connect()
    register(ctx, "t", f"{root}/t.lance")
    return _rows(ctx.sql(text).to_arrow_table())


def _events(root: str, text: str) -> list[tuple[Any, ...]]:
    ctx = connect()
    register(ctx, "events", lance_df.PartitionedNamespace.open(f"{root}/events"))
    return _rows(ctx.sql(text).to_arrow_table())


def _rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in table.to_pylist()]
