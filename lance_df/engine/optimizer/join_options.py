"""The join settings of a session: its options for partitioned namespaces, and settings of DataFusion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, get_args

from lance_df.compute.compat import PlainSessionContext
from lance_df.errors import InvalidInputError
from lance_df.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

PartitionedJoins = Literal["auto", "always", "never"]

REPARTITION_JOINS: Final = "datafusion.optimizer.repartition_joins"
TARGET_PARTITIONS: Final = "datafusion.execution.target_partitions"


@dataclass(frozen=True, slots=True)
class JoinOptions:
    """Options for joins and aggregations of namespaces; see `lance_df.engine.session.LanceSession`.

    Raises
    ------
    InvalidInputError
        An option has an invalid value.
    """

    partitioned_joins: PartitionedJoins = "auto"
    join_memory_limit: int | None = None

    def __post_init__(self) -> None:
        if self.partitioned_joins not in get_args(PartitionedJoins):
            raise InvalidInputError(
                f"partitioned_joins must be 'auto', 'always' or 'never', got {self.partitioned_joins!r}"
            )
        limit = self.join_memory_limit
        if limit is not None and (type(limit) is not int or limit < 1):
            raise InvalidInputError(
                f"join_memory_limit must be a positive number of bytes or None, got {limit!r}"
            )


class JoinSettings:
    """The settings of a session that affect how hash joins are computed. They are read once."""

    def __init__(self) -> None:
        self._settings: Mapping[str, str] | None = None

    def forget(self, statement: str) -> None:
        """Read the settings again if a statement may have changed them. ``statement`` is in lower case."""
        if REPARTITION_JOINS in statement or TARGET_PARTITIONS in statement:
            self._settings = None

    def of(self, session: PlainSessionContext) -> Mapping[str, str]:
        """Return the settings by name. Without an information schema, the result is empty."""
        if self._settings is None:
            query = (
                "SELECT name, value FROM information_schema.df_settings "
                f"WHERE name IN ('{REPARTITION_JOINS}', '{TARGET_PARTITIONS}')"
            )
            try:
                rows = PlainSessionContext.sql(session, query).to_pydict()
            except Exception:  # noqa: BLE001 - a session need not have an information schema
                self._settings = {}
            else:
                self._settings = dict(zip(rows["name"], rows["value"], strict=True))
        return self._settings
