"""Fix what old releases left out or got wrong, at the first commit of this package.

Readers trust row counts and indices of our versions, so these must not repeat the old mistakes. Spec: table
format, chapters 8 and 16.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from lance_df.format.fragment_reuse import FRAGMENT_REUSE
from lance_df.format.operations import Delete, Merge, Operation, Update
from lance_df.table.commit.state import TableState
from lance_df.table.parallel import map_reads

if TYPE_CHECKING:
    from lance_df.format.fragment_list import FragmentList
    from lance_df.format.fragments import Fragment
    from lance_df.format.manifest import IndexMetadata
    from lance_df.table.table import Table


def upgraded(table: Table) -> TableState:
    """Return a version in the state that the next one starts from; unchanged if nothing is wrong.

    Raises
    ------
    CorruptDataError, StorageError
        Files whose row counts are needed cannot be read.
    """
    manifest, fragments = table.manifest, _counted(table)
    data_format = manifest.file_version
    if fragments is not manifest.fragments or data_format != manifest.data_format:
        manifest = dataclasses.replace(manifest, fragments=fragments, data_format=data_format)
    return TableState(manifest, _covering(table))


def recounted(operation: Operation, fragments: FragmentList) -> Operation:
    """Return an operation that was computed from wrong counts, with the corrected ones."""

    def right(fragment: Fragment) -> Fragment:
        position = fragments.position(fragment.id)
        if position is None:
            return fragment
        known = fragments[position]
        file = fragment.deletion_file
        if file is not None and known.deletion_file is not None and file.id == known.deletion_file.id:
            file = known.deletion_file
        return dataclasses.replace(fragment, physical_rows=known.physical_rows, deletion_file=file)

    match operation:
        case Delete() | Update():
            updated = tuple(map(right, operation.updated_fragments))
            return dataclasses.replace(operation, updated_fragments=updated)
        case Merge():
            return dataclasses.replace(operation, fragments=tuple(map(right, operation.fragments)))
        case _:
            return operation


def _counted(table: Table) -> FragmentList:
    """Fill in row counts that are missing, or come from releases that did not record their name."""
    fragments = table.fragments
    is_trusted = table.manifest.writer_version is not None
    if is_trusted and fragments.is_counted:
        return fragments

    def counted(fragment: Fragment) -> Fragment:
        deleted = table.deletion_vector(fragment)
        file = fragment.deletion_file
        if file is not None and deleted is not None:
            file = dataclasses.replace(file, num_deleted_rows=len(deleted))
        return dataclasses.replace(fragment, physical_rows=table.fragment_rows(fragment), deletion_file=file)

    amiss = [fragments[index] for index in fragments.uncounted()] if is_trusted else list(fragments)
    counted_fragments = map_reads(counted, amiss, where=table.location)
    return fragments.edited(replaced={fragment.id: fragment for fragment in counted_fragments})


def _covering(table: Table) -> tuple[IndexMetadata, ...]:
    indices = table.manifest_file.read_indices()
    if not indices:
        return indices
    if table.manifest.trusts_index_coverage:
        # as in pylance: else the next commit covers new fragments again in which this one changes values
        has_reuse = any(index.name == FRAGMENT_REUSE for index in indices)
        reuse = table.fragment_reuse if has_reuse else None
        return indices if reuse is None else tuple(map(reuse.advanced, indices))
    return tuple(dataclasses.replace(index, fragment_bitmap=None) for index in indices)
