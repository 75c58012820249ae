"""Convert operations from and to protobuf."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from pyroaring import BitMap

from lance_df._pb import table_pb2, transaction_pb2
from lance_df.errors import CorruptDataError
from lance_df.format import operations as ops
from lance_df.format.fragments import DataFile, Fragment
from lance_df.format.manifest import BasePath, IndexMetadata
from lance_df.format.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_T = transaction_pb2.Transaction


def operation_from_proto(  # noqa: C901 - one case for each operation
    message: transaction_pb2.Transaction, *, source: str
) -> ops.Operation:
    """Return the operation of a transaction; an unknown one becomes an `OpaqueOperation`.

    Raises
    ------
    CorruptDataError
        The operation contradicts the format.
    """
    match message.WhichOneof("operation"):
        case "append":
            return ops.Append(_fragments(message.append.fragments))
        case "delete":
            return ops.Delete(
                _fragments(message.delete.updated_fragments),
                tuple(message.delete.deleted_fragment_ids),
                message.delete.predicate,
            )
        case "overwrite":
            return _overwrite(message.overwrite, source)
        case "create_index":
            return ops.CreateIndex(
                _indices(message.create_index.new_indices, source),
                _indices(message.create_index.removed_indices, source),
            )
        case "rewrite":
            return _rewrite(message.rewrite, source)
        case "merge":
            return ops.Merge(
                _fragments(message.merge.fragments),
                Schema.from_proto(message.merge.schema, message.merge.schema_metadata, source=source),
                message.merge.preserves_nullability,
            )
        case "restore":
            return ops.Restore(message.restore.version)
        case "reserve_fragments":
            return ops.ReserveFragments(message.reserve_fragments.num_fragments)
        case "update":
            return _update(message.update, source)
        case "project":
            return ops.Project(
                Schema.from_proto(message.project.schema, source=source),
                message.project.preserves_nullability,
            )
        case "update_config":
            return _update_config(message.update_config)
        case "data_replacement":
            return ops.DataReplacement(
                tuple(
                    (group.fragment_id, DataFile.from_proto(group.new_file))
                    for group in message.data_replacement.replacements
                )
            )
        case "clone":
            return _clone(message.clone)
        case "update_bases":
            return ops.UpdateBases(_bases(message.update_bases.new_bases))
        case name:
            return ops.OpaqueOperation(name)


def operation_to_proto(  # noqa: C901 - one case for each operation
    operation: ops.Operation, message: transaction_pb2.Transaction
) -> None:
    """Set the operation of ``message``."""
    match operation:
        case ops.Append():
            message.append.SetInParent()
            message.append.fragments.extend(_to_proto(operation.fragments))
        case ops.Delete():
            message.delete.SetInParent()
            message.delete.updated_fragments.extend(_to_proto(operation.updated_fragments))
            message.delete.deleted_fragment_ids.extend(operation.deleted_fragment_ids)
            message.delete.predicate = operation.predicate
        case ops.Overwrite():
            message.overwrite.SetInParent()
            message.overwrite.fragments.extend(_to_proto(operation.fragments))
            message.overwrite.schema.extend(operation.schema.to_proto())
            message.overwrite.schema_metadata.update(operation.schema.metadata)
            message.overwrite.config_upsert_values.update(operation.config_upsert_values)
            message.overwrite.initial_bases.extend(base.to_proto() for base in operation.initial_bases)
        case ops.CreateIndex():
            message.create_index.SetInParent()
            message.create_index.new_indices.extend(index.to_proto() for index in operation.new_indices)
            message.create_index.removed_indices.extend(
                index.to_proto() for index in operation.removed_indices
            )
        case ops.Merge():
            message.merge.SetInParent()
            message.merge.fragments.extend(_to_proto(operation.fragments))
            message.merge.schema.extend(operation.schema.to_proto())
            message.merge.schema_metadata.update(operation.schema.metadata)
            message.merge.preserves_nullability = operation.preserves_nullability
        case ops.Restore():
            message.restore.SetInParent()
            message.restore.version = operation.version
        case ops.ReserveFragments():
            message.reserve_fragments.SetInParent()
            message.reserve_fragments.num_fragments = operation.num_fragments
        case ops.Project():
            message.project.SetInParent()
            message.project.schema.extend(operation.schema.to_proto())
            message.project.preserves_nullability = operation.preserves_nullability
        case ops.DataReplacement():
            message.data_replacement.SetInParent()
            for fragment_id, file in operation.replacements:
                message.data_replacement.replacements.add(fragment_id=fragment_id, new_file=file.to_proto())
        case ops.UpdateBases():
            message.update_bases.SetInParent()
            bases = (*operation.new_bases, *operation.moved_bases)
            message.update_bases.new_bases.extend(base.to_proto() for base in bases)
        case ops.Rewrite():
            _set_rewrite(operation, message.rewrite)
        case ops.Update():
            _set_update(operation, message.update)
        case ops.UpdateConfig():
            _set_update_config(operation, message.update_config)
        case ops.Clone():
            _set_clone(operation, message.clone)
        case ops.OpaqueOperation():
            raise CorruptDataError(
                f"operation {operation.name!r} can be copied from a transaction, but not created"
            )


def _fragments(messages: Iterable[table_pb2.DataFragment]) -> tuple[Fragment, ...]:
    return tuple(Fragment.from_proto(message) for message in messages)


def _to_proto(fragments: Iterable[Fragment]) -> list[table_pb2.DataFragment]:
    return [fragment.to_proto() for fragment in fragments]


def _indices(messages: Iterable[table_pb2.IndexMetadata], source: str) -> tuple[IndexMetadata, ...]:
    return tuple(IndexMetadata.from_proto(message, source=source) for message in messages)


def _bases(messages: Iterable[table_pb2.BasePath]) -> tuple[BasePath, ...]:
    return tuple(BasePath.from_proto(message) for message in messages)


def _overwrite(message: _T.Overwrite, source: str) -> ops.Overwrite:
    return ops.Overwrite(
        _fragments(message.fragments),
        Schema.from_proto(message.schema, message.schema_metadata, source=source),
        dict(message.config_upsert_values),
        _bases(message.initial_bases),
    )


def _rewrite(message: _T.Rewrite, source: str) -> ops.Rewrite:
    groups = [
        ops.RewriteGroup(_fragments(group.old_fragments), _fragments(group.new_fragments))
        for group in message.groups
    ]
    if message.old_fragments or message.new_fragments:
        # old releases wrote a single group in this form
        groups.append(ops.RewriteGroup(_fragments(message.old_fragments), _fragments(message.new_fragments)))
    rewritten = (
        ops.RewrittenIndex(
            _uuid(index.old_id, source),
            _uuid(index.new_id, source),
            index.new_index_details.type_url if index.HasField("new_index_details") else None,
            index.new_index_details.value,
            index.new_index_version,
            tuple((file.path, file.size_bytes) for file in index.new_index_files),
        )
        for index in message.rewritten_indices
    )
    return ops.Rewrite(tuple(groups), tuple(rewritten))


def _set_rewrite(operation: ops.Rewrite, message: _T.Rewrite) -> None:
    message.SetInParent()
    for group in operation.groups:
        message.groups.add(
            old_fragments=_to_proto(group.old_fragments), new_fragments=_to_proto(group.new_fragments)
        )
    for index in operation.rewritten_indices:
        rewritten = message.rewritten_indices.add(new_index_version=index.index_version)
        rewritten.old_id.uuid, rewritten.new_id.uuid = index.old_id.bytes, index.new_id.bytes
        if index.details_type_url is not None:
            rewritten.new_index_details.type_url = index.details_type_url
            rewritten.new_index_details.value = index.details
        for path, size in index.files:
            rewritten.new_index_files.add(path=path, size_bytes=size)


def _uuid(message: table_pb2.UUID, source: str) -> UUID:
    if len(message.uuid) != 16:
        raise CorruptDataError(f"{source}: a uuid has {len(message.uuid)} bytes, expected 16")
    return UUID(bytes=message.uuid)


def _update(message: _T.Update, source: str) -> ops.Update:
    mode = int(message.update_mode)
    if mode not in list(map(int, ops.UpdateMode)):
        raise CorruptDataError(f"{source}: unknown update mode {mode}")
    return ops.Update(
        tuple(message.removed_fragment_ids),
        _fragments(message.updated_fragments),
        _fragments(message.new_fragments),
        tuple(message.fields_modified),
        tuple(message.fields_for_preserving_frag_bitmap),
        ops.UpdateMode(mode),
        _updated_offsets(message),
        _inserted_keys(message.inserted_rows) if message.HasField("inserted_rows") else None,
    )


def _inserted_keys(message: _T.KeyExistenceFilter) -> ops.InsertedKeys:
    bloom = message.bloom
    blocks = bloom.bitmap if message.HasField("bloom") else None
    return ops.InsertedKeys(tuple(message.field_ids), blocks, bloom.number_of_items, bloom.probability)


def _updated_offsets(message: _T.Update) -> dict[int, bytes]:
    listed = {
        fragment_id: BitMap(offsets.values).serialize()
        for fragment_id, offsets in message.updated_fragment_offsets.items()
    }
    return listed | dict(message.updated_fragment_offset_bitmaps)


def _set_update(operation: ops.Update, message: _T.Update) -> None:
    message.SetInParent()
    message.removed_fragment_ids.extend(operation.removed_fragment_ids)
    message.updated_fragments.extend(_to_proto(operation.updated_fragments))
    message.new_fragments.extend(_to_proto(operation.new_fragments))
    message.fields_modified.extend(operation.fields_modified)
    message.fields_for_preserving_frag_bitmap.extend(operation.fields_for_preserving_frag_bitmap)
    message.update_mode = operation.mode.value  # type: ignore[assignment]
    message.updated_fragment_offset_bitmaps.update(operation.updated_offsets)
    if (keys := operation.inserted_keys) is not None and keys.field_ids:
        message.inserted_rows.field_ids.extend(keys.field_ids)
        if keys.blocks is not None:
            bloom = message.inserted_rows.bloom
            bloom.bitmap, bloom.num_bits = keys.blocks, 8 * len(keys.blocks)
            bloom.number_of_items, bloom.probability = keys.number_of_items, keys.probability


def _update_config(message: _T.UpdateConfig) -> ops.UpdateConfig:
    config = _map_update(message.config_updates) if message.HasField("config_updates") else None
    if config is None and (message.upsert_values or message.delete_keys):
        config = ops.MapUpdate(
            (*sorted(message.upsert_values.items()), *((key, None) for key in message.delete_keys))
        )
    schema = (
        _map_update(message.schema_metadata_updates) if message.HasField("schema_metadata_updates") else None
    )
    if schema is None and message.schema_metadata:
        schema = _replacement(message.schema_metadata)
    fields = {field_id: _replacement(old.metadata) for field_id, old in message.field_metadata.items()}
    fields |= {field_id: _map_update(new) for field_id, new in message.field_metadata_updates.items()}
    return ops.UpdateConfig(
        config=config,
        table_metadata=_map_update(message.table_metadata_updates)
        if message.HasField("table_metadata_updates")
        else None,
        schema_metadata=schema,
        field_metadata=fields,
    )


def _map_update(message: _T.UpdateMap) -> ops.MapUpdate:
    return ops.MapUpdate(
        tuple(
            (entry.key, entry.value if entry.HasField("value") else None) for entry in message.update_entries
        ),
        message.replace,
    )


def _replacement(values: Mapping[str, str]) -> ops.MapUpdate:
    return ops.MapUpdate(tuple(sorted(values.items())), replace=True)


def _set_update_config(operation: ops.UpdateConfig, message: _T.UpdateConfig) -> None:
    message.SetInParent()
    if operation.config is not None:
        _set_map(operation.config, message.config_updates)
    if operation.table_metadata is not None:
        _set_map(operation.table_metadata, message.table_metadata_updates)
    if operation.schema_metadata is not None:
        _set_map(operation.schema_metadata, message.schema_metadata_updates)
    for field_id, update in operation.field_metadata.items():
        _set_map(update, message.field_metadata_updates[field_id])


def _set_map(update: ops.MapUpdate, message: _T.UpdateMap) -> None:
    message.SetInParent()
    message.replace = update.replace
    for key, value in update.entries:
        message.update_entries.add(key=key, value=value)


def _clone(message: _T.Clone) -> ops.Clone:
    return ops.Clone(
        message.is_shallow,
        message.ref_name if message.HasField("ref_name") else None,
        message.ref_version,
        message.ref_path,
        message.branch_name if message.HasField("branch_name") else None,
    )


def _set_clone(operation: ops.Clone, message: _T.Clone) -> None:
    message.SetInParent()
    message.is_shallow = operation.is_shallow
    message.ref_version = operation.ref_version
    message.ref_path = operation.ref_path
    if operation.ref_name is not None:
        message.ref_name = operation.ref_name
    if operation.branch_name is not None:
        message.branch_name = operation.branch_name
