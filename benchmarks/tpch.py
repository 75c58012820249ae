"""Compare scans of Lance tables with pylance, Parquet and memory on TPC-H tables.

Usage: python benchmarks/tpch.py [--scale 1] [--engine NAME ...] [--query NAME ...] [--json FILE]

Every engine runs in a process of its own, one at a time; rounds are interleaved, so that a slow minute of the
machine hits all engines; the best run counts. All answers must be equal. pylance needs an interpreter with
the DataFusion release that its provider is built for: --peer-python, or one that this script makes.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import select
import subprocess
import sys
import venv
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))  # also when a test imports this

from data import LANCE_VERSIONS, ensure_data  # noqa: E402
from measures import machine  # noqa: E402
from queries import QUERIES, TABLES  # noqa: E402

ENGINES = (
    "memory",
    "parquet",
    "duckdb",
    *(f"pylance-{version}" for version in LANCE_VERSIONS),
    *(f"ours-{version}" for version in LANCE_VERSIONS),
)
PEER_REQUIREMENTS = ("datafusion==54.*", "pylance>=14,<15")


class Worker:
    """An engine in its process, which gets another one where a call takes more than ``limit`` seconds."""

    def __init__(
        self,
        engine: str,
        home: Path,
        interpreter: Path,
        tables: Iterable[str] = TABLES,
        limit: float | None = None,
    ) -> None:
        self._command = [str(interpreter), str(HERE / "worker.py"), engine, str(home), ",".join(tables)]
        self._limit = limit
        self.engine = engine
        self._start()

    def _start(self) -> None:
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(HERE.parent)},
        )
        self.opened = self._reply()

    def run(self, sql: str, runs: int) -> dict[str, Any]:
        """Return ``seconds`` of each run, the ``rows`` of the answer, and ``peak_bytes`` of the process.

        Raises
        ------
        RuntimeError
            The engine failed, or took too long.
        """
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"sql": sql, "runs": runs}) + "\n")
        self._process.stdin.flush()
        if self._limit is not None and not select.select([self._process.stdout], [], [], self._limit)[0]:
            self._process.kill()
            self.close()
            self._start()
            raise RuntimeError(f"{self.engine}: takes more than {self._limit:.0f} s")
        reply = self._reply()
        if "error" in reply:
            raise RuntimeError(f"{self.engine}: {reply['error']}")
        return reply

    def close(self) -> None:
        """End the process."""
        self._process.communicate()

    def _reply(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.engine}: the worker ended with code {self._process.wait()}")
        reply: dict[str, Any] = json.loads(line)
        return reply


@dataclass
class Results:
    """What was measured; ``seconds[engine][query]`` is the best run, ``all_seconds`` has every run."""

    machine: dict[str, Any]
    versions: dict[str, dict[str, str]] = field(default_factory=dict)
    seconds: dict[str, dict[str, float]] = field(default_factory=dict)
    all_seconds: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    peak_bytes: dict[str, dict[str, int]] = field(default_factory=dict)
    import_seconds: float | None = None

    def markdown(self) -> str:
        """Return the tables."""
        parts = [_table("seconds, best run", self.seconds, lambda value: f"{value:.3f}")]
        if self.peak_bytes:
            parts.append(_table("peak memory, MiB", self.peak_bytes, lambda value: f"{value / 2**20:.0f}"))
        if self.import_seconds is not None:
            parts.append(f"`import lance_df` after `import pyarrow`: {self.import_seconds:.3f} s")
        parts.append(
            "\n".join(f"- {key}: {value}" for key, value in (self.machine | self._libraries()).items())
        )
        return "\n\n".join(parts)

    def _libraries(self) -> dict[str, str]:
        """Return each set of versions with the engines that have it."""
        users: dict[str, list[str]] = {}
        for engine, versions in self.versions.items():
            users.setdefault(", ".join(f"{name} {text}" for name, text in versions.items()), []).append(
                engine
            )
        return {f"libraries of {', '.join(engines)}": text for text, engines in users.items()}


def _table(title: str, cells: dict[str, dict[str, Any]], text: Any) -> str:
    names = list(next(iter(cells.values())))
    lines = [f"| {title} | {' | '.join(names)} |", "|---|" + "---:|" * len(names)]
    lines += [
        f"| {row} | {' | '.join(text(values[name]) for name in names)} |" for row, values in cells.items()
    ]
    return "\n".join(lines)


def measure(
    home: Path,
    engines: list[str],
    queries: list[str],
    *,
    rounds: int,
    runs: int,
    interpreter: Mapping[str, Path],
    texts: Mapping[str, str] = QUERIES,
    tables: Iterable[str] = TABLES,
) -> Results:
    """Run every query on every engine, interleaved, and check that the answers are equal."""
    results = Results(machine=machine())
    workers = [
        Worker(name, home, interpreter.get(name.split("-")[0], Path(sys.executable)), tables)
        for name in engines
    ]
    try:
        for worker in workers:
            results.versions[worker.engine] = worker.opened["versions"]
            results.seconds[worker.engine] = dict.fromkeys(queries, float("inf"))
            results.all_seconds[worker.engine] = {query: [] for query in queries}
        for _ in range(rounds):
            for query in queries:
                answers = {}
                for worker in workers:
                    reply = worker.run(texts[query], runs)
                    results.all_seconds[worker.engine][query] += reply["seconds"]
                    best = results.seconds[worker.engine]
                    best[query] = min(best[query], *reply["seconds"])
                    answers[worker.engine] = reply["rows"]
                check_equal(query, answers)
    finally:
        for worker in workers:
            worker.close()
    return results


def check_equal(query: str, answers: dict[str, Any]) -> None:
    """End with an error unless all engines gave the same rows."""
    first, expected = next(iter(answers.items()))
    for engine, rows in answers.items():
        if not _is_close(rows, expected):
            sys.exit(f"{query}: {engine} answers {rows[:3]}, {first} answers {expected[:3]}")


def _is_close(one: Any, other: Any) -> bool:
    """Whether answers are equal but for the precision of averages, in which the engines differ."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_is_close, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-6)
    return bool(one == other)


def measure_memory(home: Path, engines: list[str], queries: list[str]) -> dict[str, dict[str, int]]:
    """Return the peak resident memory of a fresh process for each query, memory-mapped files included."""
    peaks: dict[str, dict[str, int]] = {}
    for engine in engines:
        for query in queries:
            worker = Worker(engine, home, Path(sys.executable))
            peaks.setdefault(engine, {})[query] = worker.run(QUERIES[query], 1)["peak_bytes"]
            worker.close()
    return peaks


def measure_import(runs: int = 5) -> float:
    """Return the seconds that importing the package adds to importing pyarrow, at best."""
    code = "import time, pyarrow; t = time.perf_counter(); import lance_df; print(time.perf_counter() - t)"
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent)}
    return min(
        float(subprocess.check_output([sys.executable, "-c", code], env=environment)) for _ in range(runs)
    )


def ensure_peer(folder: Path) -> Path:
    """Return an interpreter for pylance's provider; make its environment when it is missing."""
    interpreter = folder / "bin" / "python"
    if not (folder / "ready").exists():
        venv.create(folder, with_pip=True)
        subprocess.run([str(interpreter), "-m", "pip", "install", "-q", *PEER_REQUIREMENTS], check=True)
        (folder / "ready").touch()
    return interpreter


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=HERE / ".data", help="where generated tables are kept")
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--runs", type=int, default=5, help="runs of a query in a row")
    parser.add_argument("--engine", action="append", choices=ENGINES, help="all unless given")
    parser.add_argument("--query", action="append", choices=list(QUERIES), help="all unless given")
    parser.add_argument("--peer-python", type=Path, help="interpreter with pylance and its DataFusion")
    parser.add_argument("--no-memory", action="store_true", help="do not measure memory")
    parser.add_argument("--json", type=Path, help="write the results there too")
    options = parser.parse_args()
    engines, queries = options.engine or list(ENGINES), options.query or list(QUERIES)
    home = ensure_data(options.data, options.scale)
    interpreter = {}
    if any(name.startswith("pylance") for name in engines):
        interpreter["pylance"] = options.peer_python or ensure_peer(options.data / "peer-venv")
    results = measure(
        home, engines, queries, rounds=options.rounds, runs=options.runs, interpreter=interpreter
    )
    results.machine["scale factor"] = options.scale
    if not options.no_memory:
        ours = [name for name in engines if name.startswith("ours")]
        results.peak_bytes = measure_memory(home, ours, queries)
    results.import_seconds = measure_import()
    print(results.markdown())
    if options.json:
        options.json.write_text(json.dumps(vars(results), indent=2) + "\n")


if __name__ == "__main__":
    main()
