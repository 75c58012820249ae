"""Remap B-trees and bitmaps in a compaction: rewrite them with the new addresses of moved rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import numpy as np
from pyroaring import BitMap

from lance_df.errors import CorruptDataError, UnsupportedFeatureError
from lance_df.format.operations import RewrittenIndex
from lance_df.table.maintenance.entry_index import ADDRESSES_VERSION, BITMAP, BTREE
from lance_df.table.maintenance.index_builder import segment_folder
from lance_df.table.maintenance.moved_addresses import MovedAddresses
from lance_df.table.maintenance.new_index import NewIndex
from lance_df.table.maintenance.sorted_entries import Entries

if TYPE_CHECKING:
    from lance_df.format.manifest import IndexMetadata
    from lance_df.format.operations import RewriteGroup
    from lance_df.table.maintenance.entry_index import EntryIndexBuilder
    from lance_df.table.table import Table
    from lance_df.table.writing.uncommitted import UncommittedFiles

_BUILDERS: Final = {builder.kind: builder for builder in (BTREE, BITMAP)}


def remapped_indices(
    table: Table, groups: Sequence[RewriteGroup], files: UncommittedFiles
) -> tuple[RewrittenIndex, ...]:
    """Rewrite the segments that hold addresses of moved rows.

    A segment covers the new fragments of a group if it covered all of the old ones; rows of other groups are
    left out. A segment that cannot be read, or has former addresses of rows, stays unchanged, and covers
    none of the new fragments.

    Parameters
    ----------
    table
        The version that has the old fragments.
    groups
        The rewritten groups; new fragments have their final ids.
    """
    rewritten = []
    fields = table.schema.by_id()
    present = BitMap(table.fragments.ids.tolist())
    for segment in table.indices:
        builder = _BUILDERS.get(segment.kind or "")
        covered = segment.covered_fragments()
        if builder is None or covered is None or not _holds_addresses(table, segment):
            continue
        if segment.uuid in table.segments_of_former_rows:
            continue  # its entries of other fragments have no current addresses either
        if len(segment.fields) != 1 or segment.fields[0] not in fields:
            continue
        whole = [group for group in groups if covered.issuperset(_old_fragments(group))]
        moved = MovedAddresses(table, whole)
        if not moved.old_fragments:
            continue
        staying = (covered & present) - BitMap.union(*map(_old_fragments, groups))
        with suppress(CorruptDataError, UnsupportedFeatureError):
            if builder.key_type(segment_folder(table, segment)) == fields[segment.fields[0]].arrow_type():
                rewritten.append(_remapped(table, builder, segment, staying, moved, files))
    return tuple(rewritten)


def _remapped(
    table: Table,
    builder: EntryIndexBuilder,
    segment: IndexMetadata,
    staying: BitMap,
    moved: MovedAddresses,
    files: UncommittedFiles,
) -> RewrittenIndex:
    folder = segment_folder(table, segment)
    new = NewIndex(table.location, table.manifest, files)
    builder.write(new, builder.key_type(folder), _moved(builder.read(folder), staying, moved))
    return RewrittenIndex(
        old_id=segment.uuid,
        new_id=new.uuid,
        details_type_url=segment.details_type_url,
        details=segment.details,
        index_version=segment.index_version or 0,
        files=new.sizes,
    )


def _moved(entries: Iterator[Entries], staying: BitMap, moved: MovedAddresses) -> Iterator[Entries]:
    fragments = np.asarray(staying.to_array(), np.uint64)
    for each in entries:
        addresses, exists = moved.lookup(each.ids)
        stays = np.isin(each.ids >> np.uint64(32), fragments)
        yield Entries(each.values, np.where(stays, each.ids, addresses)).filter(stays | exists)


def _holds_addresses(table: Table, segment: IndexMetadata) -> bool:
    return not table.uses_stable_row_ids or (
        segment.kind == BTREE.kind and (segment.index_version or 0) >= ADDRESSES_VERSION
    )


def _old_fragments(group: RewriteGroup) -> BitMap:
    return BitMap(fragment.id for fragment in group.old_fragments)
