"""Check a table, a partitioned namespace, or all of them below a folder, and change nothing.

The exit code is 0 if there are no errors and no warnings, and 1 otherwise.
"""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

from lance_df.cli import session
from lance_df.cli.inspection.table_folders import is_folder_of_tables, tables_below
from lance_df.cli.progress import Progress
from lance_df.errors import DatasetNotFoundError, LanceError
from lance_df.storage import open_location

if TYPE_CHECKING:
    import argparse

    from lance_df.cli.inspection.table_folders import FolderEntry
    from lance_df.namespace.health.findings import VerifyReport

SUMMARY = "check a table, a partitioned namespace, or a folder of them"
EXAMPLES = """examples:
  lance-df verify demo_data/flights.lance
  lance-df verify demo_data
  lance-df verify --deep ./events
"""


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add the arguments of `lance-df verify`."""
    command.add_argument("path", metavar="PATH", help="a table, the root of a namespace, or a folder of them")
    command.add_argument("--deep", action="store_true", help="read all rows of a namespace, too")
    command.add_argument("--format", choices=("table", "json"), default="table")
    session.add_storage_option(command)


def run(options: argparse.Namespace) -> int:
    """Check the tables and print the problems."""
    storage = session.storage_options(options)
    location = open_location(options.path, storage)
    if is_folder_of_tables(location):
        return _verify_all(tables_below(location), options, storage)
    with Progress(what=f"checking {options.path}"):
        report = _verified(options.path, options, storage)
    print(_json(_values(report)) if options.format == "json" else report)
    return 0 if report.ok else 1


def _verify_all(
    entries: list[FolderEntry], options: argparse.Namespace, storage: dict[str, Any] | None
) -> int:
    if not entries:
        raise DatasetNotFoundError(f"{options.path}: no Lance tables found in this folder")
    values: list[dict[str, Any]] = []
    num_damaged = 0
    with Progress() as progress:
        for number, entry in enumerate(entries, 1):
            progress.what = f"checking {entry.name} ({number} of {len(entries)})"
            uri = entry.location.uri
            try:
                if entry.error is not None:
                    raise entry.error
                report = _verified(uri, options, storage)
            except LanceError as err:
                reason = " ".join(str(err).split())
                values.append({"uri": uri, "error": reason})
                text, ok = f"{uri}: cannot be opened: {reason}", False
            else:
                values.append(_values(report))
                text, ok = str(report), report.ok
            num_damaged += not ok
            if options.format == "table":
                with progress.away():
                    print(text, flush=True)
    if options.format == "json":
        print(_json(values))
    else:
        damaged = f"{num_damaged:,} with problems" if num_damaged else "all of them whole"
        print(f"{len(entries):,} checked, {damaged}")
    return int(num_damaged > 0)


def _verified(path: str, options: argparse.Namespace, storage: dict[str, Any] | None) -> VerifyReport:
    from lance_df.api.verify import verify  # loads DataFusion

    return verify(path, deep=options.deep, storage_options=storage)


def _values(report: VerifyReport) -> dict[str, Any]:
    return dataclasses.asdict(report)


def _json(values: object) -> str:
    return json.dumps(values, ensure_ascii=False, indent=2)
