"""A store that takes 20 ms for each request: requests, and elapsed seconds beside the longest chain of them.

"critical path" is what has to happen one after the other, and the requests that no reader does without, when
nothing is known from before and any number of requests may be on their way:

Whoever gives a table a name looks for its newest version, so that a wrong name fails at once; and each
statement looks again, so that it sees all that was committed before it began. Files of up to 256 KiB are read
whole.

scan
    The newest version (LIST), its manifest; the newest version again; each file. 3 + 1 a file; 4 in a row.
scan, larger files
    Of each file the footer, which tells where pages are, and the page. 3 + 2 a file; 5 in a row.
point query
    Those three; the zone map; the one file that it leaves. 5; 5 in a row.
partitions
    The newest version of ``__manifest`` and its manifest, to open the namespace; the newest version, to give
    it a name; and again, for the statement; its rows; the manifest and the file of each member that is left.
    5 + 2 a member; 7 in a row.
append
    The newest version and its manifest; the data file; the transaction, and at once the newest version, as
    others may have committed meanwhile; the manifest. 6; 5 in a row.
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
from lance_df.engine.session import connect
from lance_df.engine.tables.names import register

from .common import Settings

TITLE = "store of 20 ms a request"
DELAY: Final = 0.02
LARGE_ROWS: Final = 100_000


def run(settings: Settings) -> Iterator[Measure]:
    store = use_slow_store(0)
    store.store.clear()
    files = 8
    rows = 2_000 if settings.quick else 50_000
    members = 20 if settings.quick else 1_000
    table = _make_table("t", files, rows)
    large = _make_table("large", files, LARGE_ROWS)
    _make_namespace(members)
    store.delay = 0.002 if settings.quick else DELAY
    point = files * rows // 2 + 1
    works: dict[str, Callable[[str], Any]] = {
        "scan": lambda root: _table(root, "SELECT sum(value) AS v, count(*) AS n FROM t"),
        "scan, larger files": lambda root: _table(
            root, "SELECT max(value) AS v, count(*) AS n FROM t", "large"
        ),
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
        "scan, larger files": [(large["value"].to_numpy().max(), len(large))],
        "point query": [(float(values[point]), point)],
        f"{members:,} partitions, all": [(float(sum(range(members))),)],
        f"{members:,} partitions, one": [(7.0,)],
        "append": len(values) + 10,
    }
    least = {
        "scan": (3 + files, 4),
        "scan, larger files": (3 + 2 * files, 5),
        "point query": (5, 5),
        f"{members:,} partitions, all": (5 + 2 * members, 7),
        f"{members:,} partitions, one": (7, 7),
        "append": (6, 5),
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


def _make_table(name: str, files: int, rows: int) -> pa.Table:
    total = files * rows
    value = np.random.default_rng(1).random(total) * 1000
    table = pa.table({"id": np.arange(total), "value": value if rows == LARGE_ROWS else np.floor(value)})
    lance_df.write_dataset(table, f"slow:///made/{name}.lance", max_rows_per_file=rows)
    lance_df.dataset(f"slow:///made/{name}.lance").create_scalar_index("id", "ZONEMAP")
    return table


def _make_namespace(members: int) -> None:
    rows = pa.table({"day": np.arange(members), "value": np.arange(members).astype(np.float64)})
    namespace = lance_df.PartitionedNamespace.create(
        "slow:///made/events", schema=rows.schema, partition_by=[lance_df.partition.identity("day")]
    )
    namespace.append(rows)


def _append(root: str, rows: pa.Table) -> int:
    return int(lance_df.write_dataset(rows, f"{root}/t.lance", mode="append").count_rows())


def _table(root: str, text: str, name: str = "t") -> list[tuple[Any, ...]]:
    ctx = connect()
    register(ctx, "t", f"{root}/{name}.lance")
    return _rows(ctx.sql(text).to_arrow_table())


def _events(root: str, text: str) -> list[tuple[Any, ...]]:
    ctx = connect()
    register(ctx, "events", lance_df.PartitionedNamespace.open(f"{root}/events"))
    return _rows(ctx.sql(text).to_arrow_table())


def _rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in table.to_pylist()]
