"""Whether the rows of a partition are brought together before they are written. Free of pyspark."""

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
        There is none of this name.
    """
    if distribution not in (HASH, NONE):
        raise InvalidInputError(f"distribution is {HASH} or {NONE}, not {distribution!r}")
