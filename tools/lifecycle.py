"""Run random histories of tables and namespaces, and compare each step with a model in plain Python.

Usage: python tools/lifecycle.py --seconds N [--seed S] [--histories N] [--jobs N] [--summary FILE]

A failure is made shorter, and written to a file as a program that reproduces it. The exit code is 1 then.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import resource
import signal
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

from histories import run_seed  # noqa: E402 - found by the path above
from histories.model import Model  # noqa: E402
from histories.running import Counts, Failure  # noqa: E402
from histories.shrinking import shrunk  # noqa: E402
from histories.workers import Workers  # noqa: E402


@dataclass
class Summary:
    """What a run did."""

    seed: int
    histories: int = 0
    steps: Counter[str] = field(default_factory=Counter)
    checks: Counter[str] = field(default_factory=Counter)
    processor_seconds: float = 0.0
    failures: list[str] = field(default_factory=list)

    def add(self, other: Summary) -> None:
        """Add what another process did."""
        self.histories += other.histories
        self.steps += other.steps
        self.checks += other.checks
        self.processor_seconds += other.processor_seconds
        self.failures += other.failures

    def as_dict(self, elapsed: float) -> dict[str, Any]:
        """Return the summary as it is written to a file."""
        return {
            "seed": self.seed,
            "histories": self.histories,
            "steps": self.steps.total(),
            "checks": self.checks.total(),
            "elapsed_seconds": round(elapsed, 1),
            "processor_seconds": round(self.processor_seconds, 1),
            "failures": self.failures,
            "by_step": dict(sorted(self.steps.items())),
            "by_check": dict(sorted(self.checks.items())),
        }


def run(options: argparse.Namespace, job: int) -> Summary:
    """Run every ``--jobs``-th history of the seeds from ``--seed`` on, until time is up."""
    summary = Summary(options.seed)
    counts = Counts()
    until = time.monotonic() + options.seconds
    seed = options.seed + job
    try:
        with Workers(ROOT) as workers:
            while time.monotonic() < until and (
                options.histories is None or seed < options.seed + options.histories
            ):
                model, failure = run_seed(seed, workers, counts, kind=options.kind, until=until)
                summary.histories += 1
                if failure is not None:
                    summary.failures.append(_reported(seed, model, failure, workers, options))
                    if not options.keep_going:
                        break
                seed += options.jobs
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    summary.steps.update(counts.steps)
    summary.checks.update(counts.checks)
    summary.processor_seconds = counts.seconds + usage.ru_utime + usage.ru_stime
    return summary


def _reported(
    seed: int, model: Model, failure: Failure, workers: Workers, options: argparse.Namespace
) -> str:
    """Make a failure shorter, write its program, and return where that is."""
    print(f"seed {seed}: {failure.kind}: {failure.text[:1500]}", flush=True)
    model, failure = shrunk(model, failure, workers, Counts(), seconds=options.shrink_seconds)
    path: Path = options.failures / f"history_{seed}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(failure.program(model.settings, f"The history of seed {seed}."))
    print(f"seed {seed}: shrunk to {len(failure.steps)} steps: {path}", flush=True)
    return f"{path}: {failure.kind}"


def _interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def _job(options: argparse.Namespace, job: int, results: Any) -> None:
    signal.signal(signal.SIGTERM, _interrupted)
    results.put(run(options, job))


def run_all(options: argparse.Namespace) -> Summary:
    """Run histories in as many processes as are asked for."""
    if options.jobs == 1:
        return run(options, 0)
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    jobs = [context.Process(target=_job, args=(options, job, results)) for job in range(options.jobs)]
    for each in jobs:
        each.start()
    summary = Summary(options.seed)
    for _ in jobs:
        while True:
            try:
                summary.add(results.get())
                break
            except KeyboardInterrupt:  # the jobs have it as well, and end
                continue
    for each in jobs:
        each.join()
    return summary


def parsed() -> argparse.Namespace:
    """Return the arguments."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="when no further step begins")
    parser.add_argument(
        "--seed", type=int, help="of the first history; the next ones follow; random by default"
    )
    parser.add_argument("--histories", type=int, help="at most so many: 1 runs one seed again")
    parser.add_argument("--kind", choices=["table", "namespace"], help="of what; both by default")
    parser.add_argument("--jobs", type=int, default=1, help="histories at once")
    parser.add_argument("--failures", type=Path, default=Path("failures"), help="folder for programs")
    parser.add_argument("--shrink-seconds", type=float, default=90.0, help="to make a failure shorter")
    parser.add_argument("--keep-going", action="store_true", help="run on after a failure")
    parser.add_argument("--summary", type=Path, help="append a line of JSON to this file")
    options = parser.parse_args()
    if options.seed is None:
        options.seed = random.SystemRandom().randrange(10**9)
    return options


def main() -> None:
    options = parsed()
    for each in (signal.SIGINT, signal.SIGTERM):  # a shell starts background jobs without the former
        signal.signal(each, _interrupted)
    began = time.monotonic()
    summary = run_all(options)
    found = summary.as_dict(time.monotonic() - began)
    if options.summary is not None:
        with options.summary.open("a") as file:
            file.write(json.dumps(found) + "\n")
    for name, count in found.pop("by_step").items():
        print(f"{count:8} {name}")
    for name, count in found.pop("by_check").items():
        print(f"{count:8} check: {name}")
    print(json.dumps(found))
    sys.exit(1 if summary.failures else 0)


if __name__ == "__main__":
    main()
