"""Check a table or a partitioned namespace, and change nothing.

The exit code is 0 if there is neither an error nor a warning, and 1 otherwise.
"""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING

from lance_df.cli import session

if TYPE_CHECKING:
    import argparse

SUMMARY = "check a table or a partitioned namespace"
EXAMPLES = """examples:
  lance-df verify demo_data/flights.lance
  lance-df verify --deep ./events
"""


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add the arguments of `lance-df verify`."""
    command.add_argument("path", metavar="PATH", help="a table, or the root of a namespace")
    command.add_argument("--deep", action="store_true", help="read all rows of a namespace, too")
    command.add_argument("--format", choices=("table", "json"), default="table")
    session.add_storage_option(command)


def run(options: argparse.Namespace) -> int:
    """Print what was found."""
    from lance_df.api.verify import verify  # loads DataFusion

    report = verify(options.path, deep=options.deep, storage_options=session.storage_options(options))
    if options.format == "json":
        print(json.dumps(dataclasses.asdict(report), ensure_ascii=False, indent=2))
    else:
        print(report)
    return 0 if report.ok else 1
