"""The error of a command line that is wrong."""

from __future__ import annotations

from lance_df.errors import InvalidInputError


class UsageError(InvalidInputError):
    """Flags or words of the command line are wrong: the exit code is 2."""
