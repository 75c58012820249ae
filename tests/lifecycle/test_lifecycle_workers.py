"""Processes of histories that never end, take too much memory or are killed, and what they take."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.histories import workers
from tools.histories.workers import Worker, Workers

ROOT = Path(__file__).resolve().parents[2]
BUSY = "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end:\n    pass\n"


@pytest.fixture(scope="module")
def started() -> Iterator[Workers]:
    with Workers(ROOT) as made:
        yield made


@pytest.fixture
def worker(started: Workers, tmp_path: Path) -> Iterator[Worker]:
    made = started.start({"temporary": str(tmp_path)}, {})
    yield made
    made.close()


def test_a_process_that_does_nothing_is_ended_and_its_stacks_are_told(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "_IDLE_SECONDS", 1.0)
    first, second = worker.run("result = 5", "import time\ndef waits():\n    time.sleep(600)\nwaits()")
    assert first.result == 5
    assert second.error == ("hangs",)
    assert "in waits" in second.trace


def test_a_process_that_never_ends_is_ended(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_MAX_SECONDS", 2.0)
    [outcome] = worker.run("while True:\n    pass")
    assert outcome.error == ("hangs",)
    assert worker.seconds > 0.5


def test_a_process_that_takes_too_much_memory_is_ended(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "_MAX_BYTES", 600_000_000)
    [outcome] = worker.run("import time\nx = bytearray(b'x') * 700_000_000\ntime.sleep(60)")
    assert outcome.error == ("memory",)


def test_what_a_process_takes_is_told_with_that_of_its_children(worker: Worker) -> None:
    child = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {BUSY!r}], check=True)"
    one, other = worker.run(BUSY, child)
    assert one.seconds >= 0.25
    assert other.seconds >= 0.25
    assert worker.answered == one.seconds + other.seconds
    assert worker.seconds >= worker.answered - 0.05


def test_what_a_process_takes_that_is_killed_is_told(worker: Worker) -> None:
    [outcome] = worker.run(f"{BUSY}import os, signal\nos.kill(os.getpid(), signal.SIGKILL)")
    assert outcome.error == ("killed",)
    assert worker.seconds >= 0.25


def test_temporary_files_are_made_where_they_are_removed(worker: Worker, tmp_path: Path) -> None:
    [outcome] = worker.run("import tempfile\nresult = tempfile.mkdtemp()")
    assert Path(outcome.result).parent == tmp_path


def test_processes_end_with_their_parent(tmp_path: Path) -> None:
    with Workers(ROOT) as made:
        worker = made.start({"temporary": str(tmp_path)}, {})
        worker.send(["import time\ntime.sleep(600)"])
    [ended] = worker.receive(1)
    assert ended.error == ("killed",)
    worker.close()
