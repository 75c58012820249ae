"""What the suites share: their settings, interleaved timing, and the comparison of answers."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from measures import Measure

ROOT = Path(__file__).resolve().parents[2]
BENCHMARKS = ROOT / "benchmarks"


@dataclass(frozen=True, slots=True)
class Settings:
    """How to run.

    Attributes
    ----------
    home
        The folder of the TPC-H tables of one scale factor.
    scratch
        An empty folder for what a suite makes.
    quick
        Whether to run on little data, without regard to the numbers.
    rounds, runs
        Rounds, in each of which every engine has its turn with so many runs.
    peers
        The interpreter of each peer that is there: ``pylance`` (in this process), ``pylance-provider`` (in
        another environment, which has the release of DataFusion that its provider is built for), ``duckdb``.
    versions
        Of the format.
    """

    home: Path
    scratch: Path
    quick: bool
    rounds: int
    runs: int
    peers: Mapping[str, Path]
    versions: Sequence[str]

    def has(self, peer: str) -> bool:
        return peer in self.peers


def interleaved(
    works: Mapping[str, Callable[[], Any]],
    settings: Settings,
    same: Callable[[Any, Any], bool] | None = None,
    *,
    runs: int | None = None,
) -> dict[str, tuple[float, ...]]:
    """Time each piece of work in turn, after a run that is not counted, and compare what they return."""
    seconds: dict[str, list[float]] = {name: [] for name in works}
    answers = {name: work() for name, work in works.items()}
    first = next(iter(answers))
    for name, answer in answers.items():
        if not (same or equal_answers)(answers[first], answer):
            sys.exit(f"{name} answers otherwise than {first}: {answer!r:.300} and {answers[first]!r:.300}")
    del answers
    for _ in range(settings.rounds):
        for name, work in works.items():
            for _ in range(runs or settings.runs):
                start = time.perf_counter()
                answer = work()
                seconds[name].append(time.perf_counter() - start)
                del answer
    return {name: tuple(values) for name, values in seconds.items()}


def timed(suite: str, case: str, seconds: Mapping[str, tuple[float, ...]]) -> list[Measure]:
    """Return the measures of what `interleaved` timed."""
    return [Measure(suite, case, engine, "s", values) for engine, values in seconds.items()]


def equal_answers(one: Any, other: Any) -> bool:
    """Whether two answers are equal: tables in the same order, whatever their string types are."""
    if isinstance(one, pa.Table):
        return bool(plain(one).equals(plain(other)))
    return bool(one == other)


def plain(table: pa.Table) -> pa.Table:
    """Return a table in one chunk with plain strings and without metadata."""
    fields = [
        pa.field(field.name, pa.string() if _is_text(field.type) else field.type) for field in table.schema
    ]
    return table.cast(pa.schema(fields)).combine_chunks()


def _is_text(data_type: pa.DataType) -> bool:
    value_type = data_type.value_type if pa.types.is_dictionary(data_type) else data_type
    return value_type in (pa.string(), pa.large_string(), pa.string_view())


def run_python(interpreter: Path, code: str, *arguments: str) -> tuple[float, float, str]:
    """Run code in a new process; return the seconds elapsed, those of the processor, and what it printed."""
    before = os.times()
    start = time.perf_counter()
    done = subprocess.run(
        [str(interpreter), "-c", code, *arguments],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        # compiled modules are kept, whatever this process was told: a peer is not to compile at each start
        env={**os.environ, "PYTHONPATH": str(ROOT), "LANCE_LOG": "error", "PYTHONDONTWRITEBYTECODE": ""},
    )
    elapsed = time.perf_counter() - start
    after = os.times()
    spent = after.children_user - before.children_user + after.children_system - before.children_system
    return elapsed, spent, done.stdout.strip()
