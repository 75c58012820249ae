"""Processes that run the steps: one that goes on, and new ones, which know nothing of what was before."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Client
from pathlib import Path
from typing import Any, Final, Self

PRELUDE: Final = Path(__file__).with_name("prelude.py")
# without an answer: of a process that does nothing, and of any
_IDLE_SECONDS: Final = 180.0
_MAX_SECONDS: Final = 900.0
_MAX_BYTES: Final = 6_000_000_000


@dataclass(frozen=True)
class Outcome:
    """What came of a program.

    Attributes
    ----------
    result
        The value of ``result``.
    error
        The names of the classes of the error, if there was one, its own first; ``("killed",)`` or
        ``("hangs",)`` where the process did not answer, ``("memory",)`` where it took too much.
    trace
        The text of the error.
    seconds
        Of the processor, where the process answered.
    """

    result: Any = None
    error: tuple[str, ...] = ()
    trace: str = ""
    seconds: float = 0.0


class Workers:
    """Makes processes that run programs. A context manager.

    Parameters
    ----------
    root
        The checkout whose package they use.
    planted
        A program that every process runs first: a defect that is to be detected.
    """

    def __init__(self, root: Path, planted: str = "") -> None:
        self._prelude = f"{PRELUDE.read_text()}\n{planted}"
        self._folder = tempfile.mkdtemp(prefix="lifecycle-socket-")
        self._address = os.path.join(self._folder, "socket")
        paths = [str(root), os.environ.get("PYTHONPATH", "")]
        self._server = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("forking.py")), self._address],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))},
            stdin=subprocess.PIPE,  # it ends with this process
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the parent
        )
        if self._server.stdout is None or self._server.stdout.readline() != b"ready\n":
            self.close()
            raise RuntimeError("the process that forks off others did not start")

    def start(self, variables: dict[str, Any], thresholds: dict[str, Any]) -> Worker:
        """Return a new process with some variables, and constants of the package."""
        return Worker(self._address, (self._prelude, variables, thresholds))

    @property
    def seconds(self) -> float:
        """Of the processor that forking took."""
        return _processor_seconds(self._server.pid, children=False)

    def close(self) -> None:
        """End the process that forks off others."""
        self._server.kill()
        self._server.wait()
        for pipe in (self._server.stdin, self._server.stdout):
            if pipe is not None:
                pipe.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Worker:
    """A process that runs programs one after the other, in one set of variables."""

    def __init__(self, address: str, first_message: tuple[Any, ...]) -> None:
        self._connection = Client(address)
        if not self._connection.poll(_IDLE_SECONDS):
            raise TimeoutError("no process was forked off")
        self._pid: int = self._connection.recv()
        self._handle = os.pidfd_open(self._pid)
        self.answered = 0.0  # seconds of the processor that answers took
        self._stacks = Path(f"{address}.{self._pid}")
        self._connection.send(first_message)

    @property
    def seconds(self) -> float:
        """Of the processor that it and its children took so far."""
        return _processor_seconds(self._pid)

    def send(self, sources: Sequence[str]) -> None:
        """Start programs."""
        self._connection.send(list(sources))

    def receive(self, count: int) -> list[Outcome]:
        """Return what came of as many programs; the last one is an error where the process has ended."""
        outcomes: list[Outcome] = []
        while len(outcomes) < count:
            try:
                if (failed := self._wait()) is not None:
                    self._kill()
                    return [*outcomes, failed]
                outcomes.append(Outcome(*self._connection.recv()))
                self.answered += outcomes[-1].seconds
            except (EOFError, ConnectionResetError):
                return [*outcomes, Outcome(error=("killed",), trace="the process has ended")]
        return outcomes

    def _wait(self) -> Outcome | None:
        """Wait for an answer; return what is wrong where there will be none."""
        began = active = time.monotonic()
        seconds = 0.0
        while not self._connection.poll(1.0):
            now = time.monotonic()
            taken = _processor_seconds(self._pid)
            if taken > seconds + 0.2:
                seconds, active = taken, now
            if (size := _resident_bytes(self._pid)) > _MAX_BYTES:
                return Outcome(error=("memory",), trace=f"{size:,} bytes\n{self._all_stacks()}")
            if now - active > _IDLE_SECONDS or now - began > _MAX_SECONDS:
                text = f"no answer after {now - began:.0f} s, {taken:.0f} s of the processor"
                return Outcome(error=("hangs",), trace=f"{text}\n{self._all_stacks()}")
        return None

    def _all_stacks(self) -> str:
        """Return the stacks of the threads of the process."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._handle, signal.SIGUSR1)
        time.sleep(0.5)
        return self._stacks.read_text() if self._stacks.exists() else ""

    def run(self, *sources: str) -> list[Outcome]:
        """Run programs and return what came of them; see `receive`."""
        self.send(sources)
        return self.receive(len(sources))

    def close(self) -> float:
        """End the process, and return the seconds of the processor that it took."""
        seconds = self.seconds
        self._kill()
        select.select([self._handle], [], [], 10.0)  # it writes no file any more
        self._connection.close()
        os.close(self._handle)
        self._stacks.unlink(missing_ok=True)
        return seconds

    def _kill(self) -> None:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._handle, signal.SIGKILL)


def _processor_seconds(pid: int, *, children: bool = True) -> float:
    """Return what a process has taken so far, also where it has ended and nobody has waited for it."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11 : 15 if children else 13])) / os.sysconf("SC_CLK_TCK")


def _resident_bytes(pid: int) -> int:
    """Return the memory that a process has; 0 where it has ended."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0
