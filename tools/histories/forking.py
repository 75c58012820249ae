"""A process that has imported the package and done nothing else, and forks off one that runs programs.

Run as a script with the path of a socket. Each connection gets a process of its own, which sends its id, is
sent a prelude, variables and constants, and then lists of programs; it answers with an outcome for each.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import sys
import traceback
import warnings
from importlib import import_module
from multiprocessing.connection import Connection
from typing import Any, Final

_IMPORTED: Final = (
    *("lance_df", "lance_df.api.namespaces", "lance_df.spark", "lance_df.file.writer"),
    *("datafusion", "pyarrow.compute", "pyarrow.dataset", "pyarrow.ipc", "numba", "lance"),
)
# result, names of the classes of the error, its text
_Outcome = tuple[Any, tuple[str, ...], str]


def _serve(connection: Connection) -> None:
    connection.send(os.getpid())
    prelude, variables, thresholds = connection.recv()
    names: dict[str, Any] = {"__name__": "history", **variables}
    exec(compile(prelude, "<prelude>", "exec"), names)
    names["set_thresholds"](thresholds)
    while True:
        for source in connection.recv():
            connection.send(_run(source, names))


def _run(source: str, names: dict[str, Any]) -> _Outcome:
    names.pop("result", None)
    try:
        exec(compile(source, "<step>", "exec"), names)
    except Exception as err:  # noqa: BLE001 - whatever it is, it is the outcome
        return None, tuple(each.__name__ for each in type(err).__mro__), traceback.format_exc()
    return names.get("result"), (), ""


def main(address: str) -> None:
    """Fork off a process for each connection, until the standard input ends."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    warnings.filterwarnings("ignore", message="lance is not fork-safe")  # it has not been used
    for name in _IMPORTED:
        import_module(name)
    gc.freeze()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        print("ready", flush=True)
        while sys.stdin not in select.select([listener, sys.stdin], [], [])[0]:
            connection = Connection(listener.accept()[0].detach())
            if os.fork() == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                try:
                    _serve(connection)
                except (EOFError, OSError):
                    os._exit(0)  # the other end is gone
                finally:
                    os._exit(1)
            connection.close()


if __name__ == "__main__":
    main(sys.argv[1])
