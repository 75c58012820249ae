"""A process that has imported the package, and forks off one that runs programs.

Run as a script with the path of a socket. Each connection gets a process of its own, which sends its id, is
sent a prelude, variables and constants, and then lists of programs; it answers with an outcome for each. A
signal makes it write the stacks of its threads to a file.
"""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import os
import pkgutil
import select
import signal
import socket
import sys
import tempfile
import traceback
import warnings
from contextlib import suppress
from importlib import import_module
from multiprocessing.connection import Connection
from typing import Any, Final

_IMPORTED: Final = (
    *("lance_df", "lance_df.api.namespaces.namespace", "lance_df.spark", "lance_df.file.v2.writer"),
    *("datafusion", "pyarrow.compute", "pyarrow.dataset", "pyarrow.ipc", "lance"),
)
_PR_SET_PDEATHSIG: Final = 1
# result, names of the classes of the error, its text, seconds of the processor
_Outcome = tuple[Any, tuple[str, ...], str, float]


def _serve(connection: Connection, stacks: str) -> None:
    faulthandler.register(signal.SIGUSR1, open(f"{stacks}.{os.getpid()}", "w"))  # noqa: SIM115 - as long as it runs
    connection.send(os.getpid())
    prelude, variables, thresholds = connection.recv()
    tempfile.tempdir = os.environ["TMPDIR"] = variables["temporary"]
    names: dict[str, Any] = {"__name__": "history", **variables}
    exec(compile(prelude, "<prelude>", "exec"), names)
    names["set_thresholds"](thresholds)
    while True:
        for source in connection.recv():
            connection.send(_run(source, names))


def _run(source: str, names: dict[str, Any]) -> _Outcome:
    names.pop("result", None)
    before = sum(os.times()[:4])
    error: tuple[str, ...] = ()
    trace = ""
    try:
        exec(compile(source, "<step>", "exec"), names)
    except Exception as err:  # noqa: BLE001 - whatever it is, it is the outcome
        error, trace = tuple(each.__name__ for each in type(err).__mro__), traceback.format_exc()
    return None if error else names.get("result"), error, trace, sum(os.times()[:4]) - before


def _reap() -> None:
    """Collect the processes that have ended. What they took can be read until then."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _import_all() -> None:
    """Import what programs need: each process would have to compile the sources."""
    for name in _IMPORTED:
        import_module(name)
    package = import_module("lance_df")
    for module in pkgutil.walk_packages(package.__path__, "lance_df."):
        if not module.name.endswith("__main__"):
            import_module(module.name)


def _compile_kernels() -> None:
    """Let kernels be compiled that nearly all programs need."""
    import lance_df

    with tempfile.TemporaryDirectory() as folder:
        root = os.path.join(folder, "data")
        pid = os.fork()
        if pid == 0:  # whatever writing starts ends with this process
            import pyarrow as pa

            rows = pa.table({"a": range(9), "s": ["x", *"abcdefg", None], "d": [0.5] * 9})
            lance_df.write_dataset(rows, root)
            os._exit(0)
        os.waitpid(pid, 0)
        lance_df.dataset(root).take([1, 2])


def main(address: str) -> None:
    """Fork off a process for each connection, until the standard input ends."""
    warnings.filterwarnings("ignore", message="lance is not fork-safe")  # it has not been used
    _import_all()
    _compile_kernels()
    gc.freeze()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        print("ready", flush=True)
        while sys.stdin not in select.select([listener, sys.stdin], [], [])[0]:
            connection = Connection(listener.accept()[0].detach())
            _reap()
            if os.fork() == 0:
                listener.close()
                ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # it goes with this process
                try:
                    _serve(connection, address)
                except (EOFError, OSError):
                    os._exit(0)  # the other end is gone
                finally:
                    os._exit(1)
            connection.close()


if __name__ == "__main__":
    main(sys.argv[1])
