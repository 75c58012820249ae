"""The table that a plain DataFusion context gets, whose statements lance_df does not see.

DataFusion's binding combines the conditions of a scan from left to right with Python's ``&``. pyarrow
supports this for expressions only. A literal condition (``NULL``, where the statement has ``ON NULL``)
becomes a scalar, and fails if it is the first of several conditions. The table is therefore not the scan
itself, but a view of it that already has a condition, a column that is always TRUE. DataFusion appends
conditions to those that a scan has (in releases 51 to 55; tests/engine/test_null_conditions.py checks this).
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from lance_df.compute.compat import PlainSessionContext, Table, as_view, col, plain_context
from lance_df.engine.provider import LanceTableProvider, SourceScan
from lance_df.scan.request import ScanRequest
from lance_df.sql.splice import quote_identifier

if TYPE_CHECKING:
    from lance_df.scan.options import ScanOptions
    from lance_df.scan.source import Scannable

_TRUE = "__true"


def plain_table(source: Scannable, options: ScanOptions) -> Table:
    """Return a version of a table that any context can scan, even with literal conditions."""
    names = source.arrow_schema.names
    true_column = _TRUE
    while true_column in names:
        true_column += "_"
    context, request = _context(), ScanRequest(options=options)
    provider = LanceTableProvider(SourceScan(source=source, request=request), true_column=true_column)
    scan = context.read_table(Table(provider))
    frame = scan.filter(col(true_column)).select(*(col(quote_identifier(name)) for name in names))
    # the optimizer moves the condition into the scan
    return as_view(context.create_dataframe_from_logical_plan(frame.optimized_logical_plan()))


@cache
def _context() -> PlainSessionContext:
    return plain_context()
