"""Append rows to a partitioned namespace: to all partitions at once, or to none.

Data files first, then a version of each member, then one commit to ``__manifest`` that makes them all
visible. When somebody else was faster, members are brought on top of what is published by then.
Spec: partitioning, "Multi-Partition Transaction".
"""

from __future__ import annotations

import dataclasses
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from lance_df.errors import RetryableConflictError
from lance_df.namespace.member import append_to_member, create_member
from lance_df.namespace.partition_index import PartitionIndex
from lance_df.namespace.routing import PartitionWriter, WrittenPartition
from lance_df.table.base_paths import DATA_DIR

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa

    from lance_df.namespace.manifest_table import NamespaceManifest
    from lance_df.namespace.namespace_schema import NamespaceSchema
    from lance_df.namespace.partition_index import Member
    from lance_df.namespace.partition_spec import PartitionSpec
    from lance_df.storage import Location

_ATTEMPTS: Final = 50
_NUM_THREADS: Final = 8


def append(
    root: Location,
    manifest: NamespaceManifest,
    data_schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
) -> NamespaceManifest:
    """Append rows and return the version of the namespace that has them.

    Raises
    ------
    InvalidInputError
        Rows that do not fit the schema, or for which a partition expression fails.
    RetryableConflictError
        The schema changed meanwhile, or others were faster again and again.
    CommitStateUnknownError
        It is not known whether the rows were published.
    """
    spec = manifest.specs.current
    index = PartitionIndex(root, manifest, spec)
    with PartitionWriter(spec, manifest.schema, data_schema, index.place) as writer:
        written = writer.write(batches)
        # what follows may leave a member with a version that nobody reads, but that must not be broken
        writer.keep()
    return _published(root, manifest, spec, written) if written else manifest


def _published(
    root: Location, manifest: NamespaceManifest, spec: PartitionSpec, written: Sequence[WrittenPartition]
) -> NamespaceManifest:
    schema = manifest.schema
    for _ in range(_ATTEMPTS):
        if manifest.schema != schema:
            raise RetryableConflictError(f"{root.uri}: the schema changed meanwhile; append the rows again")
        # by now there may be a newer spec, but rows may be partitioned by any version
        index = PartitionIndex(root, manifest, spec)
        rows = index.find(written)

        def commit(pair: tuple[WrittenPartition, Member | None]) -> int:
            partition, member = pair
            return _created(partition, schema) if member is None else _appended(partition, member)

        with ThreadPoolExecutor(_NUM_THREADS) as pool:
            versions = list(pool.map(commit, zip(written, rows, strict=True)))
        moved = {row.object_id: version for row, version in zip(rows, versions, strict=True) if row}
        fresh = [
            (each, version) for each, row, version in zip(written, rows, versions, strict=True) if not row
        ]
        try:
            return manifest.changed(index.rows_of(fresh), moved)
        except RetryableConflictError:
            manifest = manifest.latest()
    raise RetryableConflictError(f"{root.uri}: others were faster {_ATTEMPTS} times in a row; try again")


def _created(partition: WrittenPartition, schema: NamespaceSchema) -> int:
    if partition.made is None:
        partition.made = 0, create_member(partition.place.folder, schema.columns, tuple(partition.fragments))
    return partition.made[1]


def _appended(partition: WrittenPartition, member: Member) -> int:
    if partition.place.folder.path != member.folder.path:
        _move_files(partition, member.folder)
    if partition.made is None or partition.made[0] != member.version:
        made = append_to_member(member.folder, member.version, tuple(partition.fragments))
        partition.made = member.version, made
    return partition.made[1]


def _move_files(partition: WrittenPartition, folder: Location) -> None:
    """Take data files along to the table that somebody else made for the same values meanwhile."""
    for fragment in partition.fragments:
        for file in fragment.files:
            (folder / DATA_DIR / file.path).put((partition.place.folder / DATA_DIR / file.path).read())
    partition.place.folder.remove_tree()
    partition.place, partition.made = dataclasses.replace(partition.place, folder=folder), None
