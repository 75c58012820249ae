"""Send output to a pager if it is longer than the terminal."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import subprocess
import sys
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from lance_df.cli.output.table_lines import Screen


def pager_command() -> str | None:
    """Return the command of ``LANCE_DF_PAGER`` or ``PAGER``, or ``less`` if available, or None."""
    command = os.environ.get("LANCE_DF_PAGER", os.environ.get("PAGER"))
    if command is None:
        return "less -SR" if shutil.which("less") else None
    return command.strip() or None


class PagedOutput(io.TextIOBase):
    """Buffers output that fits on a screen, and starts a pager for longer output.

    Parameters
    ----------
    command
        A shell command.
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
        """Buffer text, or write it to the pager once it is started.

        Raises
        ------
        BrokenPipeError
            The user has closed the pager.
        """
        if self._process is None:
            self._held.append(text)
            columns = max(1, self._screen.columns)
            self._lines += sum(max(1, -(-len(line) // columns)) for line in text.splitlines())
            if self._lines > self._screen.lines - 2:
                # a Ctrl-C in lance-df must not end the pager
                self._process = subprocess.Popen(
                    self._command, shell=True, stdin=subprocess.PIPE, text=True, encoding="utf-8"
                )
                text = "".join(self._held)
        if self._process is not None:
            _input_of(self._process).write(text)
        return len(text)

    def flush(self) -> None:
        """Print the buffered output, or wait until the user closes the pager, at the end of the output."""
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
            except KeyboardInterrupt:  # the Ctrl-C is meant for the pager
                continue
            return


def _input_of(process: subprocess.Popen[str]) -> IO[str]:
    assert process.stdin is not None
    return process.stdin
