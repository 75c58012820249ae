"""Update index entries, and the sets of fragments that they cover, when fragments change.

A set may name fragments that are gone, as ids are never used again: readers intersect it with the existing
fragments. It must never name a fragment whose values the index does not know. Spec: table format, chapters
7.3, 12.4 and 12.5.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pyroaring import BitMap

from lance_df.errors import InvalidInputError
from lance_df.format.fragment_reuse import SYSTEM_PREFIX, covering, moved
from lance_df.format.index_kinds import holds_row_ids

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lance_df.format.fragment_list import FragmentList
    from lance_df.format.fragments import Fragment
    from lance_df.format.manifest import IndexMetadata
    from lance_df.format.operations import Rewrite, RewriteGroup, RewrittenIndex
    from lance_df.format.schema import Schema


def on_fields_of(indices: Iterable[IndexMetadata], schema: Schema) -> tuple[IndexMetadata, ...]:
    """Return the entries whose fields are all in the schema."""
    ids = schema.by_id().keys()
    return tuple(index for index in indices if _is_system(index) or ids >= set(index.fields))


def without_coverage(
    indices: Iterable[IndexMetadata], *, fields: Iterable[int], fragment_ids: Iterable[int]
) -> tuple[IndexMetadata, ...]:
    """Remove fragments from the coverage of the indices on fields whose values changed there."""
    changed, gone = set(fields), BitMap(fragment_ids)
    return tuple(
        index if changed.isdisjoint(index.fields) else covering(index, lambda covered: covered - gone)
        for index in indices
    )


def with_moved_rows(
    indices: Iterable[IndexMetadata],
    schema: Schema,
    *,
    fields: Iterable[int],
    sources: Iterable[int],
    moved: Iterable[int],
) -> tuple[IndexMetadata, ...]:
    """Add fragments of moved rows to the coverage of indices that hold row ids, as pylance does.

    Parameters
    ----------
    fields
        The fields that got new values: indices on these, or on fields above or below them, stay unchanged.
    sources
        The fragments that the rows were in; an index must cover all of them.
    moved
        New fragments; all rows have the row ids that they had before.
    """
    before, after = BitMap(sources), BitMap(moved)
    if not after:
        return tuple(indices)
    parts = _parts(schema)
    changed = _with_parts(fields, parts)

    def extended(covered: BitMap) -> BitMap:
        return covered | after if before <= covered else covered

    return tuple(
        covering(index, extended)
        if holds_row_ids(index.kind, index.index_version)
        and changed.isdisjoint(_with_parts((*index.fields, *index.covering_fields), parts))
        else index
        for index in indices
    )


def of_same_values(
    indices: Iterable[IndexMetadata],
    before: tuple[Schema, FragmentList],
    after: tuple[Schema, FragmentList],
) -> tuple[IndexMetadata, ...]:
    """Return the entries whose columns remain, without coverage of fragments whose values changed.

    An entry is removed if one of its fields is gone or has another type. It loses the coverage of a fragment
    whose values of such a field are in another file than before.

    Parameters
    ----------
    before, after
        The schema, and fragments of the same rows.
    """
    (old_schema, old), (schema, new) = before, after
    types = {field.id: field.arrow_type() for field in schema.walk()}
    same = {field.id for field in old_schema.walk() if types.get(field.id) == field.arrow_type()}
    entries = [
        index for index in on_fields_of(indices, schema) if _is_system(index) or same >= set(index.fields)
    ]
    if not any(index.fields for index in entries):
        return tuple(entries)
    moved = _moved_columns(old, new)
    parts = _parts(schema)
    for position, index in enumerate(entries):
        ids = _with_parts(index.fields, parts)
        gone = [fragment_id for fragment_id, fields in moved.items() if not ids.isdisjoint(fields)]
        (entries[position],) = without_coverage([index], fields=index.fields, fragment_ids=gone)
    return tuple(entries)


def _parts(schema: Schema) -> dict[int, set[int]]:
    """Return, by field id, the ids of the field itself and of all fields below it."""
    return {field.id: {each.id for each in field.walk()} for field in schema.walk()}


def _with_parts(fields: Iterable[int], parts: Mapping[int, set[int]]) -> set[int]:
    return set[int]().union(*(parts.get(field_id, ()) for field_id in fields))


def _moved_columns(old: FragmentList, new: FragmentList) -> dict[int, set[int]]:
    """Return, by fragment id, the ids of fields whose values are now in another file, or in none."""
    moved: dict[int, set[int]] = {}
    for fragment in new:
        position = old.position(fragment.id)
        if position is not None and (before := old[position]).files != fragment.files:
            then, now = _files_of_fields(before), _files_of_fields(fragment)
            moved[fragment.id] = {
                field_id for field_id in then.keys() | now.keys() if then.get(field_id) != now.get(field_id)
            }
    return moved


def _files_of_fields(fragment: Fragment) -> dict[int, tuple[int | None, str]]:
    return {
        field_id: (file.base_id, file.path)
        for file in fragment.files
        for field_id in file.fields
        if field_id >= 0
    }


def _is_system(index: IndexMetadata) -> bool:
    return index.name.startswith(SYSTEM_PREFIX)


def with_entries(
    indices: Iterable[IndexMetadata], new: Sequence[IndexMetadata], removed: Sequence[IndexMetadata]
) -> tuple[IndexMetadata, ...]:
    """Remove and add entries. Entries with the same name are segments of one index."""
    gone = {index.uuid for index in (*removed, *new)}
    return (*(index for index in indices if index.uuid not in gone), *new)


def after_rewrite(
    indices: Sequence[IndexMetadata], operation: Rewrite, groups: Sequence[RewriteGroup], *, stable: bool
) -> tuple[IndexMetadata, ...]:
    """Return the entries after a compaction.

    Parameters
    ----------
    groups
        The groups of the operation, with the assigned ids of new fragments.
    stable
        Whether rows kept their ids.

    Raises
    ------
    InvalidInputError
        The operation names an index that does not exist, or one twice.
    """
    rebuilt = {index.old_id: index for index in operation.rewritten_indices}
    missing = rebuilt.keys() - {index.uuid for index in indices}
    if missing or len(rebuilt) != len(operation.rewritten_indices):
        name = next(iter(missing), "one is listed twice")
        raise InvalidInputError(f"a rewrite must list existing indices, each exactly once; invalid: {name}")
    return tuple(_rewritten(index, rebuilt.get(index.uuid), groups, stable=stable) for index in indices)


def _rewritten(
    index: IndexMetadata, rebuilt: RewrittenIndex | None, groups: Sequence[RewriteGroup], *, stable: bool
) -> IndexMetadata:
    if rebuilt is not None:
        after = covering(index, lambda covered: _moved(covered, groups, keep=True))
        return dataclasses.replace(
            after,
            uuid=rebuilt.new_id,
            details_type_url=rebuilt.details_type_url or index.details_type_url,
            details=rebuilt.details if rebuilt.details_type_url else index.details,
            index_version=rebuilt.index_version,
            files=rebuilt.files,
            base_id=None,
        )
    if not stable:
        # it holds addresses in fragments that are gone, which no reader asks for
        return index
    keep = holds_row_ids(index.kind, index.index_version)
    return covering(index, lambda covered: _moved(covered, groups, keep=keep))


def _moved(covered: BitMap, groups: Sequence[RewriteGroup], *, keep: bool) -> BitMap:
    """Replace old fragments by new ones; see :func:`lance_df.format.fragment_reuse.moved`."""
    ids = ((_ids(group.old_fragments), _ids(group.new_fragments)) for group in groups)
    return moved(covered, ids, keep=keep)


def _ids(fragments: Iterable[Fragment]) -> BitMap:
    return BitMap(fragment.id for fragment in fragments)
