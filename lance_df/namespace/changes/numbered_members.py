"""Scan member tables as one table with a column for the member of each row, to find rows to change."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from lance_df.expr.nodes import Literal
from lance_df.namespace.snapshot import NamespaceSnapshot
from lance_df.scan.plan import MappedTask, ScanPlan, ScanTask
from lance_df.scan.report import Count
from lance_df.table.scan.columns import resolve_columns
from lance_df.table.scan.plan import plan_scan

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lance_df.scan.request import ScanRequest
    from lance_df.table.table import Table

MEMBER: Final = pa.field("__lance_df_member", pa.uint32(), nullable=False)


class NumberedMembers(NamespaceSnapshot):
    """Member tables at any version, with a column for the member of each row.

    Parameters
    ----------
    tables
        The column ``MEMBER`` has their positions in this sequence.
    """

    def __init__(self, snapshot: NamespaceSnapshot, tables: Sequence[Table]) -> None:
        super().__init__(snapshot.root, snapshot.manifest)
        self.arrow_schema = snapshot.arrow_schema.append(MEMBER)
        self._tables = tables

    def plan(self, request: ScanRequest) -> ScanPlan:
        """Plan a scan of all tables, in their order."""
        names = tuple(self.arrow_schema.names) if request.columns is None else request.columns
        stored = dataclasses.replace(request, columns=tuple(name for name in names if name != MEMBER.name))
        columns = resolve_columns(
            self.manifest.schema.columns, stored.columns, appended=(), blobs_as_bytes=request.blobs_as_bytes
        )
        schema = pa.schema([column.output for column in columns], self.manifest.schema.columns.arrow_metadata)
        # planners pass the predicate FALSE to get only the columns
        tables = () if request.predicate == Literal(False) else self._tables
        plans = [plan_scan(table, stored) for table in tables]
        tasks: list[ScanTask] = [task for plan in plans for task in plan.tasks]
        if MEMBER.name in names:
            index = names.index(MEMBER.name)
            schema = schema.insert(index, MEMBER)
            tasks = [
                MappedTask(task, partial(_with_number, number, index, schema))
                for number, plan in enumerate(plans)
                for task in plan.tasks
            ]
        return ScanPlan(
            schema,
            request.promises(),
            tasks,
            lambda: self._report(plans, Count(len(plans), len(self._tables)), ()),
        )


def _with_number(
    number: int, index: int, schema: pa.Schema, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Insert the column with the number of the table."""
    for batch in batches:
        columns = batch.columns
        columns.insert(index, pa.repeat(pa.scalar(number, MEMBER.type), batch.num_rows))
        yield pa.RecordBatch.from_arrays(columns, schema=schema)
