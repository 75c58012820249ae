"""What an operation makes of a manifest: pure functions from one version to the next.

Spec: table format, chapters 4, 6.2 and 7.3.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from lance_df.errors import RetryableConflictError, UnsupportedFeatureError
from lance_df.format.feature_flags import FeatureFlag
from lance_df.format.fragments import Fragment, FragmentList
from lance_df.format.manifest import IndexMetadata, Manifest, WriterVersion
from lance_df.format.operations import Append, CreateIndex, Operation, Overwrite
from lance_df.format.row_ids import constant_versions, row_id_range, serialize_row_ids, serialize_versions

if TYPE_CHECKING:
    from collections.abc import Sequence

_STICKY = FeatureFlag.MIXED_FILE_VERSIONS | FeatureFlag.FRAGMENT_REUSE_INDEX | FeatureFlag.MANAGED_BLOBS


@dataclass(frozen=True, slots=True)
class TableState:
    """A version of a table as commits see it."""

    manifest: Manifest
    indices: tuple[IndexMetadata, ...]


def library_version() -> WriterVersion:
    """Return what manifests say of the library that wrote them."""
    try:
        return WriterVersion("lance_df", version("lance_df"))
    except PackageNotFoundError:
        return WriterVersion("lance_df", "0.0.0")


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
    return apply(TableState(empty, ()), operation, data_format=data_format)


def apply(state: TableState, operation: Operation, *, data_format: str | None = None) -> TableState:
    """Return the version that follows ``state`` when ``operation`` is committed.

    The timestamp, the writer and the positions of sections are the commit's business.

    Parameters
    ----------
    state
        The latest version.
    operation
        Checked against all versions since the one it was computed from.
    data_format
        Replaces the table's file version, when everything is overwritten.

    Raises
    ------
    UnsupportedFeatureError
        An operation that this release cannot commit.
    RetryableConflictError
        An overwrite whose field ids are taken, in a table that never uses one twice.
    """
    match operation:
        case Append(fragments):
            return _flagged(_with_fragments(state.manifest, fragments), state.indices)
        case Overwrite():
            return _flagged(_overwritten(state.manifest, operation, data_format), ())
        case CreateIndex(new, removed):
            return _flagged(_next(state.manifest), _with_indices(state.indices, new, removed))
        case _:
            raise UnsupportedFeatureError(f"{type(operation).__name__} cannot be committed by this release")


def _next(manifest: Manifest) -> Manifest:
    return dataclasses.replace(manifest, version=manifest.version + 1)


def _with_fragments(manifest: Manifest, fragments: Sequence[Fragment]) -> Manifest:
    """Add fragments: they get the next fragment ids, and on tables with stable row ids the next row ids."""
    manifest = _next(manifest)
    first_id = 0 if manifest.max_fragment_id is None else manifest.max_fragment_id + 1
    next_row_id = manifest.next_row_id
    added = []
    for position, fragment in enumerate(fragments):
        numbered = dataclasses.replace(fragment, id=first_id + position)
        if manifest.writer_feature_flags & FeatureFlag.STABLE_ROW_IDS:
            stop = next_row_id + fragment.physical_rows
            versions = serialize_versions(constant_versions(manifest.version, fragment.physical_rows))
            numbered = dataclasses.replace(
                numbered,
                row_ids=serialize_row_ids(row_id_range(next_row_id, stop)),
                created_at=versions,
                last_updated_at=versions,
            )
            next_row_id = stop
        added.append(numbered)
    return dataclasses.replace(
        manifest,
        fragments=manifest.fragments.edited(added=added),
        max_fragment_id=first_id + len(added) - 1 if added else manifest.max_fragment_id,
        next_row_id=next_row_id,
    )


def _overwritten(manifest: Manifest, operation: Overwrite, data_format: str | None) -> Manifest:
    emptied = dataclasses.replace(
        manifest,
        schema=operation.schema,
        fragments=FragmentList.of(()),
        data_format=data_format or manifest.data_format,
        config={**manifest.config, **operation.config_upsert_values},
        base_paths=(*manifest.base_paths, *operation.initial_bases),
    )
    if manifest.max_allocated_field_id is not None:
        lowest = min((field.id for field in operation.schema.walk()), default=None)
        if lowest is not None and lowest <= manifest.max_allocated_field_id:
            raise RetryableConflictError(
                f"field id {lowest} was given out by another commit meanwhile; run the overwrite again"
            )
        highest = max(manifest.max_allocated_field_id, operation.schema.max_field_id)
        emptied = dataclasses.replace(emptied, max_allocated_field_id=highest)
    return _with_fragments(emptied, operation.fragments)


def _with_indices(
    indices: Sequence[IndexMetadata], new: Sequence[IndexMetadata], removed: Sequence[IndexMetadata]
) -> tuple[IndexMetadata, ...]:
    # several entries may share a name: they are segments of one index
    gone = {index.uuid for index in (*removed, *new)}
    return (*(index for index in indices if index.uuid not in gone), *new)


def _flagged(manifest: Manifest, indices: tuple[IndexMetadata, ...]) -> TableState:
    """Compute the feature flags from the content, and carry the sticky ones on."""
    old_reader, old_writer = manifest.reader_feature_flags, manifest.writer_feature_flags
    both = old_reader & old_writer & (_STICKY | FeatureFlag.STABLE_ROW_IDS)
    if bool(manifest.fragments.has_deletions.any()):
        both |= FeatureFlag.DELETION_FILES
    if manifest.base_paths:
        both |= FeatureFlag.BASE_PATHS
    writer = both | old_writer & (FeatureFlag.NO_TRANSACTION_FILE | FeatureFlag.NON_REUSABLE_FIELD_IDS)
    if manifest.config:
        writer |= FeatureFlag.TABLE_CONFIG
    flagged = dataclasses.replace(manifest, reader_feature_flags=int(both), writer_feature_flags=int(writer))
    return TableState(flagged, indices)
