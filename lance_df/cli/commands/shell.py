"""Run SQL statements over the Lance tables below a folder as they are typed.

A statement ends with a semicolon and may take several lines. Ctrl-C stops a statement. Line editing,
completion and the history come from prompt_toolkit if it is installed, otherwise from readline.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from lance_df.cli import session
from lance_df.cli.shell.line_editing import PROMPTS, line_reader, plain_reader
from lance_df.cli.shell.session import ShellSession, say
from lance_df.cli.shell.statements import is_blank, is_finished, split_statements
from lance_df.errors import LanceError
from lance_df.interrupts import imports_finished

if TYPE_CHECKING:
    import argparse

    from lance_df.cli.shell.line_editing import LineReader

SUMMARY = "type SQL and see the rows"
EXAMPLES = """examples:
  lance-df shell demo_data
  echo "SELECT count(*) FROM flights;" | lance-df shell demo_data
"""


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add the arguments of `lance-df shell`."""
    command.add_argument("root", metavar="ROOT", nargs="?", default=".", help="where the tables are")
    command.add_argument("--history", default="~/.lance_df_history", help="file that keeps what was typed")
    session.add_arguments(command)


def run(options: argparse.Namespace) -> int:
    """Read and run statements until the end of the input."""
    ctx = session.open_session(options.root, options)
    opened = ShellSession(ctx, session.storage_options(options))
    if sys.stdin is None or not sys.stdin.isatty():
        return Shell(opened, plain_reader, stop_at_error=True).run()
    from lance_df.cli.shell.candidates import Candidates

    reader = line_reader(Path(options.history).expanduser(), Candidates(opened))
    say("SQL statements end with ;  \\? shows other commands, \\q leaves")
    return Shell(opened, reader).run()


class Shell:
    """The loop that reads lines and prints results.

    Parameters
    ----------
    read_line
        Called with the prompt.
    stop_at_error
        Whether the first error ends the loop, as it should without a user.
    """

    def __init__(self, opened: ShellSession, read_line: LineReader, *, stop_at_error: bool = False) -> None:
        self._session = opened
        self._read_line = read_line
        self._stop_at_error = stop_at_error

    def run(self) -> int:
        """Return the exit code."""
        text = ""
        while True:
            try:
                line = self._read_line(PROMPTS[not is_blank(text)])
            except KeyboardInterrupt:
                if self._stop_at_error:
                    raise
                text = ""
                continue
            except EOFError:
                return int(not self._attempt(text))
            if is_blank(text) and line.lstrip().startswith("\\"):
                command, text = line.strip(), ""
                if command.rstrip(";") in ("\\q", "\\quit"):
                    return 0
                done = self._attempt(command)
            else:
                text += line + "\n"
                if not is_finished(text):
                    continue
                done, text = self._attempt(text), ""
            if not done and self._stop_at_error:
                return 1

    def _attempt(self, text: str) -> bool:
        """Run a command or statements; print an error in one line and return False if there was one."""
        try:
            with imports_finished():
                self._run(text)
        except LanceError as error:
            say(f"error: {' '.join(str(error).split())}")
            return False
        except KeyboardInterrupt:
            if self._stop_at_error:
                raise
            say("interrupted")
            return False
        return True

    def _run(self, text: str) -> None:
        if text.startswith("\\"):
            self._session.command(*text.split(maxsplit=1))
            return
        for statement in split_statements(text):
            self._session.run(statement)
