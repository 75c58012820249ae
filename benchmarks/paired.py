"""Two checkouts of this package beside each other: python benchmarks/paired.py OLD NEW --data FOLDER

Each has a process for each suite; both answer the same query in turns, and the least of all runs counts.
Tables and namespaces are those of FOLDER, made by the new one where they are not there yet. What is compared:
the nine queries and the joins, in sessions and in plain contexts, over tables of 2.0, 2.1 and 2.2, and over
namespaces by month and by buckets; taking rows; and reading all of lineitem. The exit code is 1 where a
geometric mean got worse by 3 %, or a query by 10 % and by more than a fifth of a millisecond.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))  # also when a test imports this

from data import LANCE_VERSIONS, ensure_data  # noqa: E402
from measures import geometric_mean, table  # noqa: E402
from queries import ALL_TABLES, JOINS, QUERIES  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

Compared: TypeAlias = dict[str, dict[str, tuple[float, float]]]

MAX_MEAN = 1.03
MAX_QUERY = 1.10
_LEAST_SECONDS = 0.0002
NAMESPACES = {
    "lineitem": ("year(l_shipdate)", "month(l_shipdate)"),
    "orders": ("bucket(o_orderkey, 8)",),
    "customer": ("bucket(c_custkey, 4)",),
}


def suites() -> dict[str, dict[str, str]]:
    """Return the cases of each suite: SQL, or what `_rows` does."""
    queries = QUERIES | {f"{name} (join)": text for name, text in JOINS.items() if name not in QUERIES}
    found = {f"{kind} {version}": queries for kind in ("session", "plain") for version in LANCE_VERSIONS}
    found["session namespaces"] = found["plain namespaces"] = QUERIES
    for version in LANCE_VERSIONS:
        found[f"rows {version}"] = {"take 1,000": "take", "full scan": "scan"}
    return found


def work(suite: str, home: Path) -> None:
    """Answer each line, a case and a number of runs, by the seconds of each."""
    kind, _, version = suite.partition(" ")
    folder = home / version
    run = _rows(folder) if kind == "rows" else _engine(kind, folder)
    cases = suites()[suite]
    for line in sys.stdin:
        case, runs = json.loads(line)
        seconds = []
        for _ in range(runs):
            began = time.perf_counter()
            run(cases[case])
            seconds.append(time.perf_counter() - began)
        print(json.dumps(seconds), flush=True)


class Worker:
    """A process that imports one of the checkouts."""

    def __init__(self, checkout: Path, suite: str, home: Path) -> None:
        path = os.pathsep.join([str(checkout), os.environ.get("PYTHONPATH", "")])
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--work", suite, str(home)],
            env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, case: str, runs: int) -> list[float]:
        """Return the seconds of each run."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([case, runs]) + "\n")
        self._process.stdin.flush()
        seconds: list[float] = json.loads(self._process.stdout.readline())
        return seconds

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def _engine(kind: str, folder: Path) -> Callable[[str], Any]:
    from datafusion import SessionConfig, SessionContext

    import lance_df

    config = SessionConfig().with_target_partitions(os.cpu_count() or 1)
    if kind == "session":
        ctx = lance_df.connect(str(folder), config=config)
    else:
        ctx = SessionContext(config)
        for path in sorted(folder.iterdir()):
            lance_df.register(ctx, path.name.removesuffix(".lance"), str(path))
    return lambda sql: ctx.sql(sql).to_arrow_table()


def _rows(folder: Path) -> Callable[[str], Any]:
    import numpy as np

    import lance_df

    dataset = lance_df.dataset(str(folder / "lineitem.lance"))
    rows = np.sort(np.random.default_rng(7).choice(dataset.count_rows(), 1000, replace=False)).tolist()

    def run(what: str) -> None:
        if what == "take":
            dataset.take(rows)
        else:
            for _ in dataset.to_batches():
                pass

    return run


def make_namespaces(home: Path) -> None:
    """Write the namespaces, and the tables that are in the folder with them."""
    import pyarrow.dataset as pads

    import lance_df

    for name, spec in NAMESPACES.items():
        target = home / "namespaces" / name
        if not target.exists():
            rows = pads.dataset(home / "parquet" / f"{name}.parquet").scanner().to_reader()
            lance_df.PartitionedNamespace.create(target, rows.schema, list(spec)).append(rows)


def compare(checkouts: list[Path], home: Path, rounds: int, seconds: float, only: str, part: str) -> Compared:
    """Return the least seconds of both, by suite and case."""
    least: Compared = {}
    for suite, cases in suites().items():
        selected = [each for each in cases if part in each]
        if only not in suite or not selected:
            continue
        least[suite] = {}
        workers = [Worker(checkout, suite, home) for checkout in checkouts]
        for case in selected:
            first = [min(worker.run(case, 2)) for worker in workers]
            runs = max(1, min(100, round(seconds / max(first))))
            for number in range(rounds):
                for at in (0, 1) if number % 2 == 0 else (1, 0):
                    first[at] = min(first[at], *workers[at].run(case, runs))
            least[suite][case] = (first[0], first[1])
        for worker in workers:
            worker.close()
        print(_table({suite: least[suite]}), flush=True)
    return least


def _table(least: Compared) -> str:
    rows = []
    for suite, cases in least.items():
        for case, (old, new) in cases.items():
            mark = "**worse**" if is_worse(old, new) else ""
            rows.append([suite, case, f"{old * 1000:.2f}", f"{new * 1000:.2f}", f"{new / old:.2f}", mark])
        mean = geometric_mean(new / old for old, new in cases.values())
        rows.append([suite, "geometric mean", "", "", f"{mean:.3f}", "**worse**" if mean > MAX_MEAN else ""])
    return table(["suite", "case", "old, ms", "new, ms", "new / old", ""], rows)


def is_worse(old: float, new: float) -> bool:
    """Return whether a case got slower by more than is allowed."""
    return new > old * MAX_QUERY and new - old > _LEAST_SECONDS


def main() -> None:
    if sys.argv[1:2] == ["--work"]:
        work(sys.argv[2], Path(sys.argv[3]))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=0.2, help="of each case, in each round, about")
    parser.add_argument("--only", default="", help="suites whose names have this part")
    parser.add_argument("--case", default="", help="cases whose names have this part")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    home = ensure_data(arguments.data, arguments.scale, tables=ALL_TABLES)
    make_namespaces(home)
    checkouts = [arguments.old, arguments.new]
    least = compare(checkouts, home, arguments.rounds, arguments.seconds, arguments.only, arguments.case)
    if arguments.json:
        arguments.json.write_text(json.dumps(least, indent=1) + "\n")
    means = {
        suite: geometric_mean(new / old for old, new in cases.values()) for suite, cases in least.items()
    }
    worse = [
        f"{suite}: {case}"
        for suite, cases in least.items()
        for case, pair in cases.items()
        if is_worse(*pair)
    ]
    print("median of the means:", f"{statistics.median(means.values()):.3f}")
    print("slower:", worse or "none")
    if worse or any(mean > MAX_MEAN for mean in means.values()):
        sys.exit(1)


if __name__ == "__main__":
    main()
