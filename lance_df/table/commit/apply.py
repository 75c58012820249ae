"""Apply operations to manifests: pure functions from one version to the next.

Spec: table format, chapters 4, 6.2 and 7.3. The modules `apply_*` hold one function for each operation.
"""

from __future__ import annotations

from lance_df.errors import InvalidInputError, UnsupportedFeatureError
from lance_df.format.feature_flags import FeatureFlag
from lance_df.format.fragment_list import FragmentList
from lance_df.format.manifest import Manifest
from lance_df.format.operations import (
    Append,
    CreateIndex,
    DataReplacement,
    Delete,
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
)
from lance_df.table.commit.apply_columns import apply_data_replacement, apply_merge, apply_project
from lance_df.table.commit.apply_metadata import apply_update_bases, apply_update_config
from lance_df.table.commit.apply_rows import apply_append, apply_delete, apply_overwrite, apply_update
from lance_df.table.commit.apply_upkeep import (
    apply_create_index,
    apply_reserve,
    apply_restore,
    apply_rewrite,
)
from lance_df.table.commit.state import TableState as TableState


def create(operation: Overwrite, *, data_format: str, stable_row_ids: bool) -> TableState:
    """Return version 1 of a new table."""
    flags = FeatureFlag.STABLE_ROW_IDS if stable_row_ids else 0
    empty = Manifest(
        version=0,
        schema=operation.schema,
        fragments=FragmentList.of(()),
        reader_feature_flags=flags,
        writer_feature_flags=flags,
        data_format=data_format,
    )
    return apply_overwrite(TableState(empty, ()), operation, data_format=data_format)


def apply(  # noqa: C901 - one case for each operation
    state: TableState,
    operation: Operation,
    *,
    data_format: str | None = None,
    restored: TableState | None = None,
) -> TableState:
    """Return the version that follows ``state`` when ``operation`` is committed.

    The commit sets the timestamp, the writer and the positions of sections.

    Parameters
    ----------
    state
        The latest version.
    operation
        Already checked against all versions since the one it was computed from.
    data_format
        The table's new file version, for an overwrite.
    restored
        The version that a `Restore` names.

    Raises
    ------
    InvalidInputError
        The operation contradicts the version: it names fragments, fields or indices that do not exist, or
        changes the number of rows of a fragment. Changes by other commits are conflicts, which are found
        earlier.
    UnsupportedFeatureError
        The operation cannot be applied to an existing table.
    RetryableConflictError
        New field ids were used before, in a table that never uses one twice.
    """
    match operation:
        case Append():
            return apply_append(state, operation)
        case Delete():
            return apply_delete(state, operation)
        case Update():
            return apply_update(state, operation)
        case Overwrite():
            return apply_overwrite(state, operation, data_format=data_format)
        case CreateIndex():
            return apply_create_index(state, operation)
        case Rewrite():
            return apply_rewrite(state, operation)
        case Merge():
            return apply_merge(state, operation)
        case Project():
            return apply_project(state, operation)
        case DataReplacement():
            return apply_data_replacement(state, operation)
        case ReserveFragments():
            return apply_reserve(state, operation)
        case UpdateConfig():
            return apply_update_config(state, operation)
        case UpdateBases():
            return apply_update_bases(state, operation)
        case Restore(version):
            if restored is None:
                raise InvalidInputError(f"cannot restore: the manifest of version {version} was not provided")
            return apply_restore(state, restored)
        case _:
            raise UnsupportedFeatureError(
                f"operation {type(operation).__name__} is not supported by this release"
            )
