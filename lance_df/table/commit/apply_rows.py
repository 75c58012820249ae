"""Apply operations that change the set of rows: append, overwrite, delete, update."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from lance_df.format.fragment_list import FragmentList
from lance_df.format.operations import UpdateMode
from lance_df.format.roaring import read_roaring
from lance_df.table.commit import lineage
from lance_df.table.commit.index_upkeep import on_fields_of, with_moved_rows, without_coverage
from lance_df.table.commit.numbering import (
    allocated_field_id,
    check_same_rows,
    existing,
    highest_id,
    numbered,
    without_empty_files,
)
from lance_df.table.commit.state import with_mixed_versions

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyroaring import BitMap

    from lance_df.format.fragments import Fragment
    from lance_df.format.manifest import Manifest
    from lance_df.format.operations import Append, Delete, Overwrite, Update
    from lance_df.table.commit.state import TableState


def apply_append(state: TableState, operation: Append) -> TableState:
    """Append the fragments."""
    return state.followed_by(_with_new_rows(state, state.manifest, operation.fragments), state.indices)


def apply_overwrite(state: TableState, operation: Overwrite, *, data_format: str | None) -> TableState:
    """Replace schema and fragments, and drop all indices; ids are not used again.

    Raises
    ------
    RetryableConflictError
        A field id was used before, in a table that never uses one twice.
    """
    manifest = state.manifest
    emptied = dataclasses.replace(
        manifest,
        schema=operation.schema,
        fragments=FragmentList.of(()),
        data_format=data_format or manifest.data_format,
        config={**manifest.config, **operation.config_upsert_values},
        base_paths=(*manifest.base_paths, *operation.initial_bases),
        max_allocated_field_id=allocated_field_id(manifest, operation.schema, operation.schema.by_id()),
    )
    return state.followed_by(_with_new_rows(state, emptied, operation.fragments), ())


def apply_delete(state: TableState, operation: Delete) -> TableState:
    """Set the new deletion files of fragments, and remove fragments without any row."""
    manifest = state.manifest
    fragments = manifest.fragments.edited(
        replaced=_changed(state, operation.updated_fragments),
        removed=_known(manifest, operation.deleted_fragment_ids),
    )
    return state.followed_by(
        dataclasses.replace(manifest, fragments=fragments), on_fields_of(state.indices, manifest.schema)
    )


def apply_update(state: TableState, operation: Update) -> TableState:
    """Replace rows by rows in new fragments, or columns of rows by columns in new files."""
    manifest = state.manifest
    changed = _changed(state, operation.updated_fragments)
    if operation.mode is UpdateMode.REWRITE_COLUMNS and state.has_stable_row_ids:
        changed = {
            fragment_id: lineage.updated_in_place(
                fragment,
                existing(manifest, fragment_id),
                version=state.next_version,
                offsets=_updated_offsets(operation, fragment_id),
            )
            for fragment_id, fragment in changed.items()
        }
    new = numbered(manifest, operation.new_fragments)
    next_row_id = manifest.next_row_id
    indices = without_coverage(state.indices, fields=operation.fields_modified, fragment_ids=changed)
    if state.has_stable_row_ids:
        touched = [*changed, *operation.removed_fragment_ids]
        sources = [existing(manifest, fragment_id) for fragment_id in touched]
        assigned = operation.fields_for_preserving_frag_bitmap
        # an operation that names no fields may have assigned any of them
        if operation.mode is UpdateMode.REWRITE_ROWS and assigned:
            moved = [fragment.id for fragment in new if lineage.has_all_row_ids(fragment)]
            indices = with_moved_rows(indices, manifest.schema, fields=assigned, sources=touched, moved=moved)
        new, next_row_id = lineage.upserted(
            new, sources=sources, next_row_id=next_row_id, version=state.next_version
        )
    else:
        new = [lineage.without_lineage(fragment) for fragment in new]
    fragments = manifest.fragments.edited(
        replaced=changed, removed=_known(manifest, operation.removed_fragment_ids), added=new
    )
    return state.followed_by(
        dataclasses.replace(
            with_mixed_versions(manifest, [*changed.values(), *new]),
            fragments=fragments,
            max_fragment_id=highest_id(manifest, new),
            next_row_id=next_row_id,
        ),
        on_fields_of(indices, manifest.schema),
    )


def _with_new_rows(state: TableState, manifest: Manifest, fragments: Sequence[Fragment]) -> Manifest:
    added = numbered(manifest, fragments)
    next_row_id = manifest.next_row_id
    if state.has_stable_row_ids:
        added, next_row_id = lineage.inserted(added, next_row_id=next_row_id, version=state.next_version)
    else:
        added = [lineage.without_lineage(fragment) for fragment in added]
    return dataclasses.replace(
        with_mixed_versions(manifest, added),
        fragments=manifest.fragments.edited(added=added),
        max_fragment_id=highest_id(manifest, added),
        next_row_id=next_row_id,
    )


def _changed(state: TableState, fragments: Iterable[Fragment]) -> dict[int, Fragment]:
    """Return the changed fragments by id, with their old row ids."""
    changed = {}
    for fragment in fragments:
        old = existing(state.manifest, fragment.id)
        check_same_rows(fragment, old)
        complete = lineage.carried(fragment, old) if state.has_stable_row_ids else fragment
        changed[fragment.id] = without_empty_files(complete)
    return changed


def _known(manifest: Manifest, fragment_ids: Iterable[int]) -> list[int]:
    return [existing(manifest, fragment_id).id for fragment_id in fragment_ids]


def _updated_offsets(operation: Update, fragment_id: int) -> BitMap | None:
    data = operation.updated_offsets.get(fragment_id)
    return None if data is None else read_roaring(data, source=f"the updated rows of fragment {fragment_id}")
