"""Output that goes to a pager where it is longer than the terminal."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import subprocess
import sys
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from lance_df.cli.table_lines import Screen


def pager_command() -> str | None:
    """Return the command of ``LANCE_DF_PAGER`` or ``PAGER``, or less if it is there; None without any."""
    command = os.environ.get("LANCE_DF_PAGER", os.environ.get("PAGER"))
    if command is None:
        return "less -SR" if shutil.which("less") else None
    return command.strip() or None


class PagedOutput(io.TextIOBase):
    """Holds what fits on a screen; starts a pager for what is longer.

    Parameters
    ----------
    command
        A command of the system's shell.
    """

    def __init__(self, command: str, screen: Screen) -> None:
        super().__init__()
        self._command = command
        self._screen = screen
        self._lines = 0
        self._held: list[str] = []
        self._process: subprocess.Popen[str] | None = None

    @property
    def is_open(self) -> bool:
        """Whether the pager has been started."""
        return self._process is not None

    def write(self, text: str) -> int:
        """Write to the pager, if there is one already.

        Raises
        ------
        BrokenPipeError
            The user has left it.
        """
        if self._process is None:
            self._held.append(text)
            columns = max(1, self._screen.columns)
            self._lines += sum(max(1, -(-len(line) // columns)) for line in text.splitlines())
            if self._lines > self._screen.lines - 2:
                # the shell's Ctrl-C is not the pager's
                self._process = subprocess.Popen(
                    self._command, shell=True, stdin=subprocess.PIPE, text=True, encoding="utf-8"
                )
                text = "".join(self._held)
        if self._process is not None:
            _input_of(self._process).write(text)
        return len(text)

    def flush(self) -> None:
        """Print what was held, or wait until the user leaves the pager: there is no more."""
        if self._process is None:
            sys.stdout.write("".join(self._held))
            sys.stdout.flush()
            self._held.clear()
            return
        with contextlib.suppress(BrokenPipeError):
            _input_of(self._process).close()
        while True:
            try:
                self._process.wait()
            except KeyboardInterrupt:  # it is for the pager
                continue
            return


def _input_of(process: subprocess.Popen[str]) -> IO[str]:
    assert process.stdin is not None
    return process.stdin
