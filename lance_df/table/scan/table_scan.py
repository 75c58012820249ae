"""One table that a scan reads: the table itself, or a member of a namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_df.records import dataclass

if TYPE_CHECKING:
    from lance_df.expr.nodes import Predicate
    from lance_df.table.table import Table


@dataclass(frozen=True, slots=True)
class TableScan:
    """A table that a scan reads.

    Attributes
    ----------
    predicate
        The residual of the scan's predicate, evaluated on the rows.
    name, position
        The id of a member, and its row among the members; None for a table.
    is_pinned
        Whether the scanned version fixes the version of the table.
    """

    table: Table
    predicate: Predicate | None
    name: str | None = None
    position: int | None = None
    is_pinned: bool = True
