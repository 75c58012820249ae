"""What the themes of `LanceDataset` build on."""

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
    """One version of a table, that moves on to the next when it is changed through it."""

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
        """Commit an operation that was computed from this version, and move on to what it became."""
        self._follow(commit_change(self._table, operation, rows=rows, properties=properties))

    def _follow(self, table: Table) -> None:
        """Move on to a version that was made from this one, and clean up if the table asks for that."""
        self._table = table
        auto_cleanup(table)
