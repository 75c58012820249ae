"""Apply operations on the maps and base paths of a table."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, TypeVar

from lance_df.errors import InvalidInputError
from lance_df.table.metadata.base_paths import check_distinct

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lance_df.format.operations import MapUpdate, UpdateBases, UpdateConfig
    from lance_df.format.schema import Field, Schema
    from lance_df.table.commit.state import TableState

V = TypeVar("V")


def apply_update_config(state: TableState, operation: UpdateConfig) -> TableState:
    """Change the maps of config and metadata.

    Raises
    ------
    InvalidInputError
        There is no field with one of the ids.
    """
    manifest = state.manifest
    schema = _with_field_metadata(manifest.schema, operation.field_metadata)
    if operation.schema_metadata is not None:
        metadata = _updated(schema.metadata, operation.schema_metadata, str.encode)
        schema = dataclasses.replace(schema, metadata=metadata)
    changed = dataclasses.replace(
        manifest,
        schema=schema,
        config=_updated(manifest.config, operation.config, str),
        table_metadata=_updated(manifest.table_metadata, operation.table_metadata, str),
    )
    return state.followed_by(changed, state.indices)


def apply_update_bases(state: TableState, operation: UpdateBases) -> TableState:
    """Add base paths, and replace moved ones by id.

    New base paths with the id 0 get the next free id, starting at 1.

    Raises
    ------
    InvalidInputError
        An id, a name or a path is in use, or there is no base path with the id of a moved one.
    """
    bases = {base.id: base for base in state.manifest.base_paths}
    changed = {base.id: base for base in operation.moved_bases}
    if missing := changed.keys() - bases.keys():
        raise InvalidInputError(f"base path {min(missing)} does not exist and cannot be moved")
    for base in operation.new_bases:
        base_id = base.id or max((*bases, *changed), default=0) + 1
        if base_id in bases or base_id in changed:
            raise InvalidInputError(f"base path {base_id} already exists")
        changed[base_id] = dataclasses.replace(base, id=base_id)
    check_distinct((base for base in bases.values() if base.id not in changed), changed.values())
    manifest = dataclasses.replace(state.manifest, base_paths=tuple({**bases, **changed}.values()))
    return state.followed_by(manifest, state.indices)


def _updated(
    values: Mapping[str, V], update: MapUpdate | None, convert: Callable[[str], V]
) -> Mapping[str, V]:
    if update is None:
        return values
    after = {} if update.replace else dict(values)
    for key, value in update.entries:
        if value is None:
            after.pop(key, None)
        else:
            after[key] = convert(value)
    return after


def _with_field_metadata(schema: Schema, updates: Mapping[int, MapUpdate]) -> Schema:
    if missing := updates.keys() - schema.by_id().keys():
        raise InvalidInputError(f"field {min(missing)} does not exist")

    def changed(field: Field) -> Field:
        return dataclasses.replace(
            field,
            children=tuple(map(changed, field.children)),
            metadata=_updated(field.metadata, updates.get(field.id), str.encode),
        )

    return schema if not updates else dataclasses.replace(schema, fields=tuple(map(changed, schema.fields)))
