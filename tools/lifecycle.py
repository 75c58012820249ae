"""Run random histories of tables and namespaces, and compare each step with a model in plain Python.

Usage: python tools/lifecycle.py --seconds N [--seed S] [--histories N] [--jobs N] [--summary FILE]

A failure is made shorter, and written to a file as a program that reproduces it. The exit code is 1 then.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import queue
import random
import resource
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
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

_HISTORIES_AT_ONCE = 50
_HISTORY_SECONDS = 900.0
_SHRUNK = 2  # failures of one kind


@dataclass
class Summary:
    """What a run did."""

    seed: int
    histories: int = 0
    steps: Counter[str] = field(default_factory=Counter)
    checks: Counter[str] = field(default_factory=Counter)
    ways: Counter[str] = field(default_factory=Counter)
    sizes: Counter[str] = field(default_factory=Counter)
    seconds_by: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def add(self, other: Summary) -> None:
        """Add what another process did."""
        self.histories += other.histories
        self.failures += other.failures
        for name in ("steps", "checks", "ways", "sizes", "seconds_by"):
            getattr(self, name).update(getattr(other, name))

    def progress(self) -> str:
        """Return what was done so far."""
        return (
            f"{self.histories} histories, {self.steps.total()} steps, "
            f"{self.checks.total()} checks, {self.seconds_by.total():.0f} s of the processor, "
            f"{len(self.failures)} failures"
        )

    def as_dict(self, elapsed: float) -> dict[str, Any]:
        """Return the summary as it is written to a file."""
        return {
            "seed": self.seed,
            "histories": self.histories,
            "steps": self.steps.total(),
            "checks": self.checks.total(),
            "elapsed_seconds": round(elapsed, 1),
            "processor_seconds": round(self.seconds_by.total(), 1),
            "failures": self.failures,
            "by_step": dict(sorted(self.steps.items())),
            "by_check": dict(sorted(self.checks.items())),
            "by_way": dict(sorted(self.ways.items())),
            "by_size": dict(sorted(self.sizes.items())),
            "by_processor_seconds": {
                name: round(seconds, 1) for name, seconds in self.seconds_by.most_common()
            },
        }


def run(options: argparse.Namespace, job: int) -> Summary:
    """Run every ``--jobs``-th history of the seeds from ``--seed`` on, until time is up."""
    summary = Summary(options.seed)
    until = time.monotonic() + options.seconds
    seeds: Iterator[int] = itertools.count(options.seed + job, options.jobs)
    if options.histories is not None:
        seeds = itertools.takewhile(lambda seed: seed < options.seed + options.histories, seeds)
    try:
        while time.monotonic() < until and (some := list(itertools.islice(seeds, _HISTORIES_AT_ONCE))):
            _run_some(some, summary, until, options)
            print(summary.progress(), flush=True)
            if summary.failures and not options.keep_going:
                break
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    summary.seconds_by["model"] += usage.ru_utime + usage.ru_stime
    return summary


def _run_some(seeds: Sequence[int], summary: Summary, until: float, options: argparse.Namespace) -> None:
    """Run some histories with processes of one parent, which goes then."""
    counts = Counts()
    with Workers(ROOT) as workers:
        try:
            for seed in seeds:
                now = time.monotonic()
                if now > until:
                    break
                end = min(until, now + _HISTORY_SECONDS)
                model, failure = run_seed(seed, workers, counts, kind=options.kind, until=end)
                summary.histories += 1
                if failure is not None:
                    summary.failures.append(_reported(seed, model, failure, workers, summary, options))
                    if not options.keep_going:
                        break
        except Exception:  # noqa: BLE001 - of the tool itself: other histories may go on
            summary.failures.append(f"seed {seed}: {traceback.format_exc()}")
            print(summary.failures[-1], flush=True)
        finally:
            counts.add_seconds("forking", workers.seconds)
            for name in ("steps", "checks", "ways", "sizes", "seconds_by"):
                getattr(summary, name).update(getattr(counts, name))


def _reported(
    seed: int,
    model: Model,
    failure: Failure,
    workers: Workers,
    summary: Summary,
    options: argparse.Namespace,
) -> str:
    """Make a failure shorter, write its program, and return where that is."""
    print(f"seed {seed}: {failure.kind}: {failure.text[:1500]}", flush=True)
    alike = sum(text.endswith(f": {failure.kind}") for text in summary.failures)
    if alike < _SHRUNK:
        counts = Counts()
        model, failure = shrunk(model, failure, workers, counts, seconds=options.shrink_seconds)
        summary.seconds_by["shrinking"] += counts.seconds
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
    left = len(jobs)
    while left:
        try:
            summary.add(results.get(timeout=5.0))
            left -= 1
        except KeyboardInterrupt:  # the jobs have it as well, and end
            continue
        except queue.Empty:
            if any(each.is_alive() for each in jobs):
                continue
            summary.failures.append(f"{left} jobs ended without a result")
            break
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
    for name, count in found.pop("by_way").items():
        print(f"{count:8} {count / max(1, found['steps']):6.1%} of steps: {name}")
    for name, count in found.pop("by_size").items():
        print(f"{count:8} {count / max(1, found['histories']):6.1%} of histories: {name}")
    for name, seconds in found.pop("by_processor_seconds").items():
        print(f"{seconds:8.1f} s: {name}")
    print(json.dumps(found))
    sys.exit(1 if summary.failures else 0)


if __name__ == "__main__":
    main()
