"""What scans of Spark keep, in the log: Spark shows nothing that a Python source says of a scan."""

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
"""The environment variable with the level of the log of processes that Spark starts."""


def log_scan(
    source: Source,
    columns: Sequence[str] | None,
    filter: str | None,
    tasks: int | None = None,
) -> None:
    """Log the partitions, fragments, pages and bytes that a scan keeps of all, and which condition did it.

    Parameters
    ----------
    columns
        Those that are read, None for all.
    filter
        An SQL expression that is true for the rows to read.
    tasks
        How many tasks read them, where it is known.
    """
    if not _log.isEnabledFor(logging.INFO):
        return
    # tasks, which log nothing, import none of it
    from lance_df.engine.query import plan_with_sql
    from lance_df.engine.report import ScanReport

    names = source.arrow_schema.names if columns is None else columns
    report = ScanReport((plan_with_sql(source, columns=list(names), filter=filter).report,))
    by = "" if tasks is None else f", in {tasks} tasks"
    _log.info("Spark reads %s%s", report, by)


def show_in_worker() -> None:
    """Write the log of this process, which Spark has started, to the driver's stderr, if the user wants it.

    Raises
    ------
    InvalidInputError
        The environment variable names no level.
    """
    level = os.environ.get(LEVEL)
    if not level or any(not isinstance(handler, logging.NullHandler) for handler in _log.handlers):
        return
    if level.upper() not in logging.getLevelNamesMapping():
        raise InvalidInputError(f"{LEVEL} is DEBUG, INFO, WARNING or ERROR, not {level!r}")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    _log.addHandler(handler)
    _log.setLevel(level.upper())
