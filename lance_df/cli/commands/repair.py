"""Repair a partitioned namespace, even one that cannot be opened.

An undamaged namespace is not changed. No row of a table is lost. A table that cannot be a member of the
namespace is moved to the namespace set_aside and stays a table.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from lance_df.cli import session
from lance_df.cli.usage import UsageError
from lance_df.storage import open_location
from lance_df.table.maintenance.cleanup_policy import UNVERIFIED_AGE

if TYPE_CHECKING:
    import argparse

SUMMARY = "repair a partitioned namespace"
EXAMPLES = """examples:
  lance-df repair --dry-run ./events
  lance-df repair ./events
  lance-df repair --remove-orphans --older-than-days 30 ./events
"""


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add the arguments of `lance-df repair`."""
    command.add_argument("root", metavar="ROOT", help="the root of the namespace")
    command.add_argument("--dry-run", action="store_true", help="only report what would be done")
    command.add_argument(
        "--publish-newer", action="store_true", help="show what others committed to member tables"
    )
    command.add_argument(
        "--forget-missing", action="store_true", help="remove the rows of tables whose folders are gone"
    )
    command.add_argument(
        "--remove-orphans", action="store_true", help="remove folders that no version of the namespace names"
    )
    command.add_argument(
        "--older-than-days",
        type=float,
        default=UNVERIFIED_AGE.days,
        metavar="DAYS",
        help=f"how long nobody wrote to such a folder (default: {UNVERIFIED_AGE.days}, which is safe)",
    )
    session.add_storage_option(command)


def run(options: argparse.Namespace) -> int:
    """Repair the namespace and print the actions."""
    from lance_df.namespace.health.repair import RepairOptions, repair_namespace  # loads DataFusion

    try:
        age = dt.timedelta(days=options.older_than_days)
    except (OverflowError, ValueError) as err:
        raise UsageError(f"--older-than-days: {err}") from err
    if age < dt.timedelta(0):
        raise UsageError(f"--older-than-days must be at least 0, got {options.older_than_days:g}")
    chosen = RepairOptions(
        dry_run=options.dry_run,
        publish_newer=options.publish_newer,
        forget_missing=options.forget_missing,
        remove_orphans=options.remove_orphans,
        older_than=age,
    )
    print(repair_namespace(open_location(options.root, session.storage_options(options)), chosen))
    return 0
