"""Log how Spark scans are pruned, because Spark shows no scan metrics of a Python source."""

from __future__ import annotations

import logging
import os
import sys
from typing import TYPE_CHECKING, Final

from lance_df.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance_df.namespace.kind import Source

_log = logging.getLogger("lance_df")

LEVEL: Final = "LANCE_DF_LOG"
"""The environment variable with the log level of processes that Spark starts."""


def log_scan(
    source: Source,
    columns: Sequence[str] | None,
    filter: str | None,
    tasks: int | None = None,
) -> None:
    """Log how many partitions, fragments, pages and bytes a scan reads, and which conditions prune it.

    Parameters
    ----------
    columns
        The columns that are read; None for all.
    filter
        An SQL expression that is true for the rows to read.
    tasks
        The number of tasks that read, if it is known.
    """
    if not _log.isEnabledFor(logging.INFO):
        return
    # imported here, because tasks log nothing and do not need it
    from lance_df.engine.query import plan_with_sql
    from lance_df.engine.report import ScanReport

    names = source.arrow_schema.names if columns is None else columns
    report = ScanReport((plan_with_sql(source, columns=list(names), filter=filter).report,))
    by = "" if tasks is None else f", in {tasks} tasks"
    _log.info("Spark reads %s%s", report, by)


def show_in_worker() -> None:
    """Write the log of this process, started by Spark, to the driver's stderr, if `LEVEL` is set.

    Raises
    ------
    InvalidInputError
        The environment variable is not the name of a level.
    """
    level = os.environ.get(LEVEL)
    if not level or any(not isinstance(handler, logging.NullHandler) for handler in _log.handlers):
        return
    if level.upper() not in logging.getLevelNamesMapping():
        raise InvalidInputError(f"{LEVEL} must be DEBUG, INFO, WARNING or ERROR, got {level!r}")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    _log.addHandler(handler)
    _log.setLevel(level.upper())
