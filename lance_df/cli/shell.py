"""Type SQL over the Lance tables below a folder. Statements end with a semicolon and may take several lines.

Lines are edited and kept in a history, by prompt_toolkit where it is installed and else by readline.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lance_df.cli import session
from lance_df.cli.render import FORMATS
from lance_df.cli.statements import is_blank, is_finished, split_statements
from lance_df.errors import InvalidInputError, LanceError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from lance_df.engine.session import SessionContext

SUMMARY = "type SQL and see the rows"
EXAMPLES = """examples:
  lance-df shell demo_data
  echo "SELECT count(*) FROM flights;" | lance-df shell demo_data
"""

HELP = """\\d            tables
\\d NAME       columns of a table
\\e QUERY      what the query would read, and why
\\format NAME  one of table, csv, json
\\h            this text
\\q            leave (as Ctrl-D does)"""

_LIST_TABLES = """SELECT table_schema, table_name FROM information_schema.tables
WHERE table_schema <> 'information_schema' ORDER BY table_schema, table_name"""
_PROMPTS = ("lance> ", "  ...> ")


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add the arguments of `lance-df shell`."""
    command.add_argument("root", metavar="ROOT", nargs="?", default=".", help="where the tables are")
    command.add_argument("--history", default="~/.lance_df_history", help="file that keeps what was typed")
    session.add_arguments(command)


def run(options: argparse.Namespace) -> int:
    """Read and run statements until the end of the input."""
    ctx = session.open_session(options.root, options)
    interactive = sys.stdin.isatty()
    reader = _line_reader(Path(options.history).expanduser()) if interactive else _plain_reader
    if interactive:
        _say("SQL statements end with ;  \\h shows other commands, \\q leaves")
    return Shell(ctx, reader, stop_at_error=not interactive).run()


class Shell:
    """The loop: lines in, rows out.

    Parameters
    ----------
    read_line
        Called with the prompt; raises EOFError at the end, KeyboardInterrupt to drop what was typed.
    stop_at_error
        Whether the first error ends the loop, as it should when nobody watches.
    """

    def __init__(
        self, ctx: SessionContext, read_line: Callable[[str], str], *, stop_at_error: bool = False
    ) -> None:
        self._ctx = ctx
        self._read_line = read_line
        self._stop_at_error = stop_at_error
        self._style = "table"

    def run(self) -> int:
        """Return the exit code."""
        text = ""
        while True:
            try:
                line = self._read_line(_PROMPTS[not is_blank(text)])
            except KeyboardInterrupt:
                if self._stop_at_error:
                    raise
                text = ""
                continue
            except EOFError:
                return int(not self._attempt(text))
            if is_blank(text) and line.lstrip().startswith("\\"):
                command, text = line.strip(), ""
                if command in ("\\q", "\\quit"):
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
            if text.startswith("\\"):
                self._command(*text.split(maxsplit=1))
            else:
                for statement in split_statements(text):
                    session.run_statement(self._ctx, statement, style=self._style, out=sys.stdout)
        except LanceError as error:
            _say(f"error: {' '.join(str(error).split())}")
            return False
        except KeyboardInterrupt:
            if self._stop_at_error:
                raise
            _say("interrupted")
            return False
        return True

    def _command(self, name: str, argument: str = "") -> None:
        match name:
            case "\\d" if argument:
                quoted = argument.rstrip(";").replace('"', "").replace(".", '"."')
                self._show(f'DESCRIBE "{quoted}"')
            case "\\d":
                self._show(_LIST_TABLES)
            case "\\e" if argument:
                print(self._ctx.explain_scan(argument.rstrip(";")))
            case "\\format" if argument in FORMATS and argument != "arrow":
                self._style = argument
            case "\\h" | "\\help" | "\\?":
                _say(HELP)
            case _:
                raise InvalidInputError(f"{name} {argument}".rstrip() + " is not a command; \\h lists them")

    def _show(self, statement: str) -> None:
        session.run_statement(self._ctx, statement, style="table", out=sys.stdout)


def _plain_reader(prompt: str) -> str:  # noqa: ARG001 - nobody is there to be prompted
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.rstrip("\n")


def _line_reader(history: Path) -> Callable[[str], str]:
    """Return a function that reads a line with editing and history, by the best library that is there."""
    try:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.history import FileHistory
    except ImportError:
        return _readline_reader(history)
    prompt: Any = PromptSession(history=FileHistory(str(history)))
    return lambda text: str(prompt.prompt(text))


def _readline_reader(history: Path) -> Callable[[str], str]:
    try:
        import readline
    except ImportError:  # Windows has none
        return input
    import atexit

    if history.is_file():
        readline.read_history_file(history)
    atexit.register(readline.write_history_file, history)
    return input


def _say(text: str) -> None:
    print(text, file=sys.stderr)
