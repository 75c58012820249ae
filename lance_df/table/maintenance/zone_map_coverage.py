"""Find fragments without zone maps, and build these: many processes may collect zones for one commit."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from pyroaring import BitMap

from lance_df.records import dataclass
from lance_df.scan.request import Promise, ScanRequest
from lance_df.scan.run import run_tasks
from lance_df.table.maintenance.index_columns import free_index_name
from lance_df.table.maintenance.scalar_index import commit_indices
from lance_df.table.maintenance.zone_map_files import (
    KIND,
    ZoneMapData,
    joined,
    read_segments,
    write_zone_map,
    zone_counts,
)
from lance_df.table.maintenance.zone_map_index import columns_with_bounds, field_with_bounds
from lance_df.table.maintenance.zones import ROWS_PER_ZONE, ZoneCollector
from lance_df.table.reading.row_ids import split_addresses
from lance_df.table.scan.plan import plan_scan
from lance_df.table.writing.uncommitted import uncommitted_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import numpy.typing as npt
    import pyarrow as pa

    from lance_df.format.manifest import IndexMetadata
    from lance_df.format.schema import Field
    from lance_df.table.commit.options import CommitOptions
    from lance_df.table.table import Table

# for longer values, reading the bounds would take more time than they save
_MAX_BOUND_BYTES = 4096


@dataclass(frozen=True, slots=True)
class MissingZones:
    """Fragments without zones of a column; ``segments`` are those of the existing zone map."""

    column: str
    field: Field
    segments: tuple[IndexMetadata, ...]
    fragment_ids: BitMap
    rows_per_zone: int


def missing_zones(
    table: Table, columns: Sequence[str] | None = None, *, without: Collection[int] = ()
) -> list[MissingZones]:
    """Return the columns and fragments that lack zones.

    Parameters
    ----------
    columns
        The columns to check. By default all top-level columns that have bounds, except those with ids in
        ``without``.

    Raises
    ------
    ColumnNotFoundError
        There is no such column.
    UnsupportedFeatureError
        The values of a column have no order, and thus no bounds.
    """
    if columns is None:
        fields = {name: field for name, field in columns_with_bounds(table) if field.id not in without}
    else:
        fields = dict(field_with_bounds(table, name) for name in columns)
    present = BitMap(table.fragments.ids.tolist())
    lacking = []
    for name, field in fields.items():
        known = [index for index in table.indices if index.kind == KIND and index.fields == (field.id,)]
        segments = tuple(index for index in known if index.name == known[0].name)
        covered = [fragments for index in segments if (fragments := index.covered_fragments()) is not None]
        missing = present - BitMap.union(BitMap(), *covered)
        if missing:
            sizes = {zone_counts(table.index_location(index))[1] for index in segments[:1]}
            lacking.append(MissingZones(name, field, segments, missing, max(sizes, default=ROWS_PER_ZONE)))
    return lacking


def lacks_zone_maps(table: Table) -> bool:
    """Whether a fragment that could have a zone map is in none, for any column."""
    covered = [index.covered_fragments() or BitMap() for index in table.indices if index.kind == KIND]
    missing = BitMap(table.fragments.ids.tolist()) - BitMap.union(BitMap(), *covered)
    return bool(missing) and next(columns_with_bounds(table), None) is not None


def collect_zones(
    table: Table,
    missing: Sequence[MissingZones],
    fragment_ids: Iterable[int],
    *,
    num_threads: int | None = None,
) -> dict[int, ZoneMapData]:
    """Collect the zones of some fragments, by field id, without columns whose bounds are too long.

    All columns are read together.
    """
    ids = BitMap(fragment_ids)
    collectors = [
        ZoneCollector(each.field, rows_per_zone=each.rows_per_zone, max_bound_bytes=_MAX_BOUND_BYTES)
        for each in missing
    ]
    request = ScanRequest(
        columns=tuple(each.column for each in missing),
        with_row_address=True,
        fragment_ids=tuple(ids),
        requires=Promise.COMPLETE | Promise.ORDERED,
    )
    for batch in run_tasks(plan_scan(table, request).tasks, num_threads=num_threads):
        for fragment_id, rows, offsets in _runs(batch):
            for position, (each, collector) in enumerate(zip(missing, collectors, strict=True)):
                if fragment_id in each.fragment_ids:
                    collector.add(fragment_id, batch.column(position)[rows], offsets)
    return {
        each.field.id: ZoneMapData(collector.finish(), each.fragment_ids & ids, each.rows_per_zone)
        for each, collector in zip(missing, collectors, strict=True)
        if each.fragment_ids & ids and collector.is_worthwhile
    }


def with_zones(
    table: Table,
    missing: Sequence[MissingZones],
    parts: Sequence[Mapping[int, ZoneMapData]],
    *,
    commit_options: CommitOptions | None = None,
) -> Table:
    """Add collected zones to zone maps, and return the table at the version that has them.

    Parameters
    ----------
    parts
        Together they must have all fragments that lack zones of a column, or that column stays unchanged.

    Raises
    ------
    ConflictError
        Others changed a column meanwhile. No files are left behind.
    """
    new: list[IndexMetadata] = []
    removed: list[IndexMetadata] = []
    present = BitMap(table.fragments.ids.tolist())
    with uncommitted_files(table.location) as files:
        for each in missing:
            collected = [part[each.field.id] for part in parts if each.field.id in part]
            if BitMap.union(BitMap(), *(part.fragment_ids for part in collected)) != each.fragment_ids:
                continue
            known = read_segments(each.segments, table.index_location, each.field, present)
            name = (
                each.segments[0].name
                if each.segments
                else free_index_name(table, each.column, each.field, KIND)
            )
            data = joined([*known, *collected])
            new.append(
                write_zone_map(table.location, table.manifest, each.field, data, name=name, files=files)
            )
            removed += each.segments
        return commit_indices(table, new, removed, commit_options) if new else table


def _runs(batch: pa.RecordBatch) -> Iterator[tuple[int, slice, npt.NDArray[np.int64]]]:
    """Yield the rows of each fragment in a batch, whose last column has row addresses."""
    ids, offsets = split_addresses(batch.column(batch.num_columns - 1).to_numpy())
    cuts = [0, *(np.flatnonzero(np.diff(ids)) + 1).tolist(), len(ids)]
    for start, stop in pairwise(cuts):
        if stop > start:
            yield int(ids[start]), slice(start, stop), offsets[start:stop]
