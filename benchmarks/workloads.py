"""Run workloads that others chose: the queries of TPC-H, TPC-DS and ClickBench.

Usage: python benchmarks/workloads.py [tpch] [tpcds] [clickbench] [--clickbench CHECKOUT] [--page FILE] …

Every engine runs in a process of its own, one at a time. Each has its turn with a query in every round, and
the best run counts. Answers are compared with those of DataFusion on Parquet: their values, and the types of
all that run on DataFusion. What differs or fails is told, and is not counted.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]  # also when a test imports this

from chart import speed_chart  # noqa: E402
from measures import Measure, Ratio, Results, geometric_mean, machine, number, table  # noqa: E402
from tpch import Worker, ensure_peer  # noqa: E402
from workload_data import Workload, clickbench, tpcds, tpch  # noqa: E402

from tools.conformance.answers import row_difference  # noqa: E402
from tools.conformance.statements import ordering_of  # noqa: E402

WORKLOADS = ("tpch", "tpcds", "clickbench")
REFERENCE = "parquet"
OURS = ("ours", "plain", "months", "buckets")
_DATAFUSION = (*OURS, "parquet", "memory")
_PEERS_RELATIVE = 1e-4  # averages of decimals are floats in DuckDB, and have six digits or so in DataFusion
_SLOWER = 1.2  # than the reference: such a query is named
_LIBRARIES = ("datafusion", "duckdb", "pyarrow")


@dataclass
class Run:
    """What a workload took: ``seconds[engine][query]``, each run; and what was wrong, by engine and query."""

    workload: Workload
    seconds: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    wrong: dict[tuple[str, str], str] = field(default_factory=dict)

    def best(self, engine: str, query: str) -> float | None:
        """Return the least seconds; None where the engine failed or answered otherwise."""
        found = self.seconds[engine].get(query)
        return min(found) if found and (engine, query) not in self.wrong else None

    def factors(self, engine: str, peer: str) -> dict[str, float]:
        """Return how many times as fast as a peer an engine is in each query that both answer."""
        found = {}
        for query in self.workload.queries:
            own, other = self.best(engine, query), self.best(peer, query)
            if own is not None and other is not None:
                found[query] = other / own
        return found

    def measures(self) -> Iterator[Measure]:
        for engine, by_query in self.seconds.items():
            for query, seconds in by_query.items():
                yield Measure(self.workload.name, query, engine, "s", tuple(seconds))

    def ratios(self) -> Iterator[Ratio]:
        """Yield the geometric mean of each of ours beside each peer."""
        peers = [engine for engine in self.seconds if not is_ours(engine)]
        for engine in filter(is_ours, self.seconds):
            for peer in peers:
                if factors := self.factors(engine, peer):
                    mean = geometric_mean(factors.values())
                    yield Ratio(f"{self.workload.name}, {engine}", "ours", peer, mean)

    def page(self) -> str:
        """Return Markdown: means, what is slow, what is wrong, and the seconds of each query."""
        peers = [engine for engine in self.seconds if not is_ours(engine)]
        rows = [
            [engine, *(_summary(self.factors(engine, peer)) for peer in peers)]
            for engine in filter(is_ours, self.seconds)
        ]
        parts = [f"## {self.workload.name}", table(["times as fast as", *peers], rows)]
        for engine in filter(is_ours, self.seconds):
            factors = self.factors(engine, REFERENCE)
            slow = [f"{query} {times:.2f}" for query, times in factors.items() if times * _SLOWER < 1]
            parts.append(
                f"{engine}, slower than {REFERENCE} by more than {_SLOWER}: {', '.join(slow) or 'none'}."
            )
        parts += [f"{engine}, {query}: {reason}" for (engine, query), reason in self.wrong.items()]
        cells = [
            [query, *(_cell(self.best(engine, query)) for engine in self.seconds)]
            for query in self.workload.queries
        ]
        return "\n\n".join([*parts, table(["seconds, best run", *self.seconds], cells)])


def is_ours(engine: str) -> bool:
    return engine.partition("-")[0] in OURS


def _summary(factors: Mapping[str, float]) -> str:
    if not factors:
        return ""
    least = min(factors, key=factors.__getitem__)
    ahead = sum(times >= 1 for times in factors.values())
    mean = geometric_mean(factors.values())
    return f"{mean:.2f} ({ahead} of {len(factors)} faster, least {factors[least]:.2f} in {least})"


def _cell(seconds: float | None) -> str:
    return "" if seconds is None else number(seconds)


def measure(
    workload: Workload,
    engines: Sequence[str],
    *,
    rounds: int,
    runs: int,
    interpreters: Mapping[str, Path],
    limit: float | None = None,
) -> Run:
    """Run every query on every engine in turn, after a run that is not counted, and compare the answers.

    An engine that takes more than ``limit`` seconds for a query has failed.
    """
    run = Run(workload, {engine: {} for engine in engines})
    workers = {
        engine: Worker(
            engine,
            workload.home,
            interpreters.get(engine.partition("-")[0], Path(sys.executable)),
            workload.tables,
            limit,
        )
        for engine in engines
    }
    try:
        for query, text in workload.queries.items():
            answers = {}
            for engine, worker in workers.items():
                try:
                    answers[engine] = worker.run(text, 1)
                except RuntimeError as err:
                    run.wrong[engine, query] = f"fails: {' '.join(str(err).split())[:200]}"
            if (expected := answers.get(REFERENCE)) is not None:
                for engine, found in answers.items():
                    if (what := difference(engine, found, expected, text)) is not None:
                        run.wrong[engine, query] = f"answers otherwise: {what}"
            for _ in range(rounds):
                for engine in answers:
                    reply = workers[engine].run(text, runs)
                    run.seconds[engine].setdefault(query, []).extend(reply["seconds"])
            print(f"{workload.name} {query}", file=sys.stderr, flush=True)
    finally:
        for worker in workers.values():
            worker.close()
    return run


def difference(engine: str, found: Mapping[str, Any], expected: Mapping[str, Any], text: str) -> str | None:
    """Return in what an answer differs from the expected one; rows of equal keys may be in any order."""
    is_datafusion = engine.partition("-")[0] in _DATAFUSION
    if is_datafusion:
        for what in ("names", "types"):
            if found[what] != expected[what]:
                return f"{what} are {found[what]}, expected {expected[what]}"[:300]
    rows, wanted = ([tuple(map(_comparable, row)) for row in reply["rows"]] for reply in (found, expected))
    ordering = ordering_of(text, expected["names"])
    if ordering is not None and ordering.is_limited and not ordering.is_complete and len(rows) == len(wanted):
        return None  # which rows are first of those with equal keys is not told by what is returned
    relative = 1e-9 if is_datafusion else _PEERS_RELATIVE
    return row_difference(rows, wanted, ordering, relative=relative)


def _comparable(value: Any) -> Any:
    """Return numbers as floats with one zero, and midnights as dates: the types of the engines differ."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return math.nan if math.isnan(value) else float(value) + 0.0
    if isinstance(value, str):
        return value.removesuffix("T00:00:00")
    return value


def main() -> None:
    options = _parser().parse_args()
    versions = options.version or ["2.2"]
    made = {
        "tpch": lambda: tpch(options.data, options.scale, versions),
        "tpcds": lambda: tpcds(options.data, options.scale, versions),
        "clickbench": lambda: clickbench(options.data, options.hits_rows, options.clickbench, versions),
    }
    interpreters = {}
    if options.pylance:
        interpreters["pylance"] = options.peer_python or ensure_peer(options.data / "peer-venv")
    libraries = {name: version(name) for name in _LIBRARIES}
    results, runs = Results(machine(), libraries, []), []
    for name in options.workload or WORKLOADS:
        if name == "clickbench" and options.clickbench is None:
            sys.exit(
                "the queries of ClickBench: --clickbench CHECKOUT, of the repository ClickHouse/ClickBench"
            )
        workload = made[name]()
        if options.make:
            continue
        engines = options.engine or list(_engines(name, versions, pylance=options.pylance))
        if options.query:
            chosen = {query: workload.queries[query] for query in options.query}
            workload = Workload(workload.name, workload.home, workload.tables, chosen)
        runs.append(
            measure(
                workload,
                engines,
                rounds=options.rounds,
                runs=options.runs,
                interpreters=interpreters,
                limit=options.limit,
            )
        )
        results = Results(results.machine, libraries, [*results.measures, *runs[-1].measures()])
        if options.json:  # after each workload: a run takes long, and may be stopped
            results.save(options.json)
    page = "\n\n".join(run.page() for run in runs) + "\n"
    print(page)
    if options.page:
        options.page.write_text(page)
    if options.svg:
        ratios = [ratio for run in runs for ratio in run.ratios()]
        options.svg.write_text(speed_chart(ratios, "Times as fast as …"))


def _engines(name: str, versions: Sequence[str], *, pylance: bool) -> Iterator[str]:
    yield from (REFERENCE, "duckdb", "duckdb_tables")
    for each in versions:
        if pylance:
            yield f"pylance-{each}"
        yield from (f"ours-{each}", f"plain-{each}")
    if name == "tpch":
        yield from (f"months-{versions[-1]}", f"buckets-{versions[-1]}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("workload", nargs="*", help=f"{', '.join(WORKLOADS)}; all unless given")
    parser.add_argument("--data", type=Path, default=HERE / ".data", help="where tables are kept")
    parser.add_argument("--scale", type=float, default=1, help="of TPC-H and TPC-DS")
    parser.add_argument("--hits-rows", type=int, default=10_000_000, help="of ClickBench's table")
    parser.add_argument("--clickbench", type=Path, help="a checkout of ClickHouse/ClickBench")
    parser.add_argument("--version", action="append", help="of Lance files; 2.2 unless given")
    parser.add_argument("--engine", action="append", help="all unless given")
    parser.add_argument("--query", action="append", help="such as q1; all unless given")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--runs", type=int, default=2, help="in a row, in each round")
    parser.add_argument("--limit", type=float, default=120, help="seconds for the runs of a query")
    parser.add_argument("--pylance", action="store_true", help="with pylance's provider")
    parser.add_argument("--peer-python", type=Path, help="interpreter with pylance and its DataFusion")
    parser.add_argument("--make", action="store_true", help="make the tables, and stop")
    parser.add_argument("--json", type=Path, help="where results are written")
    parser.add_argument("--page", type=Path, help="where the tables are written as Markdown")
    parser.add_argument("--svg", type=Path, help="where the chart is written")
    return parser


if __name__ == "__main__":
    main()
