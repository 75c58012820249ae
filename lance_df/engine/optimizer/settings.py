"""The settings of a session that decide how joins are computed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lance_df.compute.compat import PlainSessionContext

if TYPE_CHECKING:
    from collections.abc import Mapping

REPARTITION_JOINS: Final = "datafusion.optimizer.repartition_joins"
TARGET_PARTITIONS: Final = "datafusion.execution.target_partitions"


class JoinSettings:
    """The settings of a session that decide how hash joins are computed, looked up once."""

    def __init__(self) -> None:
        self._settings: Mapping[str, str] | None = None

    def forget(self, statement: str) -> None:
        """Look up settings anew if a statement, in lower case, may have changed them."""
        if REPARTITION_JOINS in statement or TARGET_PARTITIONS in statement:
            self._settings = None

    def of(self, session: PlainSessionContext) -> Mapping[str, str]:
        """Return the settings by name; nothing without an information schema."""
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
