"""Build zone map indices from the bounds of a column, and extend them by more rows."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
from pyroaring import BitMap

from lance_df.errors import UnsupportedFeatureError
from lance_df.records import dataclass
from lance_df.table.indices.zone_map import Zones
from lance_df.table.maintenance.index_builder import BuildRequest, SegmentContents, segment_folder
from lance_df.table.maintenance.index_columns import scanned_entries, scanned_field
from lance_df.table.maintenance.zone_map_files import (
    FILE,
    KIND,
    ZoneMapData,
    joined,
    read_zone_map,
    write_zone_map,
    zone_counts,
)
from lance_df.table.maintenance.zones import ROWS_PER_ZONE, ZoneCollector, has_bounds
from lance_df.table.reading.row_ids import split_addresses

if TYPE_CHECKING:
    from lance_df.format.manifest import IndexMetadata
    from lance_df.format.schema import Field
    from lance_df.table.table import Table
    from lance_df.table.writing.uncommitted import UncommittedFiles


@dataclass(frozen=True, slots=True)
class ZoneMapIndexBuilder:
    """Builds zone maps."""

    kind: str = KIND
    has_zones: bool = True

    def accepts(self, field: Field) -> bool:
        """Whether values of a field have an order, and thus bounds."""
        return has_bounds(field)

    def contents(self, table: Table, field: Field, segment: IndexMetadata) -> SegmentContents:
        """Return the coverage of a segment; it covers a fragment without zones only if that has no rows."""
        present = BitMap(table.fragments.ids.tolist())
        if read_zone_map(table.index_location(segment), field, present) is None:
            return SegmentContents(BitMap(), BitMap())
        zones = Zones.read(segment_folder(table, segment).open(FILE))
        held = BitMap(np.unique(zones.fragment_ids).tolist()) & present
        covered = (segment.covered_fragments() or BitMap()) & present
        return SegmentContents(covered - BitMap(zones.repeated_fragments().tolist()), held)

    def build(self, request: BuildRequest, files: UncommittedFiles) -> IndexMetadata:
        """Write a segment; return its entry for a manifest."""
        table, field = request.table, request.field
        parts = [
            part
            for segment, fragment_ids in request.reused
            if (part := read_zone_map(table.index_location(segment), field, fragment_ids)) is not None
        ]
        rows_per_zone = request.rows_per_zone or ROWS_PER_ZONE
        if request.template is not None:
            _, rows_per_zone = zone_counts(table.index_location(request.template))
        if request.scanned or not parts:
            parts.append(collect_zone_map(table, request.column, field, request.scanned, rows_per_zone))
        return write_zone_map(
            table.location, table.manifest, field, joined(parts), name=request.name, files=files
        )


ZONE_MAP: Final = ZoneMapIndexBuilder()


def collect_zone_map(
    table: Table, column: str, field: Field, fragment_ids: BitMap, rows_per_zone: int
) -> ZoneMapData:
    """Return the zones of a column in some fragments."""
    collector = ZoneCollector(field, rows_per_zone=rows_per_zone)
    for part in scanned_entries(table, column, fragment_ids):
        ids, offsets = split_addresses(part.ids)
        cuts = [0, *(np.flatnonzero(np.diff(ids)) + 1).tolist(), len(ids)]
        for start, stop in pairwise(cuts):
            rows = slice(start, stop)
            collector.add(int(ids[start]), part.values[rows], offsets[rows])
    return ZoneMapData(collector.finish(), fragment_ids, rows_per_zone)


def columns_with_bounds(table: Table) -> Iterator[tuple[str, Field]]:
    """Yield the top-level columns that can have zone maps."""
    for field in table.schema.fields:
        if has_bounds(field):
            yield field.name, field


def field_with_bounds(table: Table, column: str) -> tuple[str, Field]:
    """Return a column, or a field of a struct as ``"a.b"``, that can have a zone map.

    Returns
    -------
    Its name in scans, and its field.

    Raises
    ------
    ColumnNotFoundError
        There is no such column.
    UnsupportedFeatureError
        Its values have no order, and thus no bounds.
    """
    scanned = scanned_field(table, column)
    if scanned is None or not has_bounds(scanned[1]):
        what = "this column" if scanned is None else f"column {column!r} of type {scanned[1].logical_type}"
        raise UnsupportedFeatureError(f"{table.uri}: a zone map is not supported on {what}")
    return scanned
