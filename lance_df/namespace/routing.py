"""Send rows to the partitions that they belong to, and write them there: bounded memory, no open files."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self

import pyarrow as pa
import pyarrow.compute as pc

from lance_df.namespace.keys import group_rows, value_keys
from lance_df.namespace.member import FILE_VERSION
from lance_df.namespace.partition_values import partition_values
from lance_df.table.conform import conform, schema_to_write
from lance_df.table.fragment_writer import FileLimits, fragments_written

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import TracebackType

    from lance_df.format.fragments import Fragment
    from lance_df.format.schema import Schema
    from lance_df.namespace.namespace_schema import NamespaceSchema
    from lance_df.namespace.partition_index import Place
    from lance_df.namespace.partition_spec import PartitionSpec

# Rows of all partitions that wait to be written; the largest partitions go first when there are more.
BUFFER_BYTES: Final = 256 * 1024 * 1024


@dataclass(slots=True)
class WrittenPartition:
    """The new rows of one partition.

    Attributes
    ----------
    key
        Of its values; see `lance_df.namespace.keys`.
    values
        One row: the partition values, by name of the column in ``__manifest``.
    place
        Where its table is, or will be.
    made
        The published version that a version with these rows stands on (0 for a new table), and that version.
    """

    key: bytes
    values: pa.RecordBatch
    place: Place
    fragments: list[Fragment] = field(default_factory=list)
    waiting: list[pa.RecordBatch] = field(default_factory=list)
    waiting_bytes: int = 0
    made: tuple[int, int] | None = None


class PartitionWriter:
    """Cuts batches by partition, and writes each partition's rows into data files of its own.

    A context: what was written is removed again when it ends with an error.

    Parameters
    ----------
    spec, schema
        Of the namespace. The rows may lack columns that may be null.
    place
        Called once for each partition, with the values of several: returns where their tables are.
    """

    def __init__(
        self,
        spec: PartitionSpec,
        schema: NamespaceSchema,
        data_schema: pa.Schema,
        place: Callable[[pa.RecordBatch], list[Place]],
        *,
        buffer_bytes: int = BUFFER_BYTES,
    ) -> None:
        self._spec = spec
        self._schema = schema
        self._columns: Schema = schema_to_write(data_schema, schema.columns)
        self._place = place
        self._buffer_bytes = buffer_bytes
        self._waiting_bytes = 0
        self._partitions: dict[bytes, WrittenPartition] = {}
        self._files = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._files.__exit__(kind, error, trace)

    def keep(self) -> None:
        """Leave the files where they are, whatever happens from now on."""
        self._files.close()

    def write(self, batches: Iterable[pa.RecordBatch]) -> list[WrittenPartition]:
        """Write all rows and return their partitions, in the order in which they first appeared."""
        for batch in batches:
            if batch.num_rows:
                self._add(batch)
        for partition in self._partitions.values():
            self._flush(partition)
        return list(self._partitions.values())

    def _add(self, batch: pa.RecordBatch) -> None:
        rows = pa.RecordBatch.from_arrays(conform(batch, self._columns), schema=self._columns.to_arrow())
        for partition, part in self._routed(rows):
            partition.waiting.append(part)
            partition.waiting_bytes += part.nbytes
            self._waiting_bytes += part.nbytes
        if self._waiting_bytes > self._buffer_bytes:
            largest_first = sorted(self._partitions.values(), key=lambda each: -each.waiting_bytes)
            for partition in largest_first:
                self._flush(partition)
                if self._waiting_bytes <= self._buffer_bytes // 2:
                    break

    def _routed(self, rows: pa.RecordBatch) -> Iterator[tuple[WrittenPartition, pa.RecordBatch]]:
        values = values_of_rows(self._spec, self._schema, rows)
        order, starts, firsts = group_rows(values.columns)
        distinct = values.take(pa.array(firsts))
        ordered = rows if len(starts) == 1 else rows.take(pa.array(order))
        stops = [*starts[1:].tolist(), rows.num_rows]
        partitions = self._found(distinct)
        for partition, start, stop in zip(partitions, starts.tolist(), stops, strict=True):
            yield partition, ordered.slice(start, stop - start)

    def _found(self, values: pa.RecordBatch) -> list[WrittenPartition]:
        """Return the partitions of distinct values, in their order."""
        keys = value_keys(values.columns)
        known = keys.to_pylist()
        new = [number for number, key in enumerate(known) if key not in self._partitions]
        places = self._place(values.take(pa.array(new, pa.int64()))) if new else []
        for number, place in zip(new, places, strict=True):
            own = values.slice(number, 1)
            self._partitions[known[number]] = WrittenPartition(known[number], own, place)
        return [self._partitions[key] for key in known]

    def _flush(self, partition: WrittenPartition) -> None:
        if not partition.waiting:
            return
        batches, partition.waiting = partition.waiting, []
        self._waiting_bytes -= partition.waiting_bytes
        partition.waiting_bytes = 0
        written = fragments_written(
            partition.place.folder, self._columns, batches, version=FILE_VERSION, limits=FileLimits()
        )
        partition.fragments += self._files.enter_context(written)


def values_of_rows(spec: PartitionSpec, schema: NamespaceSchema, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return the partition values of rows, by name of the column in ``__manifest``.

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
