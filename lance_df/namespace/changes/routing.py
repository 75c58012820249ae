"""Send rows to the partitions that they belong to, and write them there: bounded memory, no open files."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.file.writer import num_threads
from lance_df.namespace.keys import group_rows, value_keys
from lance_df.namespace.member import FILE_VERSION
from lance_df.namespace.spec.partition_values import partition_values
from lance_df.namespace.spec.transforms import TransformKind
from lance_df.table.base_paths import DATA_DIR
from lance_df.table.conform import conform, schema_to_write
from lance_df.table.fragment_writer import FileLimits, fragments_written, remove_data_file
from lance_df.table.maintenance.zones import ROWS_PER_ZONE
from lance_df.table.small_fragment import SMALL_BYTES, SmallFragments
from lance_df.table.zone_map_writer import ZoneMapBuilder, ZoneMaps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from types import TracebackType

    from lance_df.format.fragments import Fragment
    from lance_df.format.schema import Schema
    from lance_df.namespace.changes.partition_index import Place
    from lance_df.namespace.spec.namespace_schema import NamespaceSchema
    from lance_df.namespace.spec.partition_spec import PartitionSpec
    from lance_df.storage.unsynced import Unsynced

# Rows of all partitions that wait to be written; the largest partitions go first when there are more.
BUFFER_BYTES: Final = 256 * 1024 * 1024
# So many bytes are routed at once: the more rows of a partition come together, the less work each costs.
_ROUTED_BYTES: Final = 64 * 1024 * 1024
_LIMITS: Final = FileLimits()


@dataclass(slots=True)
class WrittenPartition:
    """The new rows of one partition.

    Attributes
    ----------
    key
        Of its values; see `lance_df.namespace.keys`.
    of_all, row
        Partition values of several partitions, by name of the column in ``__manifest``, and which of these
        rows has those of this one.
    place
        Where its table is, or will be.
    zone_maps
        Of the fragments from the first one on that is large enough.
    made
        The published version that a version with these rows stands on (0 for a new table), and that version.
    """

    key: bytes
    of_all: pa.RecordBatch
    row: int
    place: Place
    fragments: list[Fragment] = field(default_factory=list)
    waiting: list[pa.RecordBatch] = field(default_factory=list)
    num_waiting: int = 0
    zone_maps: ZoneMaps | None = None
    made: tuple[int, int] | None = None

    @property
    def values(self) -> pa.RecordBatch:
        """One row: the partition values. Made when asked for, as it takes more memory than all else here."""
        return self.of_all.slice(self.row, 1)


class PartitionWriter:
    """Cuts batches by partition, and writes each partition's rows into data files of its own.

    A context: what was written is removed again when it ends with an error.

    Parameters
    ----------
    spec, schema
        Of the namespace. The rows may lack columns that may be null.
    place
        Called once for each partition, with the values of several: returns where their tables are.
    unsynced
        Takes note of the files, which are not durable before it is synced.
    buffer_bytes
        Rows of all partitions that may wait to be written.
    limits
        When to start the next data file of a partition.
    statistics
        Whether to collect zone maps; by default of partitions whose rows make more than one zone.
    """

    def __init__(
        self,
        spec: PartitionSpec,
        schema: NamespaceSchema,
        data_schema: pa.Schema,
        place: Callable[[pa.RecordBatch], list[Place]],
        unsynced: Unsynced,
        *,
        buffer_bytes: int = BUFFER_BYTES,
        limits: FileLimits = _LIMITS,
        statistics: bool | None = None,
    ) -> None:
        self._spec = spec
        self._schema = schema
        self._columns: Schema = schema_to_write(data_schema, schema.columns)
        self._arrow = self._columns.to_arrow()
        self._small = SmallFragments(self._columns, version=FILE_VERSION)
        self._has_blobs = any(field.is_blob for field in self._columns.walk())
        self._place = place
        self._unsynced = unsynced
        self._buffer_bytes = buffer_bytes
        self._limits = limits
        # a zone map of one zone tells no more than it takes to read the rows
        self._least_rows = {None: ROWS_PER_ZONE + 1, True: 1, False: None}[statistics]
        self._constant = frozenset(
            field_id
            for each in spec.fields
            if each.transform is not None and each.transform.kind is TransformKind.IDENTITY
            for field_id in each.source_ids
        )
        self._unrouted: list[pa.RecordBatch] = []
        self._unrouted_bytes = 0
        self._waiting_bytes = 0
        self._waiting_rows = 0
        self._partitions: dict[bytes, WrittenPartition] = {}
        self._keeps = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and not self._keeps:
            self._remove()

    def keep(self) -> None:
        """Leave the files where they are, whatever happens from now on."""
        self._keeps = True

    def write(self, batches: Iterable[pa.RecordBatch]) -> list[WrittenPartition]:
        """Write all rows and return their partitions, in the order in which they first appeared."""
        for batch in batches:
            if batch.num_rows:
                self._unrouted.append(self._conformed(batch))
                self._unrouted_bytes += batch.nbytes
            if self._unrouted_bytes >= min(_ROUTED_BYTES, self._buffer_bytes):
                self._route()
        self._route()
        self._flush(self._partitions.values())
        return list(self._partitions.values())

    def _conformed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = conform(batch, self._columns)
        if self._has_blobs:
            # those of rows that are moved tell where they lie: all of one writer do, or none
            names = [field.name for field in self._columns.fields]
            self._arrow = pa.schema(zip(names, (array.type for array in arrays), strict=True))
        return pa.RecordBatch.from_arrays(arrays, schema=self._arrow)

    def _route(self) -> None:
        rows = pa.Table.from_batches(self._unrouted, self._arrow)
        self._waiting_bytes += self._unrouted_bytes
        self._waiting_rows += len(rows)
        self._unrouted, self._unrouted_bytes = [], 0
        for batch in rows.combine_chunks().to_batches():
            for partition, part in self._routed(batch):
                partition.waiting.append(part)
                partition.num_waiting += part.num_rows
        if self._waiting_bytes > self._buffer_bytes:
            self._make_room()

    def _make_room(self) -> None:
        """Write the largest partitions, and copy what is left, which keeps the memory of all else."""
        most = self._waiting_rows * self._buffer_bytes // self._waiting_bytes // 2
        left = sorted(self._partitions.values(), key=lambda each: each.num_waiting)
        largest, num_left = [], self._waiting_rows
        while left and num_left > most:
            largest.append(left.pop())
            num_left -= largest[-1].num_waiting
        self._flush(largest)
        left = [partition for partition in left if partition.num_waiting]
        rows = pa.Table.from_batches([part for each in left for part in each.waiting], self._arrow)
        self._waiting_bytes = rows.nbytes
        # a chunk is full where a column of texts has all that fits
        starts = np.cumsum([0, *(partition.num_waiting for partition in left)]).tolist()
        rows = rows.combine_chunks()
        for partition, start in zip(left, starts, strict=False):
            partition.waiting = rows.slice(start, partition.num_waiting).to_batches()

    def _routed(self, rows: pa.RecordBatch) -> Iterator[tuple[WrittenPartition, pa.RecordBatch]]:
        values = values_of_rows(self._spec, self._schema, rows)
        order, starts, firsts = group_rows(values.columns)
        distinct = values.take(pa.array(firsts))
        ordered = rows if order is None else rows.take(pa.array(order))
        stops = [*starts[1:].tolist(), rows.num_rows]
        partitions = self._found(distinct)
        for partition, start, stop in zip(partitions, starts.tolist(), stops, strict=True):
            yield partition, ordered.slice(start, stop - start)

    def _found(self, values: pa.RecordBatch) -> list[WrittenPartition]:
        """Return the partitions of distinct values, in their order."""
        known = value_keys(values.columns).to_pylist()
        new = [number for number, key in enumerate(known) if key not in self._partitions]
        places = self._place(values.take(pa.array(new, pa.int64()))) if new else []
        for number, place in zip(new, places, strict=True):
            self._partitions[known[number]] = WrittenPartition(known[number], values, number, place)
        return [self._partitions[key] for key in known]

    def _flush(self, partitions: Iterable[WrittenPartition]) -> None:
        """Write what waits of some partitions, as many at a time as there are processors."""
        full = [partition for partition in partitions if partition.waiting]
        self._waiting_rows -= sum(partition.num_waiting for partition in full)
        if len(full) == 1:
            self._write_waiting(full[0])
            return
        with ThreadPoolExecutor(num_threads(), "lance-df-write") as pool:
            # with the context of this thread, which may name files for a job
            written = [pool.submit(copy_context().run, self._write_waiting, partition) for partition in full]
            try:
                for each in written:
                    each.result()
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise

    def _write_waiting(self, partition: WrittenPartition) -> None:
        is_large = self._least_rows is not None and partition.num_waiting >= self._least_rows
        if is_large and partition.zone_maps is None:
            partition.zone_maps = ZoneMaps(ZoneMapBuilder(self._columns, without=self._constant))
        zone_maps = partition.zone_maps
        batches, partition.waiting, partition.num_waiting = partition.waiting, [], 0
        if zone_maps is None and self._is_small(batches):
            partition.fragments.append(self._small.write(partition.place.folder, batches, self._unsynced))
            return
        with fragments_written(
            partition.place.folder,
            self._columns,
            batches,
            version=FILE_VERSION,
            limits=self._limits,
            zone_maps=None if zone_maps is None else zone_maps.builder,
            unsynced=self._unsynced,
        ) as fragments:
            partition.fragments += fragments
        if zone_maps is not None:
            zone_maps.fragments.extend(fragments)

    def _is_small(self, batches: Sequence[pa.RecordBatch]) -> bool:
        num_bytes = sum(batch.nbytes for batch in batches)
        num_rows = sum(batch.num_rows for batch in batches)
        limits = self._limits
        return not self._has_blobs and (
            num_rows <= limits.max_rows
            and num_bytes <= min(SMALL_BYTES, limits.max_bytes, limits.page_bytes(len(self._columns.fields)))
        )

    def _remove(self) -> None:
        """Remove all files, and the folders that were made for them, as far as the store lets us."""
        for partition in self._partitions.values():
            folder = partition.place.folder
            for fragment in partition.fragments:
                for file in fragment.files:
                    remove_data_file(folder / DATA_DIR / file.path)
            (folder / DATA_DIR).remove_empty_folder()
            folder.remove_empty_folder()


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
