"""Clean-ups that a table's configuration requests: every so many versions, after the commit of a version.

Keys (``lance.auto_cleanup.…``) and meanings are pylance's, with one exception: if neither an age nor a number
is set, pylance removes every older version, but here the age is two weeks, as in any clean-up. The version
before the commit always stays, as readers have it open. Failures are warnings, as the commit already
happened.
"""

from __future__ import annotations

import datetime as dt
import re
import warnings
from typing import TYPE_CHECKING

from lance_df.errors import InvalidInputError, LanceError
from lance_df.interrupts import interrupted_once, note_if_interrupted
from lance_df.table.maintenance.cleanup import cleanup
from lance_df.table.maintenance.cleanup_policy import CleanupPolicy
from lance_df.table.writing.uncommitted import note_of_version

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lance_df.table.maintenance.cleanup_result import CleanupStats
    from lance_df.table.table import Table

_PREFIX = "lance.auto_cleanup."
_PART = re.compile(r"\s*(\d+)\s*([a-zA-Z]+)")
# the words of pylance's configuration; months and years have their average length
_SECONDS = {
    **dict.fromkeys(("ns", "nsec", "nanos"), 1e-9),
    **dict.fromkeys(("us", "usec", "micros"), 1e-6),
    **dict.fromkeys(("ms", "msec", "millis"), 1e-3),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3600.0),
    **dict.fromkeys(("d", "day", "days"), 86400.0),
    **dict.fromkeys(("w", "week", "weeks"), 7 * 86400.0),
    **dict.fromkeys(("M", "month", "months"), 30.44 * 86400.0),
    **dict.fromkeys(("y", "year", "years"), 365.25 * 86400.0),
}


def auto_cleanup(table: Table) -> CleanupStats | None:
    """Clean up a table after a commit, if its configuration requires it at this version.

    The version that was the newest one before the commit stays, whatever the configuration says. As in any
    clean-up, versions with tags stay, and files that no version refers to stay for seven days.

    Parameters
    ----------
    table
        The version that was made.

    Returns
    -------
    The counts of what was removed; ``None`` if there was nothing to do, or the clean-up failed with a
    warning.
    """
    config = table.manifest.config
    if f"{_PREFIX}interval" not in config:
        return None
    try:
        interval = _number(config, "interval")
        if interval and table.version % interval:
            return None  # an interval of 0 means every version
        with interrupted_once():
            note_if_interrupted(lambda: note_of_version(table.uri, table.version))
            return cleanup(table, _policy(config, pinned=frozenset({table.version - 1})))
    except LanceError as err:
        message = (
            f"{table.uri}: version {table.version} was committed, but removing old versions failed: {err}"
        )
        warnings.warn(message, RuntimeWarning, stacklevel=4)
        return None


def check_auto_cleanup(config: Mapping[str, str]) -> None:
    """Check values of a table's configuration: clean-ups with wrong ones would fail after every commit.

    Raises
    ------
    InvalidInputError
        A value for clean-ups is wrong.
    """
    _number(config, "interval")
    _policy(config, pinned=frozenset())


def parse_duration(text: str) -> dt.timedelta:
    """Parse a duration such as ``"14days"`` or ``"1h 30m"``.

    Raises
    ------
    InvalidInputError
        The text is not a duration.
    """
    parts = _PART.findall(text)
    if not parts or _PART.sub("", text).strip() or any(unit not in _SECONDS for _, unit in parts):
        raise InvalidInputError(f"invalid duration {text!r}; use one such as '14days' or '1h 30m'")
    try:
        return dt.timedelta(seconds=sum(float(number) * _SECONDS[unit] for number, unit in parts))
    except OverflowError:
        return dt.timedelta.max


def _policy(config: Mapping[str, str], *, pinned: frozenset[int]) -> CleanupPolicy:
    older_than = config.get(f"{_PREFIX}older_than")
    return CleanupPolicy(
        older_than=None if older_than is None else parse_duration(older_than),
        retain_versions=_number(config, "retain_versions"),
        delete_rate_limit=_number(config, "delete_rate_limit"),
        delete_concurrency=_number(config, "delete_concurrency"),
        pinned=pinned,
        error_if_tagged=False,
    )


def _number(config: Mapping[str, str], name: str) -> int | None:
    text = config.get(_PREFIX + name)
    if text is None:
        return None
    if not re.fullmatch(r"\d{1,18}", text):
        raise InvalidInputError(f"{_PREFIX}{name} must be a number, got {text!r}")
    return int(text)
