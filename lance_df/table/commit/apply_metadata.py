"""Operations on the maps of a table, and on its base paths."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, TypeVar

from lance_df.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from lance_df.format.manifest import BasePath
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
    """Add base paths; those with the id 0 get the next free one, from 1. One with a known id replaces it.

    Raises
    ------
    InvalidInputError
        Two base paths would have one name or path.
    """
    bases = {base.id: base for base in state.manifest.base_paths}
    for base in operation.new_bases:
        base_id = base.id or max(bases, default=0) + 1
        bases[base_id] = dataclasses.replace(base, id=base_id)
    check_distinct(bases.values())
    changed = dataclasses.replace(state.manifest, base_paths=tuple(bases.values()))
    return state.followed_by(changed, state.indices)


def check_distinct(bases: Iterable[BasePath]) -> None:
    """Raise `InvalidInputError` if two base paths have one name or one path."""
    seen: dict[tuple[str, str], BasePath] = {}
    for base in bases:
        for key in (("path", base.path), *((("name", base.name),) if base.name else ())):
            other = seen.setdefault(key, base)
            if other is not base:
                raise InvalidInputError(f"two base paths have the {key[0]} {key[1]!r}")


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
