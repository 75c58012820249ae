"""Decide whether a change that was computed from an older version may be committed on top of newer ones.

The rules are the table :data:`RULES`. A pair that is not in it conflicts, and so does a version whose
operation is not known. If a pair depends on what exactly the two operations touch, the entry is a function.
Deletions of rows of the same fragment are allowed here: :mod:`lance_df.table.commit.rebase` unites them, or
finds that both deleted the same rows. Spec: table format, chapter 7.4, measured against pylance 14.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pyroaring import BitMap

from lance_df.errors import IncompatibleConflictError, RetryableConflictError
from lance_df.format.operations import (
    Append,
    CreateIndex,
    DataReplacement,
    Delete,
    MapUpdate,
    Merge,
    Operation,
    Overwrite,
    Project,
    ReserveFragments,
    Restore,
    Rewrite,
    Update,
    UpdateBases,
    UpdateConfig,
    UpdateMode,
)
from lance_df.table.commit.inserted_keys import may_repeat_keys

if TYPE_CHECKING:
    from lance_df.format.fragments import DataFile, Fragment
    from lance_df.format.schema import Schema


class Rule(Enum):
    """What to do when the other operation was committed first."""

    COMPATIBLE = auto()
    RETRY = auto()
    GIVE_UP = auto()


Decision: TypeAlias = Rule | Callable[[Any, Any], Rule]
"""A rule, or a function that chooses one from my operation and theirs."""

_OK, _RETRY, _GIVE_UP = Rule.COMPATIBLE, Rule.RETRY, Rule.GIVE_UP


def touched_fragments(operation: Operation) -> set[int]:
    """Return the ids of the existing fragments that an operation changes or removes."""
    match operation:
        case Delete(updated, removed):
            return {*(fragment.id for fragment in updated), *removed}
        case Update(removed, updated):
            return {*(fragment.id for fragment in updated), *removed}
        case Rewrite(groups):
            return {fragment.id for group in groups for fragment in group.old_fragments}
        case DataReplacement(replacements):
            return {fragment_id for fragment_id, _ in replacements}
        case _:
            return set()


def _same_fragments(mine: Operation, theirs: Operation) -> Rule:
    return _OK if touched_fragments(mine).isdisjoint(touched_fragments(theirs)) else _RETRY


def _replaced_in_removed(mine: DataReplacement, theirs: Delete) -> Rule:
    """Conflict only if a fragment is gone: deleted rows stay in the data files."""
    return _OK if touched_fragments(mine).isdisjoint(theirs.deleted_fragment_ids) else _GIVE_UP


def _replaced_in_updated(mine: DataReplacement, theirs: Update) -> Rule:
    """Conflict in the same fragments: moved rows took along the values that are to be replaced."""
    if theirs.mode is UpdateMode.REWRITE_COLUMNS and not theirs.removed_fragment_ids:
        fields = {field for _, file in mine.replacements for field in file.fields}
        if fields.isdisjoint(theirs.fields_modified):
            return _OK
    return _same_fragments(mine, theirs)


def _replaced_both(mine: DataReplacement, theirs: DataReplacement) -> Rule:
    def cells(operation: DataReplacement) -> set[tuple[int, int]]:
        return {(id_, field) for id_, file in operation.replacements for field in file.fields}

    return _OK if cells(mine).isdisjoint(cells(theirs)) else _RETRY


def _index_of_replaced(mine: CreateIndex, theirs: DataReplacement) -> Rule:
    indexed = {field for index in mine.new_indices for field in index.fields}
    replaced = {field for _, file in theirs.replacements for field in file.fields}
    return _OK if indexed.isdisjoint(replaced) else _RETRY


def _index_of_rewritten(mine: CreateIndex, theirs: Rewrite) -> Rule:
    """Conflict if the new index would hold addresses of rows that moved."""
    rewritten = BitMap(touched_fragments(theirs))
    covered = [index.covered_fragments() for index in mine.new_indices]
    return _OK if all(each is not None and each.isdisjoint(rewritten) for each in covered) else _RETRY


def _same_index(mine: CreateIndex, theirs: CreateIndex) -> Rule:
    def names(operation: CreateIndex) -> set[str]:
        return {index.name for index in (*operation.new_indices, *operation.removed_indices)}

    return _OK if names(mine).isdisjoint(names(theirs)) else _RETRY


def _index_on_lost_field(mine: CreateIndex, theirs: Merge | Project) -> Rule:
    fields = {field for index in mine.new_indices for field in index.fields}
    return _OK if fields <= theirs.schema.by_id().keys() else _RETRY


def _rows_under_new_schema(mine: Append | Update, theirs: Merge | Project) -> Rule:
    """Conflict if my rows lack a required column, or may hold nulls that are forbidden now.

    A merge that casts a column moves its values to another field, for which my rows have none.
    """
    if not theirs.preserves_nullability:
        return _RETRY
    fields = theirs.schema.by_id()
    needed = {id_ for id_, field in fields.items() if field.is_leaf and not field.nullable}
    for fragment in _new_fragments(mine):
        written = {id_ for file in fragment.files for id_ in file.fields if id_ >= 0}
        if not needed <= written or (isinstance(theirs, Merge) and not written <= fields.keys()):
            return _RETRY
        if written.isdisjoint(fields):
            return _RETRY  # the fragment would have no file left
    return _OK


def _nulls_under_narrowed_schema(mine: Project, theirs: Append | Update | DataReplacement) -> Rule:
    """Conflict if new values may be null where I forbid nulls, or new rows have no remaining column."""
    fields = mine.schema.by_id()
    for fragment in () if isinstance(theirs, DataReplacement) else _new_fragments(theirs):
        if all(fields.keys().isdisjoint(file.fields) for file in fragment.files):
            return _RETRY
    return _OK if mine.preserves_nullability else _RETRY


def _new_fragments(operation: Append | Update) -> Sequence[Fragment]:
    return operation.fragments if isinstance(operation, Append) else operation.new_fragments


def _same_new_keys(mine: Update, theirs: Append | Update) -> Rule:
    return _RETRY if may_repeat_keys(mine, theirs) else _OK


def _replaced_keys(mine: Update, theirs: DataReplacement) -> Rule:
    replaced = {field for _, file in theirs.replacements for field in file.fields}
    if mine.inserted_keys is not None and not replaced.isdisjoint(mine.inserted_keys.field_ids):
        return _RETRY
    return _same_fragments(mine, theirs)


def _projected_fields(mine: DataReplacement, theirs: Project) -> Rule:
    replaced = {field for _, file in mine.replacements for field in file.fields}
    if not replaced <= theirs.schema.by_id().keys():
        return _GIVE_UP
    return _nulls_under_narrowed_schema(theirs, mine)


def _changed_config(operation: UpdateConfig | Overwrite) -> MapUpdate | None:
    if isinstance(operation, Overwrite):
        return MapUpdate(tuple(operation.config_upsert_values.items()))
    return operation.config


def _same_keys(mine: MapUpdate | None, theirs: MapUpdate | None) -> bool:
    """Whether one of two changes of a map sets a key that the other one sets or deletes."""
    if mine is None or theirs is None:
        return False
    values, others = dict(mine.entries), dict(theirs.entries)
    return any(values[key] is not None or others[key] is not None for key in values.keys() & others.keys())


def _same_config_keys(mine: UpdateConfig | Overwrite, theirs: UpdateConfig | Overwrite) -> Rule:
    return _GIVE_UP if _same_keys(_changed_config(mine), _changed_config(theirs)) else _OK


def _same_metadata(mine: UpdateConfig, theirs: UpdateConfig) -> Rule:
    conflict = (
        _same_keys(mine.config, theirs.config)
        or _same_keys(mine.table_metadata, theirs.table_metadata)
        or (mine.schema_metadata is not None and theirs.schema_metadata is not None)
        or not mine.field_metadata.keys().isdisjoint(theirs.field_metadata)
    )
    return _GIVE_UP if conflict else _OK


def _changes_schema(operation: UpdateConfig) -> bool:
    return operation.schema_metadata is not None or bool(operation.field_metadata)


def _changes_field_metadata(operation: UpdateConfig) -> bool:
    return bool(operation.field_metadata)


def _schema_metadata_replaced(mine: UpdateConfig, theirs: Overwrite | Restore) -> Rule:
    if _changes_schema(mine):
        return _GIVE_UP
    return _same_config_keys(mine, theirs) if isinstance(theirs, Overwrite) else _OK


def _same_bases(mine: UpdateBases, theirs: UpdateBases) -> Rule:
    for one in (*mine.new_bases, *mine.moved_bases):
        for other in theirs.new_bases:
            same_id = one.id != 0 and one.id == other.id
            if same_id or one.path == other.path or (one.name is not None and one.name == other.name):
                return _GIVE_UP
    return _OK


def _files_in_moved_bases(mine: Operation, theirs: UpdateBases) -> Rule:
    """Conflict if my new data files are in a base path that moved: nobody may move them along."""
    moved = {base.id for base in (*theirs.new_bases, *theirs.moved_bases)}
    return _OK if _written_bases(mine).isdisjoint(moved) else _RETRY


def _written_bases(operation: Operation) -> set[int]:
    """Return the ids of the base paths that contain new data files of an operation."""
    return {file.base_id for file in _new_files(operation) if file.base_id is not None}


def _new_files(operation: Operation) -> list[DataFile]:
    match operation:
        case Append(fragments) | Overwrite(fragments) | Update(new_fragments=fragments):
            return [file for fragment in fragments for file in fragment.files]
        case Rewrite(groups):
            return [file for group in groups for fragment in group.new_fragments for file in fragment.files]
        case DataReplacement(replacements):
            return [file for _, file in replacements]
        case _:
            return []


def _swapped(decide: Callable[[Any, Any], Rule]) -> Callable[[Any, Any], Rule]:
    return lambda mine, theirs: decide(theirs, mine)


def _if_mine(holds: Callable[[Any], bool], rule: Rule) -> Callable[[Any, Any], Rule]:
    return lambda mine, _: rule if holds(mine) else _OK


def _if_theirs(holds: Callable[[Any], bool], rule: Rule) -> Callable[[Any, Any], Rule]:
    return lambda _, theirs: rule if holds(theirs) else _OK


_ALL: Final = (
    *(Append, Delete, Update, Overwrite, CreateIndex, Rewrite, Merge, Project, Restore),
    *(UpdateConfig, DataReplacement, UpdateBases, ReserveFragments),
)


def _rules(mine: type, **exceptions: Decision) -> dict[tuple[type, type], Decision]:
    """Return the rules for an operation of mine: all others are compatible, except those given by name."""
    return {(mine, theirs): exceptions.get(theirs.__name__, _OK) for theirs in _ALL}


RULES: Final[Mapping[tuple[type, type], Decision]] = {
    **_rules(
        Append,
        UpdateBases=_files_in_moved_bases,
        Merge=_rows_under_new_schema,
        Project=_rows_under_new_schema,
        Overwrite=_GIVE_UP,
        Restore=_GIVE_UP,
    ),
    # two changes of rows of one fragment are compared by their deletion vectors in the rebase
    **_rules(
        Delete,
        Rewrite=_same_fragments,
        DataReplacement=_same_fragments,
        Merge=_RETRY,
        Overwrite=_GIVE_UP,
        Restore=_GIVE_UP,
    ),
    **_rules(
        Update,
        Append=_same_new_keys,
        Update=_same_new_keys,
        UpdateBases=_files_in_moved_bases,
        Rewrite=_same_fragments,
        DataReplacement=_replaced_keys,
        Merge=_RETRY,
        Project=_rows_under_new_schema,
        Overwrite=_GIVE_UP,
        Restore=_GIVE_UP,
    ),
    **_rules(Overwrite, Overwrite=_RETRY, UpdateConfig=_same_config_keys, UpdateBases=_files_in_moved_bases),
    **_rules(
        CreateIndex,
        CreateIndex=_same_index,
        Rewrite=_index_of_rewritten,
        DataReplacement=_index_of_replaced,
        Merge=_index_on_lost_field,
        Project=_index_on_lost_field,
        Overwrite=_GIVE_UP,
        Restore=_GIVE_UP,
    ),
    **_rules(
        Rewrite,
        UpdateBases=_files_in_moved_bases,
        Delete=_same_fragments,
        Update=_same_fragments,
        Rewrite=_same_fragments,
        DataReplacement=_same_fragments,
        CreateIndex=_swapped(_index_of_rewritten),
        Merge=_RETRY,
        Overwrite=_GIVE_UP,
        Restore=_GIVE_UP,
    ),
    **_rules(
        Merge,
        Append=_RETRY,
        Delete=_RETRY,
        Update=_RETRY,
        Rewrite=_RETRY,
        Merge=_RETRY,
        DataReplacement=_RETRY,
        UpdateConfig=_if_theirs(_changes_schema, _RETRY),
        Project=_GIVE_UP,
        Overwrite=_GIVE_UP,
        Restore=_GIVE_UP,
    ),
    **_rules(
        Project,
        Append=_nulls_under_narrowed_schema,
        Update=_nulls_under_narrowed_schema,
        DataReplacement=_nulls_under_narrowed_schema,
        Merge=_RETRY,
        Project=_RETRY,
        UpdateConfig=_if_theirs(_changes_field_metadata, _RETRY),
        Overwrite=_GIVE_UP,
        Restore=_GIVE_UP,
    ),
    **_rules(Restore, UpdateConfig=_if_theirs(_changes_schema, _GIVE_UP)),
    **_rules(
        UpdateConfig,
        UpdateConfig=_same_metadata,
        Merge=_if_mine(_changes_schema, _RETRY),
        Overwrite=_schema_metadata_replaced,
        Restore=_schema_metadata_replaced,
    ),
    **_rules(
        DataReplacement,
        UpdateBases=_files_in_moved_bases,
        Delete=_replaced_in_removed,
        Update=_replaced_in_updated,
        Rewrite=_same_fragments,
        DataReplacement=_replaced_both,
        CreateIndex=_swapped(_index_of_replaced),
        Merge=_RETRY,
        Project=_projected_fields,
        Overwrite=_GIVE_UP,
        Restore=_GIVE_UP,
    ),
    **_rules(
        UpdateBases,
        UpdateBases=_same_bases,
        **dict.fromkeys(
            ("Append", "Update", "Overwrite", "Rewrite", "DataReplacement"), _swapped(_files_in_moved_bases)
        ),
    ),
    **_rules(ReserveFragments, Overwrite=_GIVE_UP, Restore=_GIVE_UP),
}
"""From (my operation, the one that was committed first) to the decision."""


def decide(mine: Operation, theirs: Operation | None) -> Rule:
    """Return the rule for my operation and one that was committed first (None if that is not known)."""
    decision = RULES.get((type(mine), type(theirs)), _GIVE_UP)
    return decision if isinstance(decision, Rule) else decision(mine, theirs)


def check_conflict(
    mine: Operation, theirs: Operation | None, *, version: int, table: str, stable_row_ids: bool = False
) -> Operation:
    """Check one version that was committed since my operation was computed, and return what it did.

    Parameters
    ----------
    mine, theirs
        ``theirs`` is None if the version does not record its operation.
    version, table
        Version and table of the other commit, for messages.
    stable_row_ids
        Whether rows keep their ids when they move, so that indices by row id stay valid.

    Raises
    ------
    RetryableConflictError
        The same change may succeed if it is computed again from the newest version.
    IncompatibleConflictError
        The other change makes mine meaningless, or is unknown.
    """
    rule = decide(mine, theirs)
    if stable_row_ids and {type(mine), type(theirs)} == {CreateIndex, Rewrite}:
        rule = _OK
    if rule is _OK and theirs is not None:
        return theirs
    what = f"commit conflict for version {version}: {_name(theirs)} was committed before this {_name(mine)}"
    if rule is _RETRY:
        raise RetryableConflictError(f"{table}: Retryable {what}; run it again on the newest version")
    raise IncompatibleConflictError(
        f"{table}: Incompatible {what} and cannot be combined with it; check the table first"
    )


def dropped_fields(
    mine: Operation, schema: Schema, dropped: AbstractSet[int], *, version: int, table: str
) -> frozenset[int]:
    """Return the fields in new files of my operation that were dropped since it was computed.

    Parameters
    ----------
    schema, version
        Of the next version that was committed since then.
    dropped
        The fields that were dropped in the versions before it.

    Raises
    ------
    RetryableConflictError
        A new column reuses the id of a dropped one, so it would get my values of the dropped column.
    """
    if isinstance(mine, Overwrite):
        return frozenset()  # an overwrite brings its own schema
    fields = schema.by_id()
    for field_id in dropped & fields.keys():
        raise RetryableConflictError(
            f"{table}: Retryable commit conflict for version {version}: column {fields[field_id].name!r} "
            f"replaces a dropped column for which this {_name(mine)} has values; run it again on the "
            "newest version"
        )
    written = {id_ for file in _new_files(mine) for id_ in file.fields if id_ >= 0}
    return frozenset(dropped | (written - fields.keys()))


def _name(operation: Operation | None) -> str:
    return "an unknown operation" if operation is None else type(operation).__name__.lower()
