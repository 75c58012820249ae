"""What a context of DataFusion's own, whose statements nobody sees but itself, gets for a table.

DataFusion's binding joins the conditions that a scan is asked for from left to right with Python's ``&``.
pyarrow has that for expressions only, and a condition that is a literal (``NULL``, where the statement has
``ON NULL``) becomes a scalar: as the first of several it fails. What is given here is therefore not the scan,
but a view of it that has a condition already, a column that is always TRUE: DataFusion adds conditions behind
those that a scan has (in releases 51 to 55; tests/engine/test_null_conditions.py holds it).
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from lance_df.compute.compat import PlainSessionContext, Table, as_view, col, plain_context
from lance_df.engine.provider import LanceTableProvider, SourceScan
from lance_df.sql.splice import quote_identifier

if TYPE_CHECKING:
    from lance_df.scan.source import Scannable

_TRUE = "__true"


def plain_table(source: Scannable) -> Table:
    """Return a version of a table, as any context can scan it where its conditions are literals."""
    names = source.arrow_schema.names
    true_column = _TRUE
    while true_column in names:
        true_column += "_"
    context = _context()
    provider = LanceTableProvider(SourceScan(source=source), true_column=true_column)
    scan = context.read_table(Table(provider))
    frame = scan.filter(col(true_column)).select(*(col(quote_identifier(name)) for name in names))
    # optimized, the condition is one of the scan's
    return as_view(context.create_dataframe_from_logical_plan(frame.optimized_logical_plan()))


@cache
def _context() -> PlainSessionContext:
    return plain_context()
