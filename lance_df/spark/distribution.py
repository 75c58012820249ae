"""The distributions of a write: whether rows are shuffled by partition first. Free of pyspark."""

from __future__ import annotations

from typing import Final

from lance_df.errors import InvalidInputError

HASH: Final = "hash"
NONE: Final = "none"


def check_distribution(distribution: str) -> None:
    """Check the name of a distribution.

    Raises
    ------
    InvalidInputError
        No distribution has this name.
    """
    if distribution not in (HASH, NONE):
        raise InvalidInputError(f"distribution must be {HASH} or {NONE}, got {distribution!r}")
