"""Show what a query would read.

The report shows how many of all fragments, pages and bytes are kept, and which predicate ruled out the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_df.cli import session
from lance_df.cli.files import FileTables
from lance_df.cli.output import page_output
from lance_df.display.page import statement_html

if TYPE_CHECKING:
    import argparse

SUMMARY = "show what a query would read, and why"
EXAMPLES = """examples:
  lance-df explain "SELECT * FROM flights WHERE time_hour < '2013-02-01T00:00:00Z'" demo_data
  lance-df explain "SELECT max(distance) FROM flights" demo_data --html report.html
"""


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add the arguments of `lance-df explain`."""
    command.add_argument("sql", metavar="SQL", help="one query")
    command.add_argument("root", metavar="ROOT", nargs="?", default=".", help="where the tables are")
    page_output.add_argument(command)
    session.add_arguments(command)


def run(options: argparse.Namespace) -> int:
    """Print the report."""
    ctx = session.open_session(options.root, options)
    query = options.sql.rstrip().removesuffix(";")
    FileTables(ctx, session.storage_options(options)).register_for(query)
    report = ctx.explain_scan(query)
    if options.html is None:
        print(report)
    else:
        parts = [statement_html(query), report._repr_html_()]
        page_output.write_page(options.html, "What the query would read", parts)
    return 0
