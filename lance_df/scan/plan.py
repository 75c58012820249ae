"""What a scan is before it runs: its schema, its tasks and what it promises."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from typing import Protocol

import pyarrow as pa

from lance_df.records import dataclass
from lance_df.scan.report import TableReport
from lance_df.scan.request import Promise


class ScanTask(Protocol):
    """Some rows of a scan: a slice of a fragment, or several small fragments; see `Promise`.

    Attributes
    ----------
    num_rows
        An upper bound for the rows it returns; exact when neither columns nor a predicate were asked for.
    num_bytes
        Stored bytes it may read, as far as threads can share the work that this is.
    """

    @property
    def num_rows(self) -> int: ...

    @property
    def num_bytes(self) -> int: ...

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield batches of exactly the plan's schema. May be called from any thread, any number of times."""
        ...


@dataclass(frozen=True, slots=True)
class MappedTask:
    """A `ScanTask` whose batches a function makes of those of another one, of no more rows."""

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
    """A scan that has been pruned but not run.

    Attributes
    ----------
    schema
        Of all batches, with Arrow storage types.
    promises
        What holds of the batches that the tasks return.
    """

    schema: pa.Schema
    promises: Promise
    tasks: Sequence[ScanTask] = field(repr=False)
    make_report: Callable[[], TableReport] = field(repr=False)

    @property
    def report(self) -> TableReport:
        """What will be read, without reading it; counting the pages opens the data files."""
        return self.make_report()
