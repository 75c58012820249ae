"""Tasks run on threads, their batches come in order, and nothing runs on when nobody listens."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

from lance_df.errors import CorruptDataError
from lance_df.scan.run import run_tasks
from lance_df.table.reading.prefetch import map_ahead


@dataclass
class FakeTask:
    number: int
    num_batches: int = 3
    fails: bool = False
    num_bytes: int = 10_000_000
    num_rows: int = 3
    started: threading.Event = field(default_factory=threading.Event)
    produced: int = 0

    def read(self) -> Iterator[pa.RecordBatch]:
        self.started.set()
        for batch in range(self.num_batches):
            if self.fails and batch == 1:
                raise CorruptDataError(f"task {self.number}")
            time.sleep(0.001 * (self.number % 3))
            self.produced += 1
            yield pa.record_batch({"n": [self.number * 10 + batch]})


def numbers(batches: Iterator[pa.RecordBatch]) -> list[int]:
    return [value for batch in batches for value in batch["n"].to_pylist()]


@pytest.mark.parametrize("num_threads", [None, 1, 2, 5])
def test_batches_come_in_order(num_threads: int | None) -> None:
    tasks = [FakeTask(number) for number in range(12)]
    expected = [number * 10 + batch for number in range(12) for batch in range(3)]
    assert numbers(run_tasks(tasks, num_threads=num_threads)) == expected


@pytest.mark.parametrize("num_threads", [1, 4])
def test_a_limit_cuts_the_last_batch(num_threads: int) -> None:
    tasks = [FakeTask(number) for number in range(12)]
    assert numbers(run_tasks(tasks, limit=4, num_threads=num_threads)) == [0, 1, 2, 10]
    assert not tasks[11].started.is_set()
    assert numbers(run_tasks(tasks, limit=0)) == []


def test_errors_come_out_where_the_rows_would() -> None:
    tasks = [FakeTask(number, fails=number == 4) for number in range(12)]
    batches = run_tasks(tasks, num_threads=3)
    seen = [next(batches)["n"][0].as_py() for _ in range(13)]
    assert seen == [number * 10 + batch for number in range(4) for batch in range(3)] + [40]
    with pytest.raises(CorruptDataError, match="task 4"):
        next(batches)


def test_workers_wait_for_the_consumer() -> None:
    tasks = [FakeTask(number, num_batches=50) for number in range(6)]
    batches = run_tasks(tasks, num_threads=2)
    next(batches)
    time.sleep(0.2)
    assert sum(task.produced for task in tasks) <= 10
    assert not tasks[2].started.is_set()
    batches.close()


def test_closing_ends_the_threads() -> None:
    before = threading.active_count()
    batches = run_tasks([FakeTask(number, num_batches=500) for number in range(6)], num_threads=3)
    next(batches)
    batches.close()
    assert threading.active_count() == before


def test_small_tasks_run_in_this_thread() -> None:
    tasks = [FakeTask(number, num_bytes=10) for number in range(4)]
    batches = run_tasks(tasks)
    next(batches)
    assert not tasks[1].started.is_set()


@pytest.mark.parametrize("ahead", [0, 1, 4])
def test_map_ahead_keeps_the_order(ahead: int) -> None:
    assert list(map_ahead(lambda number: number * 2, range(20), ahead=ahead)) == list(range(0, 40, 2))


def test_map_ahead_is_bounded_and_stops() -> None:
    made: list[int] = []

    def make(number: int) -> int:
        made.append(number)
        return number

    results = map_ahead(make, iter(range(100)), ahead=3)
    assert next(results) == 0
    time.sleep(0.05)
    assert len(made) <= 4
    results.close()
    assert len(made) <= 4


def test_map_ahead_raises_what_the_function_raises() -> None:
    with pytest.raises(ZeroDivisionError):
        list(map_ahead(lambda number: 1 // (3 - number), range(5), ahead=2))


def test_python_ends_although_nobody_closed_a_scan() -> None:
    program = """
import time
from dataclasses import dataclass
import pyarrow as pa
from lance_df.scan.run import run_tasks

@dataclass
class Endless:
    num_bytes: int = 10_000_000
    num_rows: int = 1

    def read(self):
        while True:
            yield pa.record_batch({"n": [1]})

batches = run_tasks([Endless() for _ in range(3)], num_threads=2)
next(batches)
keep = [batches]
"""
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=root, timeout=60, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
