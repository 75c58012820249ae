"""Apply operations that keep all rows: rewrite, indices, reserved ids, restore."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from lance_df.errors import InvalidInputError
from lance_df.format.feature_flags import FeatureFlag
from lance_df.format.fragments import MAX_FRAGMENT_ID
from lance_df.format.operations import RewriteGroup
from lance_df.table.commit import lineage
from lance_df.table.commit.index_upkeep import after_rewrite, with_entries
from lance_df.table.commit.numbering import existing, highest_id, numbered
from lance_df.table.commit.state import with_mixed_versions

if TYPE_CHECKING:
    from lance_df.format.fragments import Fragment
    from lance_df.format.manifest import Manifest
    from lance_df.format.operations import CreateIndex, ReserveFragments, Rewrite
    from lance_df.table.commit.state import TableState

_FLAGS_AFTER_RESTORE = FeatureFlag.NO_TRANSACTION_FILE | FeatureFlag.NON_REUSABLE_FIELD_IDS


def apply_create_index(state: TableState, operation: CreateIndex) -> TableState:
    """Remove and add index entries."""
    indices = with_entries(state.indices, operation.new_indices, operation.removed_indices)
    return state.followed_by(state.manifest, indices)


def apply_reserve(state: TableState, operation: ReserveFragments) -> TableState:
    """Reserve fragment ids: the highest ones up to the new `max_fragment_id`."""
    highest = (state.manifest.max_fragment_id or 0) + operation.num_fragments
    if operation.num_fragments < 0 or highest > MAX_FRAGMENT_ID:
        raise InvalidInputError(f"cannot reserve {operation.num_fragments} fragment ids")
    return state.followed_by(dataclasses.replace(state.manifest, max_fragment_id=highest), state.indices)


def apply_rewrite(state: TableState, operation: Rewrite) -> TableState:
    """Replace the fragments of each group by new ones that hold the same rows.

    Raises
    ------
    InvalidInputError
        A fragment does not exist, is in two groups, or its new id is in use; or rows would lose their ids.
    """
    manifest = state.manifest
    groups = _with_ids(manifest, operation)
    old = [existing(manifest, fragment.id).id for group in groups for fragment in group.old_fragments]
    new = [fragment for group in groups for fragment in group.new_fragments]
    remaining = set(manifest.fragments.ids.tolist()) - set(old)
    new_ids = {fragment.id for fragment in new}
    if len(set(old)) != len(old) or len(new_ids) != len(new) or not remaining.isdisjoint(new_ids):
        raise InvalidInputError(
            "a rewrite lists a fragment twice, or gives a new fragment an id that is already in use"
        )
    if state.has_stable_row_ids:
        for fragment in new:
            lineage.row_ids_in(fragment)
    fragments = manifest.fragments.edited(removed=old, added=new)
    return state.followed_by(
        dataclasses.replace(
            with_mixed_versions(manifest, new),
            fragments=fragments,
            max_fragment_id=highest_id(manifest, new),
        ),
        after_rewrite(state.indices, operation, groups, stable=state.has_stable_row_ids),
    )


def apply_restore(state: TableState, restored: TableState) -> TableState:
    """Return to an older version, but keep the current values of all counters."""
    now, then = state.manifest, restored.manifest
    counters: dict[str, int] = {"next_row_id": max(now.next_row_id, then.next_row_id)}
    for name in ("max_fragment_id", "max_allocated_field_id"):
        values = [value for each in (now, then) if (value := getattr(each, name)) is not None]
        if values:
            counters[name] = max(values)
    # the folder is the current one, and with it the branch and the format of transactions
    manifest = dataclasses.replace(
        then,
        branch=now.branch,
        writer_feature_flags=then.writer_feature_flags | now.writer_feature_flags & _FLAGS_AFTER_RESTORE,
        **counters,  # type: ignore[arg-type]
    )
    return state.followed_by(manifest, restored.indices)


def _with_ids(manifest: Manifest, operation: Rewrite) -> list[RewriteGroup]:
    """Number the new fragments that have no reserved id; 0 is never a reserved one."""
    unnumbered = [
        fragment for group in operation.groups for fragment in group.new_fragments if not fragment.id
    ]
    ids = iter(numbered(manifest, unnumbered))

    def with_id(fragment: Fragment) -> Fragment:
        return fragment if fragment.id else next(ids)

    return [
        RewriteGroup(group.old_fragments, tuple(map(with_id, group.new_fragments)))
        for group in operation.groups
    ]
