"""The base of the classes that `LanceDataset` consists of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lance_df.table.commit.loop import commit_change
from lance_df.table.commit.row_account import NO_ROWS
from lance_df.table.maintenance.auto_cleanup import auto_cleanup

if TYPE_CHECKING:
    from lance_df.format.operations import Operation
    from lance_df.table.commit.row_account import RowChange
    from lance_df.table.table import Table


class DatasetBase:
    """One version of a table. A change through this object moves it to the version that the change makes."""

    _uri: str
    _table: Table
    _storage_options: Mapping[str, Any] | None
    _default_scan_options: Mapping[str, Any] | None

    def _commit(
        self,
        operation: Operation,
        *,
        rows: RowChange = NO_ROWS,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """Commit an operation that was computed from this version, and move to the version that it makes."""
        self._follow(commit_change(self._table, operation, rows=rows, properties=properties))

    def _follow(self, table: Table) -> None:
        """Move to a version that was created from this one, and clean up if the table is configured to."""
        self._table = table
        auto_cleanup(table)
