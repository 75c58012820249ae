"""Rows that many processes write into partitions, and one process publishes in one commit."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from lance_df.namespace.changes.partition_files import WrittenPartition, remove_file
from lance_df.namespace.changes.partition_index import PartitionIndex, PartitionLocation
from lance_df.namespace.changes.pending import PendingChanges
from lance_df.namespace.changes.routing import BUFFER_BYTES, PartitionWriter
from lance_df.namespace.directory.names import location_of
from lance_df.namespace.keys import value_keys
from lance_df.namespace.names import JobNames
from lance_df.records import dataclass
from lance_df.storage.unsynced import Unsynced
from lance_df.table.writing.fragment_writer import FileLimits
from lance_df.table.writing.staged_write import StagedFile

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lance_df.format.fragments import Fragment
    from lance_df.namespace.manifest_table import NamespaceManifest
    from lance_df.storage import Location
    from lance_df.table.commit.marks import Mark
    from lance_df.table.writing.uncommitted import UncommittedFiles
    from lance_df.table.writing.zone_map_writer import ZoneMaps


@dataclass(frozen=True, slots=True)
class StagedPartitions:
    """A description of the rows that a process wrote, small enough to send to another process.

    Attributes
    ----------
    version
        The version of the namespace for which the rows were written.
    values
        The partition values, a row for each partition, by column name in ``__manifest``.
    folders, paths, are_new, fragments, row_counts, zone_maps
        For each partition: the folder of its table, relative to the root, the last parts of the names of the
        namespaces above it, whether the folder was named for these rows, its new fragments, the number of
        rows passed to the writer, and the collected zone maps.
    """

    version: int
    values: pa.RecordBatch
    folders: tuple[str, ...]
    paths: tuple[tuple[str, ...], ...]
    are_new: tuple[bool, ...]
    fragments: tuple[tuple[Fragment, ...], ...]
    row_counts: tuple[int, ...]
    zone_maps: tuple[ZoneMaps | None, ...]

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return sum(self.row_counts)

    @property
    def num_bytes(self) -> int:
        """The size of the data files."""
        return sum(file.size_bytes for each in self.fragments for fragment in each for file in fragment.files)


def stage_partitions(
    root: Location,
    manifest: NamespaceManifest,
    data_schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    job: str,
    *,
    limits: FileLimits | None = None,
    buffer_bytes: int = BUFFER_BYTES,
    statistics: bool = False,
) -> StagedPartitions:
    """Write rows into durable but unpublished data files of their partitions.

    Parameters
    ----------
    manifest
        The version that all processes of the job write for.
    job
        A unique text for each job, from which its processes derive the same names for new partitions.
    limits, buffer_bytes
        See `PartitionWriter`.
    statistics
        Whether to collect zone maps of partitions with more rows than one zone. Their bounds are sent to the
        publishing process.

    Raises
    ------
    InvalidInputError
        Rows do not fit the schema, or a partition expression fails for them. No file is left.
    """
    spec = manifest.specs.current
    index = PartitionIndex(root, manifest, spec, names=JobNames(job))
    unsynced = Unsynced()
    with PartitionWriter(
        spec,
        manifest.schema,
        data_schema,
        index.locate,
        unsynced,
        buffer_bytes=buffer_bytes,
        limits=limits or FileLimits(),
        statistics=None if statistics else False,
    ) as writer:
        written = writer.write(batches)
        unsynced.sync()
    empty = pa.schema([(field.column, field.result_type) for field in spec.fields])
    values = pa.Table.from_batches([each.values for each in written], None if written else empty)
    return StagedPartitions(
        version=manifest.version,
        # copied, because slices would be sent with all rows
        values=pa.RecordBatch.from_arrays(
            [column.combine_chunks() for column in values.columns], schema=values.schema
        ),
        folders=tuple(location_of(root, each.location.folder) for each in written),
        paths=tuple(each.location.path for each in written),
        are_new=tuple(each.location.is_new for each in written),
        fragments=tuple(tuple(each.fragments) for each in written),
        row_counts=tuple(each.num_rows for each in written),
        zone_maps=tuple(each.zone_maps for each in written),
    )


def publish_staged_partitions(
    root: Location,
    manifest: NamespaceManifest,
    staged: Iterable[StagedPartitions],
    *,
    overwrite: str | None = None,
    mark: Mark | None = None,
) -> NamespaceManifest:
    """Publish staged rows in one version, and return it. Their files stay if that fails.

    Parameters
    ----------
    manifest
        The version for which they were staged.
    overwrite
        None adds the rows; ``"partitions"`` replaces the partitions to which they belong; ``"all"`` replaces
        all rows.
    mark
        Ensures that the rows are published only once.

    Raises
    ------
    ConflictError
        The schema changed meanwhile, or other writers were faster again and again.
    CommitStateUnknownError
        It is not known whether the rows were published.
    AlreadyCommittedError
        Rows with this mark were published before.
    """
    written = merged_partitions(root, staged)
    with PendingChanges(root, manifest) as pending:
        if overwrite == "all":
            pending.replace_all(written)
        elif overwrite == "partitions":
            pending.replace_partitions(written)
        else:
            pending.add(written)
        if mark is not None:
            pending.mark(mark)
        return pending.publish(rebase=True)


def staged_files(root: Location, staged: Iterable[StagedPartitions]) -> Iterator[StagedFile]:
    """Yield the data files of unpublished rows."""
    for each in staged:
        for name, fragments in zip(each.folders, each.fragments, strict=True):
            for fragment in fragments:
                for file in fragment.files:
                    yield StagedFile(root / name, file.path)


def note_staged_partitions(
    files: UncommittedFiles, root: Location, staged: Iterable[StagedPartitions]
) -> None:
    """Register the data files of rows, and their new folders, for removal if publishing fails."""
    for file in staged_files(root, staged):
        files.add(file.path, partial(remove_file, file.table, file.path))


def merged_partitions(root: Location, staged: Iterable[StagedPartitions]) -> list[WrittenPartition]:
    """Merge the rows that several processes wrote for the same partition."""
    partitions: dict[bytes, WrittenPartition] = {}
    for each in staged:
        keys = value_keys(each.values.columns).to_pylist()
        locations = [
            PartitionLocation(root / folder, path, is_new)
            for folder, path, is_new in zip(each.folders, each.paths, each.are_new, strict=True)
        ]
        rows = zip(keys, locations, each.fragments, each.row_counts, each.zone_maps, strict=True)
        for number, (key, location, fragments, num_rows, zone_maps) in enumerate(rows):
            if key not in partitions:
                partitions[key] = WrittenPartition(key, each.values, number, location)
            partition = partitions[key]
            partition.fragments += fragments
            partition.num_rows += num_rows
            if partition.zone_maps is None:
                partition.zone_maps = zone_maps
            elif zone_maps is not None:
                partition.zone_maps.extend(zone_maps)
    return list(partitions.values())
