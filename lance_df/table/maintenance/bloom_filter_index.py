"""Build Bloom filter indices, which record the values that may be in each run of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from lance_df.records import dataclass
from lance_df.table.maintenance.bloom_filter_files import BloomFilterWriter, FilterSize, read_zones
from lance_df.table.maintenance.index_builder import BuildRequest, SegmentContents, segment_folder
from lance_df.table.maintenance.index_columns import scanned_entries
from lance_df.table.maintenance.new_index import NewIndex
from lance_df.table.metadata.row_counts import live_counts

if TYPE_CHECKING:
    from lance_df.format.manifest import IndexMetadata
    from lance_df.format.schema import Field
    from lance_df.table.table import Table
    from lance_df.table.writing.uncommitted import UncommittedFiles

DETAILS_URL: Final = "/lance.index.pb.BloomFilterIndexDetails"


@dataclass(frozen=True, slots=True)
class BloomFilterBuilder:
    """Builds Bloom filter indices."""

    kind: str = "bloomfilterindexdetails"
    has_zones: bool = True

    def accepts(self, field: Field) -> bool:
        """Whether values of a field can be indexed: pylance only hashes those of some types."""
        if field.children or field.is_blob or field.is_json:
            return False
        data_type, types = field.arrow_type(), pa.types
        return any(
            is_kind(data_type)
            for is_kind in (
                *(types.is_integer, types.is_float32, types.is_float64, types.is_date, types.is_time),
                *(types.is_timestamp, types.is_string, types.is_large_string),
                *(types.is_binary, types.is_large_binary),
            )
        )

    def contents(self, table: Table, field: Field, segment: IndexMetadata) -> SegmentContents:  # noqa: ARG002 - a cast column is another field
        """Return the coverage of a segment: fragments for which it has zones, or without rows."""
        present = BitMap(table.fragments.ids.tolist())
        zones = read_zones(segment_folder(table, segment))
        held = BitMap(np.unique(zones.fragment_ids).tolist()) & present
        covered = (segment.covered_fragments() or BitMap()) & present
        without = covered - held
        rows = live_counts(table, table.fragments.ids) if without else {}
        covered -= BitMap(each for each in without if rows[each])
        return SegmentContents(covered - BitMap(zones.repeated_fragments().tolist()), held)

    def build(self, request: BuildRequest, files: UncommittedFiles) -> IndexMetadata:
        """Write a segment; return its entry for a manifest."""
        table = request.table
        size = FilterSize()
        if request.template is not None:
            size = FilterSize.read(segment_folder(table, request.template))
        new = NewIndex(table.location, table.manifest, files)
        BloomFilterWriter(size).write(
            new,
            [(segment_folder(table, segment), fragment_ids) for segment, fragment_ids in request.reused],
            scanned_entries(table, request.column, request.scanned),
        )
        return new.entry(
            request.field,
            name=request.name,
            details_url=DETAILS_URL,
            fragment_ids=request.covered,
            index_version=0,
        )


BLOOM_FILTER: Final = BloomFilterBuilder()
