"""Find the indices of a table that can answer for a column, and open them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from lance_df.cache import CacheKind
from lance_df.errors import UnsupportedFeatureError
from lance_df.expr.literals import storage_type
from lance_df.expr.nodes import Predicate
from lance_df.format.index_kinds import holds_row_ids
from lance_df.records import dataclass
from lance_df.table.indices.answer import Answer, FragmentIds, ScalarIndex
from lance_df.table.indices.bitmap import Bitmap
from lance_df.table.indices.bloom_filter import BloomFilter
from lance_df.table.indices.btree import BTree
from lance_df.table.indices.index_file import IndexFolder
from lance_df.table.indices.zone_map import ZoneMap
from lance_df.table.metadata.base_paths import BasePaths

if TYPE_CHECKING:
    from collections.abc import Callable

    from lance_df.cache import Entries
    from lance_df.expr.bounds import ZoneBounds
    from lance_df.format.manifest import IndexMetadata
    from lance_df.format.schema import Field
    from lance_df.storage import Location
    from lance_df.table.table import Table

# in the order in which they are asked: first those that name single rows
_OPENERS: dict[str, Callable[[IndexFolder], ScalarIndex]] = {
    "btreeindexdetails": BTree,
    "bitmapindexdetails": Bitmap,
    "zonemapindexdetails": lambda folder: ZoneMap(folder.open("zonemap.lance")),
    "bloomfilterindexdetails": lambda folder: BloomFilter(folder.open("bloomfilter.lance")),
}
# entries without details are of old releases that had no other kinds of scalar index
_FILES_OF_OLD_KINDS = {
    "page_lookup.lance": "btreeindexdetails",
    "bitmap_page_lookup.lance": "bitmapindexdetails",
}


@dataclass(frozen=True, slots=True)
class Segment:
    """One entry of an index that covers some of the fragments in question.

    ``holds_row_ids`` says that the index stores stable row ids rather than addresses; ``opened`` caches the
    open indices of the table.
    """

    entry: IndexMetadata
    kind: str
    location: Location
    fragment_ids: FragmentIds
    holds_row_ids: bool
    opened: Entries[ScalarIndex] = field(repr=False, compare=False)

    def search(self, predicate: Predicate, data_type: pa.DataType) -> Answer | None:
        """Search the segment; see `ScalarIndex.search`. ``data_type`` is that of the column and the literals.

        Return ``None`` also if the index holds values of another type, or is from a later release.

        Raises
        ------
        CorruptDataError
            A file is missing or damaged.
        """
        try:
            index = self._open()
            if index.key_type is not None and storage_type(index.key_type) != storage_type(data_type):
                return None
            return index.search(predicate, self.fragment_ids)
        except UnsupportedFeatureError:
            return None

    def zone_bounds(self) -> ZoneBounds | None:
        """Return the bounds of the fragments' zones, if this is a zone map. Raises as :meth:`search`."""
        index = self._open() if self.kind == "zonemapindexdetails" else None
        return index.bounds_of(self.fragment_ids) if isinstance(index, ZoneMap) else None

    def without_zones(self) -> FragmentIds:
        """Return the covered fragments that have no zones, if this is a zone map."""
        index = self._open() if self.kind == "zonemapindexdetails" else None
        return index.without_zones(self.fragment_ids) if isinstance(index, ZoneMap) else np.empty(0, np.int64)

    def _open(self) -> ScalarIndex:
        # the store is part of the key because the same path may differ between endpoints; the open index
        # keeps its store alive, so the id is not used again
        key = (id(self.location.fs), self.location.path)
        if (known := self.opened.find(key)) is not None:
            return known
        folder = IndexFolder(self.location, dict(self.entry.files))
        return self.opened.put(key, _OPENERS[self.kind](folder), folder.footprint)


def segments_by_index(table: Table, field: Field, fragment_ids: FragmentIds) -> dict[str, list[Segment]]:
    """Return, by index name, the usable segments that index exactly this field.

    The segments of an index answer together. Indices of unknown kind or coverage are left out, and coverage
    is limited to ``fragment_ids``.

    Raises
    ------
    CorruptDataError
        The coverage of an index is damaged, or its base path does not exist.
    """
    opened: Entries[ScalarIndex] = table.shared.cache.entries(CacheKind.INDICES)
    requested = BitMap(fragment_ids.astype(np.uint32))
    paths = BasePaths(table.location, table.manifest.base_paths, source=table.uri)
    segments: dict[str, list[Segment]] = {}
    for entry in table.indices:
        if entry.fields != (field.id,) or (covered := entry.covered_fragments()) is None:
            continue
        covered &= requested
        location = paths.index(entry.uuid, entry.base_id)
        kind = entry.kind or _guess_kind(entry, location)
        if covered and kind in _OPENERS:
            segment = Segment(
                entry=entry,
                kind=kind,
                location=location,
                fragment_ids=np.asarray(covered.to_array(), dtype=np.int64),
                holds_row_ids=table.uses_stable_row_ids and holds_row_ids(kind, entry.index_version),
                opened=opened,
            )
            segments.setdefault(entry.name, []).append(segment)
    return dict(sorted(segments.items(), key=lambda item: list(_OPENERS).index(item[1][0].kind)))


def _guess_kind(entry: IndexMetadata, location: Location) -> str | None:
    names: Iterator[str] = iter(name for name, _ in entry.files)
    if not entry.files:
        names = (name for name in _FILES_OF_OLD_KINDS if (location / name).exists())
    return next((_FILES_OF_OLD_KINDS[name] for name in names if name in _FILES_OF_OLD_KINDS), None)
