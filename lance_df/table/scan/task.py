"""The state that the parts of a scan share, and its tasks: row ranges of fragments."""

from __future__ import annotations

from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_df.records import dataclass
from lance_df.table.reading.batches import count_batch, sliced
from lance_df.table.reading.deletions import deleted_offsets
from lance_df.table.reading.system_columns import system_column
from lance_df.table.scan.columns import StoredColumn
from lance_df.table.scan.row_slice import RowSlice
from lance_df.table.scan.windows import bytes_in_memory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lance_df.encodings.plan import Rows
    from lance_df.expr.nodes import Predicate
    from lance_df.format.schema import Field
    from lance_df.scan.aggregate import PartialAggregator
    from lance_df.scan.options import ScanOptions
    from lance_df.table.reading.fragment_reader import FragmentReader
    from lance_df.table.reading.observed_bounds import RuledOut
    from lance_df.table.scan.columns import Column
    from lance_df.table.scan.extremes import ExtremesScan
    from lance_df.table.scan.filter_steps import FilterStep
    from lance_df.table.scan.prune import Pruning
    from lance_df.table.table import Table

_BLOB_ROWS = 64


@dataclass(frozen=True, kw_only=True)
class Scan:
    """The state that the tasks of one scan share.

    Attributes
    ----------
    columns
        The columns to return or aggregate, in order. ``schema`` is that of batches.
    predicate
        Applied to each row; it reads ``filter_columns``, in the order of ``filter_steps``.
    limit
        Number of rows after which a task may stop.
    per_fragment
        Whether small fragments must not be joined.
    batch_rows
        Upper bound for the rows of a batch.
    window_rows
        See `ScanRequest`.
    learns_bounds
        Whether the bounds of columns that filters read are recorded.
    options
        The optimizations that the scan may use.
    ruled_out
        The rows that cannot match, according to earlier scans.
    aggregator
        Computes a partial aggregate of rows; None if rows are returned.
    extremes
        Finds the extremes of columns, if only these are needed.
    """

    table: Table
    columns: tuple[Column, ...]
    schema: pa.Schema
    predicate: Predicate | None
    filter_columns: tuple[Column, ...]
    pruning: Pruning
    limit: int | None
    per_fragment: bool
    batch_rows: int | None
    window_rows: int | None
    include_deleted_rows: bool
    learns_bounds: bool
    options: ScanOptions
    ruled_out: RuledOut | None = None
    filter_steps: tuple[FilterStep, ...] = ()
    aggregator: PartialAggregator | None = None
    extremes: ExtremesScan | None = None

    @cached_property
    def rows_at_once(self) -> int | None:
        """How many rows to read at once; few of blobs, whose sizes are in descriptions only."""
        columns = (*self.filter_columns, *self.columns)
        if any(isinstance(column, StoredColumn) and column.is_located for column in columns):
            return _BLOB_ROWS
        return self.window_rows

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """The stored fields to read, each once."""
        return tuple(dict.fromkeys(column.field for column in self._stored_columns))

    def fields_of(self, reader: FragmentReader) -> tuple[Field, ...]:
        """Return those of the fields that are read of one fragment."""
        if not self._has_fields_of_structs:
            return self.fields
        read = (column for column in self._stored_columns if column.is_read_from(reader))
        return tuple(dict.fromkeys(column.field for column in read))

    @cached_property
    def _has_fields_of_structs(self) -> bool:
        return any(len(column.path) > 1 for column in self._stored_columns)

    @cached_property
    def _stored_columns(self) -> tuple[StoredColumn, ...]:
        columns = (*self.filter_columns, *self.columns)
        return tuple(column for column in columns if isinstance(column, StoredColumn))

    @cached_property
    def row_bytes(self) -> float:
        """The memory of a row of the fields, as `bytes_in_memory` returns it."""
        return sum(bytes_in_memory(each) for each in self.fields)


@dataclass(frozen=True, slots=True)
class FragmentTask:
    """Rows ``start`` to ``stop`` (exclusive) of the fragment at ``position`` of the table's list.

    A `ScanTask`; ``num_rows`` and ``num_bytes`` are upper bounds.
    """

    scan: Scan = field(repr=False)
    position: int
    start: int
    stop: int

    @property
    def num_rows(self) -> int:
        return self.stop - self.start

    @property
    def num_bytes(self) -> int:
        fragments = self.scan.table.fragments
        physical_rows = max(int(fragments.physical_rows[self.position]), self.num_rows, 1)
        return int(fragments.file_bytes[self.position]) * self.num_rows // physical_rows

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield batches of the scan's schema, in row order. See `ScanTask`."""
        rows = FragmentRows(self.scan.table, self.position)
        row_slice = RowSlice(self.scan, rows)
        if self.scan.extremes is not None and not rows.any_deleted(self.start, self.stop):
            return self.scan.extremes.read(rows.reader, row_slice, self.start, self.stop)
        return sliced(row_slice.read(self.start, self.stop), self.scan.batch_rows, self.scan.limit)


@dataclass(frozen=True, slots=True)
class CountTask:
    """The task of a scan that only needs the number of rows, which the manifest has. A `ScanTask`."""

    num_rows: int
    aggregator: PartialAggregator | None = None
    num_bytes: int = 0

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield one batch: without columns, or with the aggregated number of rows."""
        if not self.num_rows:
            return
        if self.aggregator is None:
            yield count_batch(self.num_rows)
        else:
            counts = [pa.array([self.num_rows], pa.int64())] * len(self.aggregator.schema)
            yield pa.RecordBatch.from_arrays(counts, schema=self.aggregator.schema)


class FragmentRows:
    """The rows of the fragment at a position of the table's list. A `RowSource`."""

    def __init__(self, table: Table, position: int) -> None:
        self._table = table
        self._position = position
        self.reader = table.fragment_reader(position)
        self.deleted = deleted_offsets(table.deletion_vector(self.reader.fragment))

    def any_deleted(self, start: int, stop: int) -> bool:
        """Return whether any row of a range is deleted."""
        low, high = np.searchsorted(self.deleted, (start, stop))
        return bool(low < high)

    def system_values(self, name: str, rows: Rows) -> pa.Array:
        """Return the values of a system column."""
        return system_column(self._table, self._position, name, rows)
