"""A scan before it runs: its schema, its tasks and its promises."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from typing import Protocol

import pyarrow as pa

from lance_df.records import dataclass
from lance_df.scan.report import TableReport
from lance_df.scan.request import Promise


class ScanTask(Protocol):
    """A part of a scan: a slice of a fragment, or several small fragments; see `Promise`.

    Attributes
    ----------
    num_rows
        An upper bound for the number of rows that the task returns. It is exact if neither columns nor a
        predicate were requested.
    num_bytes
        The stored bytes that the task may read, as far as threads can share this work.
    """

    @property
    def num_rows(self) -> int: ...

    @property
    def num_bytes(self) -> int: ...

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield batches with exactly the schema of the plan. Any thread may call this any number of times."""
        ...


@dataclass(frozen=True, slots=True)
class MappedTask:
    """A `ScanTask` that applies a function to the batches of another task. The function adds no rows."""

    task: ScanTask
    function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

    @property
    def num_rows(self) -> int:
        return self.task.num_rows

    @property
    def num_bytes(self) -> int:
        return self.task.num_bytes

    def read(self) -> Iterator[pa.RecordBatch]:
        return self.function(self.task.read())


@dataclass(frozen=True, slots=True)
class ScanPlan:
    """A scan that has been pruned but has not run.

    Attributes
    ----------
    schema
        The schema of all batches, with Arrow storage types.
    promises
        The promises that hold for the batches of the tasks.
    """

    schema: pa.Schema
    promises: Promise
    tasks: Sequence[ScanTask] = field(repr=False)
    make_report: Callable[[], TableReport] = field(repr=False)

    @property
    def report(self) -> TableReport:
        """Return what the scan will read, without reading it. Data files are opened to count their pages."""
        return self.make_report()
