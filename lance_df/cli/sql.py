"""Run SQL over the Lance tables below a folder (the current one unless given), or over one table.

A folder x.lance is the table x. Rows go to stdout; their number and the time go to stderr.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from lance_df.cli import session
from lance_df.cli.render import FORMATS
from lance_df.cli.statements import split_statements
from lance_df.errors import InvalidInputError, StorageError

if TYPE_CHECKING:
    import argparse

SUMMARY = "run SQL and print the rows"
EXAMPLES = """examples:
  lance-df sql "SELECT carrier, count(*) FROM flights GROUP BY carrier" demo_data
  lance-df sql "SELECT * FROM planes LIMIT 3" demo_data/planes.lance --format json
  lance-df sql --file queries.sql demo_data --format csv
"""


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add the arguments of `lance-df sql`."""
    command.add_argument(
        "words", nargs="*", metavar="SQL [ROOT]", help="statements, and where the tables are"
    )
    command.add_argument("-f", "--file", help="read the statements from a file, or from stdin with -")
    command.add_argument("--format", choices=FORMATS, default="table", help="table unless given")
    session.add_arguments(command)


def run(options: argparse.Namespace) -> int:
    """Run all statements, in order."""
    words = list(options.words)
    if options.file is None and not words:
        options.parser.error("SQL is needed, or --file")
    text = words.pop(0) if options.file is None else _read(options.file)
    if len(words) > 1:
        options.parser.error(f"one ROOT is expected, got {' '.join(words)}")
    statements = split_statements(text)
    if not statements:
        raise InvalidInputError("there is no SQL statement in the text")
    ctx = session.open_session(words[0] if words else ".", options)
    for statement in statements:
        session.run_statement(ctx, statement, style=options.format, out=sys.stdout)
    return 0


def _read(name: str) -> str:
    try:
        return sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except OSError as err:
        raise StorageError(f"{name}: {err.strerror or 'cannot be read'}") from err
    except UnicodeDecodeError as err:
        raise InvalidInputError(f"{name}: not UTF-8 text (byte {err.start})") from err
