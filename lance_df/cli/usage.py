"""The error for an invalid command line."""

from __future__ import annotations

from lance_df.errors import InvalidInputError


class UsageError(InvalidInputError):
    """The command line is invalid; the exit code is 2."""
