"""Run programs in new processes, which have read nothing of what the tests have read.

They are forks of a process that has imported the package and done nothing else: the import alone takes more
than a second. They end without what `atexit` calls, so a test of the start or the end of an interpreter
starts one. Limits and settings that a test has replaced have their usual values in them.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import sys
import threading
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from pathlib import Path

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(
    [
        "lance_df.api.namespaces.namespace",
        "lance_df.cli.commands.sql",
        "lance_df.engine.optimizer.rules",
        "lance_df.engine.session",
        "lance_df.file.v2.reader_2_1",
        "lance_df.namespace.health.repair",
        "lance_df.namespace.health.verify",
        "pyarrow.parquet",
        __name__,
    ]
)
_SECONDS = 120


def answer_of(program: str, **names: Any) -> Any:
    """Run a program that may use ``names``, and return what it calls ``answer``, or raise what it raises."""
    with ProcessPoolExecutor(1, mp_context=_FORKS) as pool:
        return pool.submit(_answer_of, program, names).result()


def _answer_of(program: str, names: dict[str, Any]) -> Any:
    scope = {"__name__": "__main__", **names}
    exec(program, scope)
    return scope.get("answer")


@dataclass(frozen=True)
class Ended:
    """What a command has left."""

    returncode: int | None
    stdout: bytes
    stderr: bytes


def run_command(*arguments: object, cwd: Path, text: str = "") -> Ended:
    """Run ``lance-df`` to its end, with pipes as its standard streams."""
    pipes = [_FORKS.Pipe(duplex=False) for _ in range(3)]
    (stdin, input_end), (out_end, stdout), (err_end, stderr) = pipes
    command = _FORKS.Process(
        target=_run_command, args=([*map(str, arguments)], str(cwd), stdin, stdout, stderr)
    )
    command.start()
    for end in (stdin, stdout, stderr):
        end.close()
    output: dict[Connection, bytes] = {}

    def read(end: Connection) -> None:
        with open(os.dup(end.fileno()), "rb") as file:
            output[end] = file.read()

    readers = [threading.Thread(target=read, args=(end,)) for end in (out_end, err_end)]
    for reader in readers:
        reader.start()
    try:
        with open(os.dup(input_end.fileno()), "wb") as file:
            input_end.close()
            file.write(text.encode())
    except BrokenPipeError:
        pass
    command.join(_SECONDS)
    command.kill()
    for reader in readers:
        reader.join()
    for end in (out_end, err_end):
        end.close()
    return Ended(command.exitcode, output[out_end], output[err_end])


def _run_command(arguments: list[str], cwd: str, *streams: Connection) -> None:
    for number, stream in enumerate(streams):
        os.dup2(stream.fileno(), number)
        stream.close()
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - that of a child is empty
    sys.argv[1:] = arguments
    os.chdir(cwd)
    runpy.run_module("lance_df.cli", run_name="__main__", alter_sys=True)
