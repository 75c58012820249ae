"""Build B-tree and bitmap indices, which have an entry for every live row: its value and the row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from lance_df.records import dataclass
from lance_df.table.indices.index_file import IndexFolder
from lance_df.table.maintenance.bitmap_files import (
    bitmap_key_type,
    read_bitmap,
    read_bitmap_ids,
    write_bitmap,
)
from lance_df.table.maintenance.btree_files import btree_key_type, read_btree, read_btree_ids, write_btree
from lance_df.table.maintenance.index_builder import BuildRequest, SegmentContents, segment_folder
from lance_df.table.maintenance.index_columns import scanned_entries
from lance_df.table.maintenance.new_index import NewIndex
from lance_df.table.maintenance.sorted_entries import Entries, sorted_entries
from lance_df.table.metadata.row_counts import live_rows
from lance_df.table.reading.row_ids import AddressIndex

if TYPE_CHECKING:
    import numpy.typing as npt

    from lance_df.format.manifest import IndexMetadata
    from lance_df.format.schema import Field
    from lance_df.table.reading.row_ids import RowIdIndex
    from lance_df.table.table import Table
    from lance_df.table.writing.uncommitted import UncommittedFiles

ADDRESSES_VERSION = 1
"""From this `index_version` on, a B-tree in a table with stable row ids holds addresses."""


@dataclass(frozen=True, slots=True)
class EntryIndexBuilder:
    """Builds B-trees or bitmaps, which only differ in their files.

    Attributes
    ----------
    holds_row_ids
        Whether the index stores row ids rather than addresses in tables with stable row ids.
    """

    kind: str
    details_url: str
    holds_row_ids: bool
    key_type: Callable[[IndexFolder], pa.DataType]
    read: Callable[[IndexFolder], Iterator[Entries]]
    read_ids: Callable[[IndexFolder], Iterator[npt.NDArray[np.uint64]]]
    write: Callable[[NewIndex, pa.DataType, Iterable[Entries]], None]
    has_zones: bool = False

    def accepts(self, field: Field) -> bool:
        """Whether values of a field can be indexed."""
        if field.children or field.is_blob or field.is_json:
            return False
        data_type, types = field.arrow_type(), pa.types
        return any(
            is_kind(data_type)
            for is_kind in (
                *(types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_temporal),
                *(types.is_string, types.is_large_string, types.is_binary, types.is_large_binary),
                types.is_fixed_size_binary,
            )
        )

    def contents(self, table: Table, field: Field, segment: IndexMetadata) -> SegmentContents:
        """Return the coverage of a segment: fragments of which it has each live row exactly once."""
        folder = segment_folder(table, segment)
        if self.key_type(folder) != field.arrow_type():
            return SegmentContents(BitMap(), BitMap())
        index = row_index(table, segment)
        fragments = table.fragments
        counts = np.zeros(len(fragments), np.int64)
        for ids in self.read_ids(folder):
            addresses, exists = index.lookup(ids)
            positions = fragments.positions((addresses[exists] >> np.uint64(32)).astype(np.int64))
            counts += np.bincount(positions, minlength=len(fragments))
        is_whole = counts == live_rows(table, np.arange(len(fragments)))
        covered = BitMap(fragments.ids[is_whole].tolist()) & (segment.covered_fragments() or BitMap())
        return SegmentContents(covered, BitMap(fragments.ids[counts > 0].tolist()))

    def build(self, request: BuildRequest, files: UncommittedFiles) -> IndexMetadata:
        """Write a segment; return its entry for a manifest."""
        table = request.table
        by_row_id = self.holds_row_ids and table.uses_stable_row_ids
        entries = sorted_entries(
            scanned_entries(table, request.column, request.scanned, by_row_id=by_row_id),
            sorted_runs=[
                self._reused(table, segment, fragment_ids, by_row_id=by_row_id)
                for segment, fragment_ids in request.reused
            ],
        )
        new = NewIndex(table.location, table.manifest, files)
        self.write(new, request.field.arrow_type(), entries)
        versions = [segment.dataset_version for segment, _ in request.reused]
        if table.fragment_reuse is not None:
            versions = []  # after older versions, rows have moved; all addresses here are current
        return new.entry(
            request.field,
            name=request.name,
            details_url=self.details_url,
            fragment_ids=request.covered,
            index_version=self.new_version(table),
            dataset_version=min(versions, default=table.version),
        )

    def new_version(self, table: Table) -> int:
        """Return the `index_version` of new segments of a table."""
        return ADDRESSES_VERSION if table.uses_stable_row_ids and not self.holds_row_ids else 0

    def _reused(
        self, table: Table, segment: IndexMetadata, fragment_ids: BitMap, *, by_row_id: bool
    ) -> Iterator[Entries]:
        index = row_index(table, segment)
        wanted = np.asarray(fragment_ids.to_array(), np.uint64)
        for entries in self.read(segment_folder(table, segment)):
            addresses, exists = index.lookup(entries.ids)
            mask = exists & np.isin(addresses >> np.uint64(32), wanted)
            yield Entries(entries.values, entries.ids if by_row_id else addresses).filter(mask)


def row_index(table: Table, segment: IndexMetadata) -> RowIdIndex:
    """Return the index that maps the rows in the entries of a segment to live rows."""
    if table.uses_stable_row_ids and (segment.index_version or 0) >= ADDRESSES_VERSION:
        return AddressIndex(table.fragments, table.fragment_rows, table.deletion_vector)
    return table.row_id_index()


BTREE = EntryIndexBuilder(
    kind="btreeindexdetails",
    details_url="/lance.table.BTreeIndexDetails",
    holds_row_ids=False,
    key_type=btree_key_type,
    read=read_btree,
    read_ids=read_btree_ids,
    write=write_btree,
)
BITMAP = EntryIndexBuilder(
    kind="bitmapindexdetails",
    details_url="/lance.table.BitmapIndexDetails",
    holds_row_ids=True,
    key_type=bitmap_key_type,
    read=read_bitmap,
    read_ids=read_bitmap_ids,
    write=write_bitmap,
)
