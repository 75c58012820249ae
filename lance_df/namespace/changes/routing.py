"""Route rows to their partitions and write them there, with bounded memory and few open files."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, Self

import pyarrow as pa
import pyarrow.compute as pc

from lance_df.errors import RowCountMismatchError
from lance_df.expr.text_views import is_view, parts_of_texts
from lance_df.file.conform import conform_array
from lance_df.file.v2.writer import num_threads
from lance_df.interrupts import undisturbed
from lance_df.namespace.changes.partition_files import (
    PartitionFiles,
    WrittenPartition,
    note_files,
    remove_empty_folders,
)
from lance_df.namespace.changes.waiting_rows import (
    RoutedBatch,
    WaitingRows,
    bytes_of,
    gathered,
    joined,
)
from lance_df.namespace.changes.writer_threads import WriterThreads
from lance_df.namespace.keys import group_rows, value_keys
from lance_df.namespace.spec.partition_values import partition_values
from lance_df.table.reading.batches import CountedBatches
from lance_df.table.writing.conform import schema_to_write
from lance_df.table.writing.fragment_writer import FileLimits
from lance_df.table.writing.uncommitted import UncommittedFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import TracebackType

    from lance_df.format.schema import Schema
    from lance_df.namespace.changes.partition_index import PartitionLocation
    from lance_df.namespace.spec.namespace_schema import NamespaceSchema
    from lance_df.namespace.spec.partition_spec import PartitionSpec
    from lance_df.storage.unsynced import Unsynced

# The most bytes of rows that wait to be written; beyond that, the largest partitions are written first. Their
# batches stay in memory while they are written.
BUFFER_BYTES: Final = 160 * 1024 * 1024
# How many bytes are routed at once: the more rows a partition has, the less work each row takes.
_ROUTED_BYTES: Final = 32 * 1024 * 1024
# Batches with fewer rows are concatenated first.
_MIN_ROUTED_ROWS: Final = 16_384
# With fewer rows for each partition, and more partitions, rows of a table in memory are copied.
_FEW_ROWS: Final = 64
_FEW_PARTS: Final = 1000
# Rows of partitions with few rows in each batch are gathered together, this many bytes at once.
_GATHERED_BYTES: Final = 64 * 1024 * 1024
# The most files that stay open for more rows. Systems allow a process 256 or more open files.
_MOST_OPEN: Final = 64
_LIMITS: Final = FileLimits()


class _Routed(NamedTuple):
    """Rows of some partitions, the partition values, and the start of each partition's rows."""

    batch: RoutedBatch
    values: pa.RecordBatch
    starts: list[int]


class PartitionWriter:
    """Splits batches by partition, and writes the rows of each partition to its own data files.

    This is a context manager, which removes the written files if it ends with an error.

    Parameters
    ----------
    spec, schema
        The spec and schema of the namespace. The rows may lack nullable columns.
    locate
        Returns the locations of the tables of several partitions, given their values. Called once for each
        partition.
    unsynced
        Records the files, which are not durable until it is synced.
    buffer_bytes
        The most bytes of rows that wait; about as many may be in the process of being written.
    limits
        When to start the next data file of a partition.
    statistics
        Whether to collect zone maps; by default only for partitions with more rows than one zone.
    """

    def __init__(
        self,
        spec: PartitionSpec,
        schema: NamespaceSchema,
        data_schema: pa.Schema,
        locate: Callable[[pa.RecordBatch], list[PartitionLocation]],
        unsynced: Unsynced,
        *,
        buffer_bytes: int = BUFFER_BYTES,
        limits: FileLimits = _LIMITS,
        statistics: bool | None = None,
    ) -> None:
        self._spec = spec
        self._schema = schema
        self._columns: Schema = schema_to_write(data_schema, schema.columns)
        self._files = PartitionFiles(spec, self._columns, unsynced, limits=limits, statistics=statistics)
        self._locate = locate
        self._buffer_bytes = buffer_bytes
        paths = (schema.path(field_id) for each in spec.fields for field_id in each.source_ids)
        self._sources = frozenset(path[0] for path in paths if path)
        self._waiting_bytes = 0
        self._partitions: dict[bytes, WrittenPartition] = {}
        self._num_brought = 0
        self._open: set[bytes] = set()
        self.files = UncommittedFiles()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            undisturbed(self._remove)

    def _remove(self) -> None:
        for partition in self._partitions.values():
            if partition.writer is not None:
                partition.writer.abort()
            note_files(self.files, partition)
        self.files.remove()
        for partition in self._partitions.values():
            remove_empty_folders(partition.location.folder)

    def write(self, batches: Iterable[pa.RecordBatch]) -> list[WrittenPartition]:
        """Write all rows and return their partitions, in the order in which they first appeared.

        An error removes all files of this writer.

        Parameters
        ----------
        batches
            A sequence is already in memory: its rows stay there until their files are written.

        Raises
        ------
        RowCountMismatchError
            Not all rows were written to files.
        """
        try:
            return self._written(batches)
        except BaseException:
            undisturbed(self._remove)
            raise

    def _written(self, batches: Iterable[pa.RecordBatch]) -> list[WrittenPartition]:
        counted = CountedBatches(batches)
        rest: Iterable[pa.RecordBatch] = counted
        with WriterThreads() as threads:
            if isinstance(batches, Sequence) and _are_large(batches):
                pieces = [piece for batch in batches for piece in self._cut(batch)]
                counted.num_rows = sum(piece.num_rows for piece in pieces)
                rest = pieces[self._add_in_place(pieces, threads) :]
                if rest:
                    self._write_all(self._partitions.values(), threads)
                    threads.wait()
            for rows in self._brought_together(rest):
                self._add(self._routed(rows))
                self._waiting_bytes += rows.nbytes
                if self._waiting_bytes > self._buffer_bytes:
                    self._make_room(threads)
            threads.wait()
            self._write_all(self._partitions.values(), threads)
            threads.wait()
        self._num_brought += counted.num_rows
        num_written = sum(partition.num_rows for partition in self._partitions.values())
        if num_written != self._num_brought:
            raise RowCountMismatchError(
                f"{self._num_brought} rows should be written to {len(self._partitions)} partitions, but "
                f"{num_written} were written. Nothing was published; please report this defect"
            )
        return list(self._partitions.values())

    def _add_in_place(self, pieces: Sequence[pa.RecordBatch], threads: WriterThreads) -> int:
        """Add rows that are already in memory, and return how many of the pieces were added.

        Stops once partitions have so few rows each that their positions would take as much memory as the
        rows.
        """
        num_rows = num_parts = 0

        def routed(piece: pa.RecordBatch) -> _Routed:
            return self._routed(self._conformed(piece, keeps_views=True))

        for number, each in enumerate(threads.map(routed, pieces)):
            num_rows += each.batch.num_rows
            num_parts += len(each.starts)
            if num_rows < _FEW_ROWS * num_parts and num_parts > _FEW_PARTS:
                return number
            self._add(each)
        return len(pieces)

    def _brought_together(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows in batches that are large enough to route."""
        waiting: list[pa.RecordBatch] = []
        num_bytes = 0
        for batch in self._all_conformed(batches):
            if batch.num_rows:
                waiting.append(batch)
                num_bytes += batch.nbytes
            if num_bytes >= min(_ROUTED_BYTES, self._buffer_bytes):
                for rows in joined(waiting):
                    yield from self._cut(rows)
                waiting, num_bytes = [], 0
        yield from joined(waiting)

    def _cut(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        num_bytes = min(_ROUTED_BYTES, self._buffer_bytes)
        step = max(_MIN_ROUTED_ROWS, num_bytes * rows.num_rows // max(1, bytes_of(rows)))
        for start in range(0, rows.num_rows, step):
            yield rows.slice(start, step)

    def _all_conformed(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from map(self._conformed, parts_of_texts(batch))

    def _conformed(self, batch: pa.RecordBatch, *, keeps_views: bool = False) -> pa.RecordBatch:
        """Convert rows to storage types, optionally keeping views, which need no memory of their own."""
        arrays = [
            column
            if keeps_views and is_view(column.type) and field.name not in self._sources
            else conform_array(column, field)
            for field, column in ((each, batch.column(each.name)) for each in self._columns.fields)
        ]
        return pa.RecordBatch.from_arrays(arrays, [field.name for field in self._columns.fields])

    def _routed(self, rows: pa.RecordBatch) -> _Routed:
        values = values_of_rows(self._spec, self._schema, rows)
        order, starts, firsts = group_rows(values.columns)
        return _Routed(RoutedBatch(rows, order), values.take(pa.array(firsts)), starts.tolist())

    def _add(self, routed: _Routed) -> None:
        partitions = self._written_partitions(routed.values)
        stops = [*routed.starts[1:], routed.batch.num_rows]
        for partition, start, stop in zip(partitions, routed.starts, stops, strict=True):
            partition.waiting.add(routed.batch, start, stop)

    def _written_partitions(self, values: pa.RecordBatch) -> list[WrittenPartition]:
        """Return the partitions of distinct values, in the order of the values."""
        known = value_keys(values.columns).to_pylist()
        new = [number for number, key in enumerate(known) if key not in self._partitions]
        locations = self._locate(values.take(pa.array(new, pa.int64()))) if new else []
        for number, location in zip(new, locations, strict=True):
            self._partitions[known[number]] = WrittenPartition(known[number], values, number, location)
        return [self._partitions[key] for key in known]

    def _make_room(self, threads: WriterThreads) -> None:
        """Write the largest partitions, and copy the remaining rows to release the batches that hold them."""
        threads.wait()  # one partition is written by one thread at a time
        left = sorted(self._partitions.values(), key=lambda each: each.waiting.num_bytes)
        largest, num_bytes = [], float(self._waiting_bytes)
        while left and num_bytes > self._buffer_bytes // 2:
            largest.append(left.pop())
            num_bytes -= largest[-1].waiting.num_bytes
        self._write_all(largest, threads, may_stay_open=True)
        left = [partition for partition in left if partition.waiting.num_rows]
        for partition, rows in zip(left, gathered([each.waiting for each in left]), strict=True):
            partition.waiting = rows
        self._waiting_bytes = int(sum(partition.waiting.num_bytes for partition in left))

    def _write_all(
        self,
        partitions: Iterable[WrittenPartition],
        threads: WriterThreads,
        *,
        may_stay_open: bool = False,
    ) -> None:
        """Write the waiting rows of some partitions, the largest first.

        Parameters
        ----------
        may_stay_open
            Whether more rows may follow, so that files of large partitions stay open.
        """
        full = []
        for partition in partitions:
            if partition.waiting.num_rows:
                full.append(partition)
            elif partition.writer is not None and not may_stay_open:
                threads.run(partial(self._files.finish, partition))
        full.sort(key=lambda each: each.waiting.num_bytes, reverse=True)
        num_rows = sum(partition.waiting.num_rows for partition in full)
        num_begun = 0
        for group in _gathered_at_once(full):
            waiting = [partition.waiting for partition in group]
            rows_of_group = waiting
            if len(group) > 1:
                # the groups gathered before the last one are in files
                threads.wait(but=num_begun)
                rows_of_group, num_begun = gathered(waiting), len(group)
            for partition, rows in zip(group, rows_of_group, strict=True):
                stays_open = may_stay_open and self._stays_open(partition)
                partition.waiting = WaitingRows()
                # a file's pages are encoded in parallel if too little other work is left
                num_encoders = 1 if rows.num_rows * num_threads() <= num_rows else None
                threads.run(
                    partial(
                        self._files.write,
                        partition,
                        self._all_conformed(rows.batches()),
                        num_rows=rows.num_rows,
                        num_encoders=num_encoders,
                        stays_open=stays_open,
                    )
                )

    def _stays_open(self, partition: WrittenPartition) -> bool:
        if partition.key not in self._open and (
            len(self._open) == _MOST_OPEN or not self._files.may_stay_open(partition)
        ):
            return False
        self._open.add(partition.key)
        return True


def _are_large(batches: Sequence[pa.RecordBatch]) -> bool:
    """Whether batches are large enough to be routed one by one."""
    return sum(batch.num_rows for batch in batches) >= _MIN_ROUTED_ROWS * len(batches)


def _gathered_at_once(partitions: Iterable[WrittenPartition]) -> Iterator[list[WrittenPartition]]:
    """Yield groups of partitions whose rows are gathered together; those with many rows per batch alone."""
    group: list[WrittenPartition] = []
    num_bytes = 0.0
    for partition in partitions:
        if not partition.waiting.are_scattered:
            yield [partition]
            continue
        group.append(partition)
        num_bytes += partition.waiting.num_bytes
        if num_bytes > _GATHERED_BYTES:
            yield group
            group, num_bytes = [], 0.0
    if group:
        yield group


def values_of_rows(spec: PartitionSpec, schema: NamespaceSchema, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return the partition values of rows, by column name in ``__manifest``.

    Raises
    ------
    InvalidInputError
        A partition expression fails.
    """

    def source(field_id: int) -> pa.Array:
        path = schema.path(field_id)
        if path is None or path[0] not in rows.schema.names:
            return pa.nulls(rows.num_rows)
        column = rows.column(path[0])
        return pc.struct_field(column, list(path[1:])) if path[1:] else column

    return pa.RecordBatch.from_arrays(
        [partition_values(each, [source(field_id) for field_id in each.source_ids]) for each in spec.fields],
        [each.column for each in spec.fields],
    )
