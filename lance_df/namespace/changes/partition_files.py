"""Write the rows of partitions into data files of their tables."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from lance_df.interrupts import check_stopped
from lance_df.namespace.changes.waiting_rows import WaitingRows
from lance_df.namespace.member import FILE_VERSION
from lance_df.namespace.spec.transforms import TransformKind
from lance_df.table.maintenance.zones import ROWS_PER_ZONE
from lance_df.table.metadata.base_paths import DATA_DIR
from lance_df.table.writing.fragment_writer import FragmentWriter, remove_data_file
from lance_df.table.writing.small_fragment import SMALL_BYTES, SmallFragments
from lance_df.table.writing.zone_map_writer import ZoneMapBuilder, ZoneMaps

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from lance_df.format.fragments import Fragment
    from lance_df.format.schema import Schema
    from lance_df.namespace.changes.partition_index import PartitionLocation
    from lance_df.namespace.spec.partition_spec import PartitionSpec
    from lance_df.storage import Location
    from lance_df.storage.unsynced import Unsynced
    from lance_df.table.writing.fragment_writer import FileLimits
    from lance_df.table.writing.uncommitted import UncommittedFiles


@dataclass(slots=True)
class WrittenPartition:
    """The new rows of one partition.

    Attributes
    ----------
    key
        The key of the partition values; see `lance_df.namespace.keys`.
    of_all, row
        Partition values of several partitions, by column name in ``__manifest``, and the row that has those
        of this partition.
    location
        The location of the existing or future table.
    num_rows
        How many rows were passed to the writer.
    writer
        The writer of unfinished fragments; None if there are none.
    zone_maps
        The zone maps of the fragments, from the first one that is large enough.
    made
        The published version on which a version with these rows is based (0 for a new table), and that
        version.
    """

    key: bytes
    of_all: pa.RecordBatch
    row: int
    location: PartitionLocation
    fragments: list[Fragment] = field(default_factory=list)
    waiting: WaitingRows = field(default_factory=WaitingRows)
    writer: FragmentWriter | None = None
    num_rows: int = 0
    zone_maps: ZoneMaps | None = None
    made: tuple[int, int] | None = None

    @property
    def values(self) -> pa.RecordBatch:
        """The partition values as one row; computed on access, because it needs more memory than the rest."""
        return self.of_all.slice(self.row, 1)


class PartitionFiles:
    """Writes data files of partitions of one spec: several partitions at once, each by a single thread.

    Parameters
    ----------
    columns
        The columns that the rows have.
    statistics
        Whether to collect zone maps; by default only for partitions with more rows than one zone.
    """

    def __init__(
        self,
        spec: PartitionSpec,
        columns: Schema,
        unsynced: Unsynced,
        *,
        limits: FileLimits,
        statistics: bool | None,
    ) -> None:
        self._columns = columns
        self._unsynced = unsynced
        self._limits = limits
        self._small = SmallFragments(columns, version=FILE_VERSION)
        self._has_blobs = any(field.is_blob for field in columns.walk())
        # reading a zone map of one zone takes as long as reading the rows
        self._least_rows = {None: ROWS_PER_ZONE + 1, True: 1, False: None}[statistics]
        self._constant = frozenset(
            field_id
            for each in spec.fields
            if each.transform is not None and each.transform.kind is TransformKind.IDENTITY
            for field_id in each.source_ids
        )

    def write(
        self,
        partition: WrittenPartition,
        batches: Iterator[pa.RecordBatch],
        *,
        num_rows: int,
        num_encoders: int | None,
        stays_open: bool = False,
    ) -> None:
        """Write rows of a partition.

        Parameters
        ----------
        batches
            The rows, in storage types.
        num_rows
            The total number of rows, at least 1.
        num_encoders
            See :func:`lance_df.table.writing.fragment_writer.fragments_written`.
        stays_open
            Whether more rows may follow for the same file.
        """
        partition.num_rows += num_rows
        is_large = self._least_rows is not None and num_rows >= self._least_rows
        if is_large and partition.zone_maps is None:
            partition.zone_maps = ZoneMaps(ZoneMapBuilder(self._columns, without=self._constant))
        zone_maps = partition.zone_maps
        if zone_maps is None and partition.writer is None:
            first = next(batches)
            if first.num_rows == num_rows and self._is_small(first):
                partition.fragments.append(
                    self._small.write(partition.location.folder, first, self._unsynced)
                )
                return
            batches = itertools.chain([first], batches)
        if partition.writer is None:
            partition.writer = FragmentWriter(
                partition.location.folder,
                self._columns,
                version=FILE_VERSION,
                limits=self._limits,
                zone_maps=None if zone_maps is None else zone_maps.builder,
                unsynced=self._unsynced,
                num_encoders=num_encoders,
            )
        for batch in batches:
            check_stopped()
            partition.writer.write(batch)
        if stays_open:
            partition.writer.flush()
        else:
            self.finish(partition)

    def finish(self, partition: WrittenPartition) -> None:
        """Finish the open file of a partition, if there is one."""
        if partition.writer is None:
            return
        fragments = partition.writer.finish()
        partition.fragments += fragments
        partition.writer = None
        if partition.zone_maps is not None:
            partition.zone_maps.fragments.extend(fragments)

    def may_stay_open(self, partition: WrittenPartition) -> bool:
        """Whether it is worthwhile to keep the file open for more rows of a partition."""
        # remote stores keep unfinished files in memory
        return (
            partition.location.folder.is_local
            and not self._has_blobs
            and partition.waiting.num_rows > ROWS_PER_ZONE
        )

    def _is_small(self, rows: pa.RecordBatch) -> bool:
        limits = self._limits
        return not self._has_blobs and (
            rows.num_rows <= limits.max_rows
            and rows.nbytes <= min(SMALL_BYTES, limits.max_bytes, limits.page_bytes(rows.num_columns))
        )


def note_files(files: UncommittedFiles, partition: WrittenPartition) -> None:
    """Register the written files of a partition for removal if a later step fails."""
    for fragment in partition.fragments:
        for file in fragment.files:
            files.add(file.path, partial(remove_file, partition.location.folder, file.path))


def remove_file(folder: Location, path: str) -> None:
    """Remove a data file of the table in a folder, and the folders created for it."""
    remove_data_file(folder / DATA_DIR / path)
    remove_empty_folders(folder)


def remove_empty_folders(folder: Location) -> None:
    """Remove the folders created for a table, if they are empty."""
    (folder / DATA_DIR).remove_empty_folder()
    folder.remove_empty_folder()
