"""Run SQL over the Lance tables below a folder, or over a single table.

The default folder is the current one. A folder x.lance is the table x. FROM 'path' reads a file (Lance,
Parquet, CSV, JSON or Arrow) or all files of a pattern such as 'raw/*.parquet'. Rows go to stdout. The number
of rows and the time go to stderr.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from lance_df.cli import session
from lance_df.cli.files import FileTables
from lance_df.cli.output.destination import opened_output, screen_of
from lance_df.cli.output.formats import FORMATS, format_of_file
from lance_df.cli.running import run_statement
from lance_df.cli.shell.statements import split_statements
from lance_df.cli.usage import UsageError
from lance_df.errors import InvalidInputError, StorageError

SUMMARY = "run SQL and print the rows"
EXAMPLES = """examples:
  lance-df sql "SELECT carrier, count(*) FROM flights GROUP BY carrier" demo_data
  lance-df sql "SELECT * FROM planes LIMIT 3" demo_data/planes.lance --format json
  lance-df sql "SELECT * FROM 'demo_data/flights.lance'" --output flights.parquet
  lance-df sql -c "SELECT 1" -c "SELECT 2" --format csv
  lance-df sql --file queries.sql demo_data --format csv
  echo "SELECT count(*) FROM flights" | lance-df sql - demo_data
"""


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add the arguments of `lance-df sql`."""
    command.add_argument(
        "words",
        nargs="*",
        metavar="SQL [ROOT]",
        help="statements (- reads them from stdin), and where the tables are",
    )
    command.add_argument(
        "-c",
        "--command",
        dest="texts",
        action=_Text,
        default=[],
        metavar="SQL",
        help="statements; may be repeated",
    )
    command.add_argument(
        "-f",
        "--file",
        dest="texts",
        action=_Text,
        metavar="FILE",
        help="read statements from a file, or from stdin with -; may be repeated",
    )
    command.add_argument("--format", choices=FORMATS, help="table unless given, or what FILE ends with")
    command.add_argument("-o", "--output", metavar="FILE", help="write the rows to a file")
    command.add_argument(
        "--max-rows",
        type=int,
        metavar="N",
        help="rows of a table to show, 0 for all; on a terminal as many as fit unless given",
    )
    session.add_arguments(command)


class _Text(argparse.Action):
    """Stores texts and files in the given order."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,  # noqa: ARG002 - called by argparse
        namespace: argparse.Namespace,
        values: object,
        option: str | None = None,
    ) -> None:
        is_file = option in ("-f", "--file")
        namespace.texts = [*namespace.texts, (is_file, str(values))]


def run(options: argparse.Namespace) -> int:
    """Run all statements, in order."""
    if options.max_rows is not None and options.max_rows < 0:
        options.parser.error("--max-rows must be a number of rows, or 0 for all")
    texts, words = _texts(options)
    if len(words) > 1:
        options.parser.error(f"expected one ROOT, got {' '.join(words)}")
    statements = [statement for text in texts for statement in split_statements(text)]
    if not statements:
        raise InvalidInputError("the text has no SQL statement")
    style = options.format or _format_of_output(options.output) or "table"
    ctx = session.open_session(words[0] if words else ".", options)
    files = FileTables(ctx, session.storage_options(options))
    # several of these in a file would be none of their kind
    is_single = style in ("parquet", "arrow") or (options.output is not None and style in ("json", "csv"))
    num_results = 0
    with opened_output(options.output) as out:
        max_rows = screen_of(out) if options.max_rows is None else options.max_rows or None
        for statement in statements:
            if num_results and is_single:
                where = "" if options.output is None else f"{options.output}: "
                raise InvalidInputError(
                    f"{where}--format {style} can hold only one result, and the statements have several"
                )
            num_results += run_statement(ctx, statement, style=style, out=out, files=files, max_rows=max_rows)
        if not num_results and style in ("parquet", "arrow"):
            raise InvalidInputError(
                f"--format {style} needs a result with columns, and the statements have none"
            )
    return 0


def _format_of_output(name: str | None) -> str | None:
    """Return the format of an output file by its suffix; None without a file, and for no suffix or .txt.

    Raises
    ------
    UsageError
        The suffix is that of a format that cannot be written.
    """
    if name is None:
        return None
    style, suffix = format_of_file(name), Path(name).suffix
    if style is None and suffix not in ("", ".txt"):
        raise UsageError(
            f"{name}: {suffix} is not the suffix of a known format; choose a format with --format: "
            f"{', '.join(FORMATS)}"
        )
    return style


def _texts(options: argparse.Namespace) -> tuple[list[str], list[str]]:
    """Return SQL texts, and the remaining words."""
    words = list(options.words)
    if options.texts:
        return [_read(text) if is_file else text for is_file, text in options.texts], words
    if words and words[0] == "-":
        return [_read("-")], words[1:]
    if words and (len(words) > 1 or not os.path.isdir(words[0])):
        return words[:1], words[1:]
    text = "" if sys.stdin is None or sys.stdin.isatty() else _read("-")
    if not text:
        options.parser.error("SQL is missing; give it as an argument, or with -c or --file")
    return [text], words


def _read(name: str) -> str:
    try:
        if name == "-" and sys.stdin is None:  # it is closed
            return ""
        text = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
        return text.removeprefix("\ufeff")  # a byte order mark
    except OSError as err:
        if name == "-":  # there is none
            return ""
        raise StorageError(f"{name}: {err.strerror or 'cannot be read'}") from err
    except UnicodeDecodeError as err:
        raise InvalidInputError(f"{name}: not valid UTF-8 text (byte {err.start})") from err
