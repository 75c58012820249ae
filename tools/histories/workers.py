"""Processes that run the steps: one that goes on, and new ones, which know nothing of what was before."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Client
from pathlib import Path
from typing import Any, Final, Self

PRELUDE: Final = Path(__file__).with_name("prelude.py")
_SECONDS: Final = 180.0


@dataclass(frozen=True)
class Outcome:
    """What came of a program.

    Attributes
    ----------
    result
        The value of ``result``.
    error
        The names of the classes of the error, if there was one, its own first; ``("killed",)`` or
        ``("hangs",)`` where the process did not answer.
    trace
        The text of the error.
    """

    result: Any = None
    error: tuple[str, ...] = ()
    trace: str = ""


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

    def close(self) -> None:
        """End the process that forks off others."""
        self._server.kill()
        self._server.wait()
        for pipe in (self._server.stdin, self._server.stdout):
            if pipe is not None:
                pipe.close()
        with suppress(OSError):
            os.unlink(self._address)
        os.rmdir(self._folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Worker:
    """A process that runs programs one after the other, in one set of variables."""

    def __init__(self, address: str, first_message: tuple[Any, ...]) -> None:
        self._connection = Client(address)
        self._pid: int = self._connection.recv()
        self._handle = os.pidfd_open(self._pid)
        self._connection.send(first_message)

    def send(self, sources: Sequence[str]) -> None:
        """Start programs."""
        self._connection.send(list(sources))

    def receive(self, count: int) -> list[Outcome]:
        """Return what came of as many programs; the last one is an error where the process has ended."""
        outcomes: list[Outcome] = []
        while len(outcomes) < count:
            try:
                if not self._connection.poll(_SECONDS):
                    self._kill()
                    return [*outcomes, Outcome(error=("hangs",), trace=f"no answer after {_SECONDS:.0f} s")]
                outcomes.append(Outcome(*self._connection.recv()))
            except (EOFError, ConnectionResetError):
                return [*outcomes, Outcome(error=("killed",), trace="the process has ended")]
        return outcomes

    def run(self, *sources: str) -> list[Outcome]:
        """Run programs and return what came of them; see `receive`."""
        self.send(sources)
        return self.receive(len(sources))

    def close(self) -> float:
        """End the process, and return the seconds of the processor that it took."""
        seconds = _processor_seconds(self._pid)
        self._kill()
        self._connection.close()
        os.close(self._handle)
        return seconds

    def _kill(self) -> None:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._handle, signal.SIGKILL)


def _processor_seconds(pid: int) -> float:
    """Return what a process has taken so far; 0 where it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
