"""How a session joins partitioned namespaces and groups their rows."""

from __future__ import annotations

from typing import Literal, get_args

from lance_df.errors import InvalidInputError
from lance_df.records import dataclass

PartitionedJoins = Literal["auto", "always", "never"]


@dataclass(frozen=True, slots=True)
class JoinOptions:
    """How joins and groups of namespaces are computed; see `lance_df.engine.session.LanceSession`.

    Raises
    ------
    InvalidInputError
        A value is none of those.
    """

    partitioned_joins: PartitionedJoins = "auto"
    join_memory_limit: int | None = None

    def __post_init__(self) -> None:
        if self.partitioned_joins not in get_args(PartitionedJoins):
            raise InvalidInputError(
                f"partitioned_joins is {self.partitioned_joins!r}, expected 'auto', 'always' or 'never'"
            )
        limit = self.join_memory_limit
        if limit is not None and (type(limit) is not int or limit < 1):
            raise InvalidInputError(f"join_memory_limit is {limit!r}, expected a number of bytes or None")
