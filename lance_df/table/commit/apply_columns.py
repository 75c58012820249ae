"""Apply operations that change the columns of existing rows: merge, project, data replacement."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import TYPE_CHECKING

from lance_df.errors import CorruptDataError, InvalidInputError
from lance_df.format.fragment_list import FragmentList
from lance_df.table.commit import lineage
from lance_df.table.commit.index_upkeep import of_same_values, on_fields_of, without_coverage
from lance_df.table.commit.numbering import (
    allocated_field_id,
    check_same_rows,
    existing,
    highest_id,
    without_empty_files,
)
from lance_df.table.commit.state import with_mixed_versions

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lance_df.format.fragments import DataFile, Fragment
    from lance_df.format.manifest import Manifest
    from lance_df.format.operations import DataReplacement, Merge, Project
    from lance_df.format.schema import Field, Schema
    from lance_df.table.commit.state import TableState


def apply_merge(state: TableState, operation: Merge) -> TableState:
    """Replace the schema and all fragments; the new fragments hold the same rows with other columns.

    Raises
    ------
    InvalidInputError
        A fragment is missing, is there twice, or has another number of rows; or a field has an impossible
        type, or another one than in the unchanged files.
    """
    manifest = state.manifest
    counts = Counter(fragment.id for fragment in operation.fragments)
    missing = set(manifest.fragments.ids.tolist()) - counts.keys()
    if missing or max(counts.values(), default=1) > 1:
        raise InvalidInputError(
            f"a merge must list each of the {len(manifest.fragments)} fragments of version "
            f"{manifest.version} exactly once; missing: {sorted(missing)[:10]}"
        )
    _check_types(manifest, operation.schema, operation.fragments)
    next_row_id = manifest.next_row_id
    merged: list[Fragment] = []
    for fragment in sorted(operation.fragments, key=lambda fragment: fragment.id):
        position = manifest.fragments.position(fragment.id)
        if position is not None:
            merged.append(_merged(state, fragment, manifest.fragments[position]))
        elif state.has_stable_row_ids:
            rows, next_row_id = lineage.inserted(
                [fragment], next_row_id=next_row_id, version=state.next_version
            )
            merged += rows
        else:
            merged.append(fragment)
    fragments = FragmentList.of(merged)
    return state.followed_by(
        dataclasses.replace(
            with_mixed_versions(manifest, merged),
            schema=operation.schema,
            fragments=fragments,
            max_fragment_id=highest_id(manifest, merged),
            next_row_id=next_row_id,
            max_allocated_field_id=allocated_field_id(
                manifest, operation.schema, _new_ids(manifest, operation.schema)
            ),
        ),
        of_same_values(state.indices, (manifest.schema, manifest.fragments), (operation.schema, fragments)),
    )


def apply_project(state: TableState, operation: Project) -> TableState:
    """Replace the fields; drop data files without any remaining column, and keep the schema's metadata.

    Raises
    ------
    InvalidInputError
        A field has an impossible type, or another one than in the files.
    """
    manifest = state.manifest
    _check_types(manifest, operation.schema, manifest.fragments)
    schema = dataclasses.replace(operation.schema, metadata=manifest.schema.metadata)
    remaining = operation.schema.by_id().keys()
    dropped = manifest.schema.by_id().keys() - remaining
    fragments = manifest.fragments
    if dropped:
        # fragments whose files all keep a column stay unchanged, and most often these are all of them
        fragments = fragments.edited(
            replaced={
                fragment.id: dataclasses.replace(fragment, files=files)
                for fragment in fragments
                if len(files := tuple(f for f in fragment.files if not remaining.isdisjoint(f.fields)))
                != len(fragment.files)
            }
        )
    return state.followed_by(
        dataclasses.replace(
            manifest,
            schema=schema,
            fragments=fragments,
            max_allocated_field_id=allocated_field_id(
                manifest, operation.schema, _new_ids(manifest, operation.schema)
            ),
        ),
        on_fields_of(state.indices, operation.schema),
    )


def _check_types(manifest: Manifest, schema: Schema, fragments: Iterable[Fragment]) -> None:
    """Raise if readers would refuse the version because of its schema, or misread its files with it."""
    try:
        schema.to_arrow()
    except CorruptDataError as err:
        raise InvalidInputError(f"no reader could open a version with the new schema: {err}") from err
    old = manifest.schema.by_id()
    for field in schema.walk():
        before = old.get(field.id, field).logical_type
        if before != field.logical_type and (stale := _not_rewritten(manifest, field, fragments)) is not None:
            raise InvalidInputError(
                f"field {field.id} ({field.name!r}) gets the type {field.logical_type} instead of {before}, "
                f"but fragment {stale} has no new data file for it; write the field in every fragment, or "
                "give it a new id"
            )


def _not_rewritten(manifest: Manifest, field: Field, fragments: Iterable[Fragment]) -> int | None:
    """Return the id of an existing fragment without a new file for a field, or None."""
    ids = {part.id for part in field.walk()}
    for fragment in fragments:
        position = manifest.fragments.position(fragment.id)
        old = () if position is None else manifest.fragments[position].files
        unchanged = {(file.path, file.base_id) for file in old}
        are_new = [
            (file.path, file.base_id) not in unchanged
            for file in fragment.files
            if not ids.isdisjoint(file.fields)
        ]
        if position is not None and not (are_new and all(are_new)):
            return fragment.id
    return None


def apply_data_replacement(state: TableState, operation: DataReplacement) -> TableState:
    """Replace data files, or add files for columns that were null so far.

    Raises
    ------
    InvalidInputError
        The fragment does not exist, or the columns cannot be removed from its files.
    """
    manifest = state.manifest
    replaced: dict[int, Fragment] = {}
    indices = state.indices
    for fragment_id, file in operation.replacements:
        fragment = replaced.get(fragment_id) or existing(manifest, fragment_id)
        changed = without_empty_files(dataclasses.replace(fragment, files=_with_file(fragment, file)))
        if state.has_stable_row_ids:
            changed = lineage.updated_whole(changed, version=state.next_version)
        replaced[fragment_id] = changed
        indices = without_coverage(indices, fields=file.fields, fragment_ids=(fragment_id,))
    fragments = manifest.fragments.edited(replaced=replaced)
    flagged = with_mixed_versions(manifest, replaced.values())
    return state.followed_by(dataclasses.replace(flagged, fragments=fragments), indices)


def _merged(state: TableState, fragment: Fragment, old: Fragment) -> Fragment:
    check_same_rows(fragment, old)
    merged = without_empty_files(fragment)
    if state.has_stable_row_ids:
        merged = lineage.carried(merged, old)
        if merged.files != old.files:
            merged = lineage.updated_whole(merged, version=state.next_version)
    return merged


def _with_file(fragment: Fragment, new: DataFile) -> tuple[DataFile, ...]:
    """Return the files of a fragment with a new one, and without its columns in the others."""
    same = (new.fields, new.major_version, new.minor_version)
    for position, file in enumerate(fragment.files):
        if (file.fields, file.major_version, file.minor_version) == same:
            return (*fragment.files[:position], new, *fragment.files[position + 1 :])
    return (*(file.without_fields(set(new.fields)) for file in fragment.files), new)


def _new_ids(manifest: Manifest, schema: Schema) -> set[int]:
    return schema.by_id().keys() - manifest.schema.by_id().keys()
