"""Convert operations, as callers describe them, to and from the model that commits use."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from lance_df.api.fragment_metadata import DataFile, FragmentMetadata
from lance_df.errors import CorruptDataError, InvalidInputError, UnsupportedFeatureError
from lance_df.format import operations as ops
from lance_df.format.fragments import Fragment, Spilled
from lance_df.format.manifest import IndexMetadata
from lance_df.format.roaring import read_roaring
from lance_df.format.row_ids import serialize_versions, versions_of
from lance_df.format.schema import Schema, schema_from_arrow
from lance_df.format.transaction import Transaction as TransactionModel
from lance_df.operations import Index, IndexFile, LanceOperation, Transaction
from lance_df.schema import LanceSchema
from lance_df.table.metadata.base_paths_write import DatasetBasePath

if TYPE_CHECKING:
    from lance_df.format.manifest import BasePath
    from lance_df.table.table import Table

_UPDATE_MODES = {
    "": ops.UpdateMode.REWRITE_ROWS,
    "rewrite_rows": ops.UpdateMode.REWRITE_ROWS,
    "rewrite_columns": ops.UpdateMode.REWRITE_COLUMNS,
}

# the manifest of a table with more would have hundreds of megabytes, and a small bitmap can hold any number
_MAX_COVERED = 2**22


# -- to the model -------------------------------------------------------------------------------------------


def to_model(operation: LanceOperation.BaseOperation, read: Table) -> ops.Operation:
    """Return the model of an operation on an existing table.

    Parameters
    ----------
    read
        The version that the operation was computed from. Data that the caller's descriptions of fragments
        cannot hold is taken from it.

    Raises
    ------
    InvalidInputError
        A part of the operation has a wrong type.
    UnsupportedFeatureError
        The operation cannot be committed.
    """
    op = LanceOperation
    match operation:
        case op.Append():
            return ops.Append(_fragments(operation.fragments))
        case op.Overwrite():
            return overwrite_model(operation)
        case op.Delete():
            updated = _fragments(operation.updated_fragments, read)
            return ops.Delete(updated, tuple(operation.deleted_fragment_ids), operation.predicate)
        case op.Update():
            return _update(operation, read)
        case op.Merge():
            return ops.Merge(
                _fragments(operation.fragments, read),
                schema_model(operation.schema),
                preserves_nullability=operation.preserves_nullability,
            )
        case op.Project():
            return ops.Project(
                schema_model(operation.schema), preserves_nullability=operation.preserves_nullability
            )
        case op.Restore():
            return ops.Restore(operation.version)
        case op.Rewrite():
            return _rewrite(operation, read)
        case op.CreateIndex():
            return ops.CreateIndex(
                tuple(map(_index_model, operation.new_indices)),
                tuple(map(_index_model, operation.removed_indices)),
            )
        case op.DataReplacement():
            return ops.DataReplacement(
                tuple((each.fragment_id, each.new_file._to_format()) for each in operation.replacements)
            )
        case op.UpdateConfig():
            return _update_config(operation)
        case _:
            raise UnsupportedFeatureError(f"{type(operation).__name__} cannot be committed")


def overwrite_model(operation: LanceOperation.Overwrite, bases: tuple[BasePath, ...] = ()) -> ops.Overwrite:
    """Return the model of an overwrite. ``bases`` are its checked initial bases."""
    schema = schema_model(operation.new_schema)
    return ops.Overwrite(_fragments(operation.fragments), schema, initial_bases=bases)


def schema_model(schema: LanceSchema | pa.Schema) -> Schema:
    """Return the model; the fields of an Arrow schema are numbered from 0, depth first."""
    if isinstance(schema, LanceSchema):
        return schema._schema
    if isinstance(schema, pa.Schema):
        return schema_from_arrow(schema)
    raise InvalidInputError(f"expected a LanceSchema or a pyarrow schema, got {type(schema).__name__}")


def _fragments(given: Sequence[FragmentMetadata], read: Table | None = None) -> tuple[Fragment, ...]:
    """Return fragments; ``read`` has those that were there before, where they are not new."""
    return tuple(_fragment(each, read) for each in given)


def _fragment(given: FragmentMetadata, read: Table | None) -> Fragment:
    if given.overlays:
        raise UnsupportedFeatureError(f"fragment {given.id} has overlays; writing overlays is not supported")
    fragment = given._to_format()
    position = None if read is None else read.fragments.position(fragment.id)
    return fragment if read is None or position is None else _like(fragment, read.fragments[position])


def _like(fragment: Fragment, before: Fragment) -> Fragment:
    """Copy data that a description does not hold: unknown fields, and sequences in hidden columns."""
    files = {file.path: file.origin for file in before.files}
    sequences = {
        name: getattr(before, name)
        for name in ("row_ids", "created_at", "last_updated_at")
        if getattr(fragment, name) is None and isinstance(getattr(before, name), Spilled)
    }
    deletion_file = fragment.deletion_file
    if deletion_file is not None and deletion_file == before.deletion_file:
        deletion_file = before.deletion_file
    return dataclasses.replace(
        fragment,
        files=tuple(dataclasses.replace(file, origin=files.get(file.path)) for file in fragment.files),
        deletion_file=deletion_file,
        origin=before.origin,
        **sequences,
    )


def _update(operation: LanceOperation.Update, read: Table) -> ops.Update:
    mode = _UPDATE_MODES.get(operation.update_mode)
    if mode is None:
        raise InvalidInputError(
            f"update_mode is {operation.update_mode!r}, expected 'rewrite_rows' or 'rewrite_columns'"
        )
    if not operation.update_mode and operation.fields_modified:
        mode = ops.UpdateMode.REWRITE_COLUMNS
    offsets = operation.updated_fragment_offsets or {}
    return ops.Update(
        removed_fragment_ids=tuple(operation.removed_fragment_ids),
        updated_fragments=tuple(
            _with_updated_rows(fragment, offsets.get(fragment.id), read)
            for fragment in _fragments(operation.updated_fragments, read)
        ),
        new_fragments=_fragments(operation.new_fragments),
        fields_modified=tuple(operation.fields_modified),
        fields_for_preserving_frag_bitmap=tuple(operation.fields_for_preserving_frag_bitmap),
        mode=mode,
        inserted_keys=operation.inserted_keys,
    )


def _with_updated_rows(fragment: Fragment, offsets: bytes | None, read: Table) -> Fragment:
    """Mark rows as updated by the coming version; the commit puts its own number there."""
    if offsets is None or not read.uses_stable_row_ids:
        return fragment
    updated = read_roaring(offsets, source=f"updated_fragment_offsets of fragment {fragment.id}")
    versions = read.row_version_sequences(fragment)[1].to_numpy().copy()
    rows = np.asarray(updated.to_array(), np.int64)
    if len(rows) and rows[-1] >= len(versions):
        raise InvalidInputError(
            f"fragment {fragment.id} has {len(versions)} rows, so row {rows[-1]} does not exist"
        )
    versions[rows] = read.version + 1
    return dataclasses.replace(fragment, last_updated_at=serialize_versions(versions_of(versions)))


def _rewrite(operation: LanceOperation.Rewrite, read: Table) -> ops.Rewrite:
    groups = tuple(
        ops.RewriteGroup(_fragments(group.old_fragments, read), _fragments(group.new_fragments))
        for group in operation.groups
    )
    rewritten = tuple(
        ops.RewrittenIndex(
            old_id=_uuid(index.old_id),
            new_id=_uuid(index.new_id),
            details_type_url=index.new_details_type_url,
            details=index.new_details_value,
            index_version=index.new_index_version,
        )
        for index in operation.rewritten_indices
    )
    return ops.Rewrite(groups, rewritten)


def _index_model(index: Index) -> IndexMetadata:
    url, details = index.index_details or (None, b"")
    return IndexMetadata(
        uuid=_uuid(index.uuid),
        fields=tuple(index.fields),
        name=index.name,
        dataset_version=index.dataset_version,
        fragment_bitmap=BitMap(index.fragment_ids).serialize(),
        details_type_url=url,
        details=details,
        index_version=index.index_version,
        created_at_ms=None if index.created_at is None else int(index.created_at.timestamp() * 1000),
        base_id=index.base_id,
        files=tuple((file.path, file.size_bytes) for file in index.files or ()),
        covering_fields=tuple(index.covering_fields),
    )


def _uuid(text: str) -> UUID:
    try:
        return UUID(text)
    except (ValueError, AttributeError, TypeError) as err:
        raise InvalidInputError(f"{text!r:.60} is not a UUID") from err


def _update_config(operation: LanceOperation.UpdateConfig) -> ops.UpdateConfig:
    return ops.UpdateConfig(
        config=_map_model(operation.config_updates),
        table_metadata=_map_model(operation.table_metadata_updates),
        schema_metadata=_map_model(operation.schema_metadata_updates),
        field_metadata={
            field_id: ops.MapUpdate(tuple(update.updates.items()), replace=update.replace)
            for field_id, update in (operation.field_metadata_updates or {}).items()
        },
    )


def _map_model(update: LanceOperation.UpdateMap | None) -> ops.MapUpdate | None:
    return None if update is None else ops.MapUpdate(tuple(update.updates.items()), replace=update.replace)


# -- from the model -----------------------------------------------------------------------------------------


def from_transaction(transaction: TransactionModel) -> Transaction:
    """Return a recorded transaction in the form that callers use."""
    return Transaction(
        read_version=transaction.read_version,
        operation=from_model(transaction.operation),
        uuid=transaction.uuid,
        transaction_properties=dict(transaction.properties),
    )


def from_model(operation: ops.Operation) -> LanceOperation.BaseOperation:
    """Return an operation in the form that callers use."""
    op = LanceOperation
    match operation:
        case ops.Append():
            return op.Append(_described(operation.fragments))
        case ops.Overwrite():
            bases = [
                DatasetBasePath(base.path, base.name, base.is_dataset_root, base.id)
                for base in operation.initial_bases
            ]
            schema = LanceSchema(operation.schema)
            return op.Overwrite(schema, _described(operation.fragments), bases or None)
        case ops.Delete():
            deleted = list(operation.deleted_fragment_ids)
            return op.Delete(_described(operation.updated_fragments), deleted, operation.predicate)
        case ops.Update():
            return op.Update(
                list(operation.removed_fragment_ids),
                _described(operation.updated_fragments),
                _described(operation.new_fragments),
                list(operation.fields_modified),
                list(operation.fields_for_preserving_frag_bitmap),
                operation.mode.name.lower(),
                inserted_keys=operation.inserted_keys,
            )
        case ops.Merge():
            schema = LanceSchema(operation.schema)
            return op.Merge(_described(operation.fragments), schema, operation.preserves_nullability)
        case ops.Project():
            return op.Project(LanceSchema(operation.schema), operation.preserves_nullability)
        case ops.Restore():
            return op.Restore(operation.version)
        case ops.Clone():
            return op.Clone(
                operation.is_shallow,
                operation.ref_name,
                operation.ref_version,
                operation.ref_path,
                operation.branch_name,
            )
        case _:
            return _rare(operation)


def _rare(operation: ops.Operation) -> LanceOperation.BaseOperation:
    op = LanceOperation
    match operation:
        case ops.Rewrite():
            groups = [
                op.RewriteGroup(_described(group.old_fragments), _described(group.new_fragments))
                for group in operation.groups
            ]
            return op.Rewrite(groups, [_rewritten(index) for index in operation.rewritten_indices])
        case ops.CreateIndex():
            return op.CreateIndex(
                [_described_index(index) for index in operation.new_indices],
                [_described_index(index) for index in operation.removed_indices],
            )
        case ops.DataReplacement():
            return op.DataReplacement(
                [op.DataReplacementGroup(where, DataFile._of(file)) for where, file in operation.replacements]
            )
        case ops.UpdateConfig():
            return op.UpdateConfig(
                _described_map(operation.config),
                _described_map(operation.table_metadata),
                _described_map(operation.schema_metadata),
                _described_maps(operation.field_metadata) or None,
            )
        case ops.OpaqueOperation():
            return op.Other(operation.name or "unknown")
        case _:
            return op.Other(type(operation).__name__)


def _described(fragments: Iterable[Fragment]) -> list[FragmentMetadata]:
    return [FragmentMetadata._of(fragment) for fragment in fragments]


def _rewritten(index: ops.RewrittenIndex) -> LanceOperation.RewrittenIndex:
    return LanceOperation.RewrittenIndex(
        str(index.old_id),
        str(index.new_id),
        index.details_type_url or "",
        index.details,
        index.index_version,
    )


def _described_index(index: IndexMetadata) -> Index:
    covered = index.covered_fragments() or BitMap()
    if len(covered) > _MAX_COVERED:
        raise CorruptDataError(
            f"index {index.name!r} ({index.uuid}) covers {len(covered)} fragments, "
            f"expected at most {_MAX_COVERED}"
        )
    return Index(
        uuid=str(index.uuid),
        name=index.name,
        fields=list(index.fields),
        dataset_version=index.dataset_version,
        fragment_ids=set(covered),
        index_version=index.index_version or 0,
        created_at=index.created_at,
        base_id=index.base_id,
        files=[IndexFile(path, size) for path, size in index.files] or None,
        index_details=None if index.details_type_url is None else (index.details_type_url, index.details),
        covering_fields=list(index.covering_fields),
    )


def _described_map(update: ops.MapUpdate | None) -> LanceOperation.UpdateMap | None:
    return None if update is None else LanceOperation.UpdateMap(dict(update.entries), update.replace)


def _described_maps(updates: Mapping[int, ops.MapUpdate]) -> dict[int, LanceOperation.UpdateMap]:
    return {
        field_id: LanceOperation.UpdateMap(dict(update.entries), update.replace)
        for field_id, update in updates.items()
    }
