"""Run statements and commands in the shell, with its settings and output."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Final

from lance_df.cli.files import FileTables
from lance_df.cli.inspection.table_list import listed_tables
from lance_df.cli.output.destination import screen_of
from lance_df.cli.output.formats import TEXT_FORMATS
from lance_df.cli.output.pager import PagedOutput, pager_command
from lance_df.cli.output.render import render
from lance_df.cli.running import run_statement
from lance_df.errors import InvalidInputError
from lance_df.sql.splice import quote_identifier

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from lance_df.engine.session import SessionContext

COMMANDS: Final = (
    *("\\d", "\\dt", "\\explain", "\\e", "\\format", "\\timing", "\\pager"),
    *("\\q", "\\quit", "\\?", "\\h", "\\help"),
)

HELP: Final = f"""\\d, \\dt        tables
\\d NAME        columns of a table, or of a file in quotes
\\explain SQL   what the query would read, and why (also \\e)
\\format NAME   one of {", ".join(TEXT_FORMATS)}
\\timing        show the time of statements, or do not
\\pager         send long results to a pager, or do not
\\?             this text (also \\h)
\\q             leave (as Ctrl-D does)"""


class ShellSession:
    """A session with its output settings."""

    def __init__(self, ctx: SessionContext, storage_options: Mapping[str, Any] | None = None) -> None:
        self.ctx = ctx
        self.files = FileTables(ctx, storage_options)
        self._style = "table"
        self._has_timing = True
        self._has_pager = True

    def run(self, statement: str, style: str | None = None) -> None:
        """Run a statement and show its rows."""
        screen = screen_of(sys.stdout, "\\pager on shows all")
        command = pager_command() if screen is not None and self._has_pager else None
        if screen is None or command is None:
            run_statement(
                self.ctx,
                statement,
                style=style or self._style,
                out=sys.stdout,
                files=self.files,
                max_rows=screen,
                timing=self._has_timing,
            )
            return
        paged = PagedOutput(command, screen)
        try:
            with contextlib.suppress(BrokenPipeError):  # the user closed the pager
                run_statement(
                    self.ctx,
                    statement,
                    style=style or self._style,
                    out=paged,  # type: ignore[arg-type]
                    files=self.files,
                    timing=self._has_timing,
                    is_quiet=lambda: paged.is_open,
                )
        finally:
            paged.flush()

    def command(self, name: str, argument: str = "") -> None:
        """Run a shell command.

        Raises
        ------
        InvalidInputError
            The command is unknown, or its argument is missing or unknown.
        """
        argument = argument.strip().rstrip(";").rstrip()
        match name:
            case "\\d" if argument:
                self.run(f"DESCRIBE {_table_name(argument)}", "table")
            case "\\d" | "\\dt":
                tables = listed_tables(self.ctx, self.files.names)
                render(tables.schema, tables.to_batches(), style="table", out=sys.stdout)
            case "\\e" | "\\explain":
                if not argument:
                    raise InvalidInputError(f"{name} needs a query, such as {name} SELECT 1")
                self.files.register_for(argument)
                print(self.ctx.explain_scan(argument))
            case "\\format":
                if argument not in TEXT_FORMATS:
                    problem = f", not {argument!r:.60}" if argument else ""
                    raise InvalidInputError(f"{name} needs one of {', '.join(TEXT_FORMATS)}{problem}")
                self._style = argument
            case "\\timing":
                self._has_timing = _switched(self._has_timing, argument)
                say(f"timing is {'on' if self._has_timing else 'off'}")
            case "\\pager":
                self._has_pager = _switched(self._has_pager, argument)
                say(f"the pager is {'on' if self._has_pager else 'off'}")
            case "\\h" | "\\help" | "\\?":
                say(HELP)
            case _:
                raise InvalidInputError(f"{name} {argument}".rstrip() + " is not a command; \\? lists them")


def say(text: str) -> None:
    """Print a message, which is not a result."""
    print(text, file=sys.stderr)


def _switched(is_on: bool, argument: str) -> bool:
    return not is_on if argument not in ("on", "off") else argument == "on"


def _table_name(text: str) -> str:
    """Return a name as SQL: a name in double quotes unchanged, others with each part quoted."""
    if text[0] in "\"'":
        return text if text[0] == '"' else quote_identifier(text.strip("'"))
    return ".".join(quote_identifier(part) for part in text.split("."))
