"""Small conversions, with the names of pylance."""

from __future__ import annotations

import datetime as dt

from lance_df.arguments import checked_type
from lance_df.errors import InvalidInputError

__all__ = ["sanitize_ts", "td_to_micros"]


def sanitize_ts(ts: dt.datetime | str) -> dt.datetime:
    """Return a datetime for a datetime or ISO 8601 text.

    Raises
    ------
    InvalidInputError
        The argument is neither.
    """
    if isinstance(ts, dt.datetime):  # a pandas Timestamp is one
        return ts.to_pydatetime() if hasattr(ts, "to_pydatetime") else ts
    if not isinstance(ts, str):
        raise InvalidInputError(f"a time must be a datetime or ISO 8601 text, got {type(ts).__name__}")
    try:
        return dt.datetime.fromisoformat(ts)
    except ValueError as err:
        raise InvalidInputError(
            f"a time must have a form such as 2025-01-31 12:00:00, got {ts!r:.60}"
        ) from err


def td_to_micros(td: dt.timedelta) -> int:
    """Return a duration in microseconds."""
    return checked_type(td, "td", dt.timedelta, "a datetime.timedelta") // dt.timedelta(microseconds=1)
