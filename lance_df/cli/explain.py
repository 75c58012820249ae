"""Show what a query would read: fragments, pages and bytes kept of the total, and which predicate did it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_df.cli import session

if TYPE_CHECKING:
    import argparse

SUMMARY = "show what a query would read, and why"
EXAMPLES = """examples:
  lance-df explain "SELECT * FROM flights WHERE time_hour < '2013-02-01T00:00:00Z'" demo_data
"""


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add the arguments of `lance-df explain`."""
    command.add_argument("sql", metavar="SQL", help="one query")
    command.add_argument("root", metavar="ROOT", nargs="?", default=".", help="where the tables are")
    session.add_arguments(command)


def run(options: argparse.Namespace) -> int:
    """Print the report."""
    ctx = session.open_session(options.root, options)
    print(ctx.explain_scan(options.sql.rstrip().removesuffix(";")))
    return 0
