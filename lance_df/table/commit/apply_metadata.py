"""Operations on the maps of a table, and on its base paths."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, TypeVar

from lance_df.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lance_df.format.operations import MapUpdate, UpdateBases, UpdateConfig
    from lance_df.format.schema import Field, Schema
    from lance_df.table.commit.state import TableState

V = TypeVar("V")


def apply_update_config(state: TableState, operation: UpdateConfig) -> TableState:
    """Change the maps.

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
    """Add base paths; those with the id 0 get the next free one, from 1.

    Raises
    ------
    InvalidInputError
        An id, a name or a path is taken.
    """
    bases = list(state.manifest.base_paths)
    for base in operation.new_bases:
        new = base if base.id else dataclasses.replace(base, id=max((b.id for b in bases), default=0) + 1)
        for other in bases:
            same_name = new.name is not None and new.name == other.name
            if new.id == other.id or new.path == other.path or same_name:
                raise InvalidInputError(
                    f"base path {new.name or new.path!r} cannot be added: its id, name or path is that of "
                    f"base path {other.id} ({other.name or other.path!r})"
                )
        bases.append(new)
    changed = dataclasses.replace(state.manifest, base_paths=tuple(bases))
    return state.followed_by(changed, state.indices)


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
        raise InvalidInputError(f"there is no field with the id {min(missing)}")

    def changed(field: Field) -> Field:
        return dataclasses.replace(
            field,
            children=tuple(map(changed, field.children)),
            metadata=_updated(field.metadata, updates.get(field.id), str.encode),
        )

    return schema if not updates else dataclasses.replace(schema, fields=tuple(map(changed, schema.fields)))
