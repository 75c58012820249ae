"""Rename columns, change their nullability, and cast them to other types.

Names and nullability are in the schema only. A cast writes the values into new files, under new field ids;
old files stay as long as some column in them is needed. The commit drops zone maps of the old values;
`lance_df.table.maintenance.zone_map_casts` rebuilds them. Spec: table format, chapters 11 and 12.6.
"""

from __future__ import annotations

import dataclasses
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lance_df.errors import InvalidInputError, UnsupportedFeatureError
from lance_df.expr.literals import plain_scalar
from lance_df.expr.text import scalar_text
from lance_df.expr.type_names import shown_type
from lance_df.format.operations import Merge, Project
from lance_df.format.schema import EXTENSION_NAME, Field, Schema, schema_from_arrow
from lance_df.records import dataclass
from lance_df.table.evolution.column_files import columns_written, with_columns_of
from lance_df.table.evolution.fields import Numbering, check_names, edited, find_field, highest_field_id
from lance_df.table.evolution.live_rows import has_nulls, read_live
from lance_df.table.maintenance.zone_map_files import KIND
from lance_df.table.metadata.missing_files import computes_change
from lance_df.table.writing.schema_rules import check_primary_key, check_schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lance_df.format.fragments import Fragment
    from lance_df.table.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Alteration:
    """The alteration of one column; ``None`` leaves a property unchanged. ``path`` joins names by dots."""

    path: str
    name: str | None = None
    nullable: bool | None = None
    data_type: pa.DataType | None = None

    def __post_init__(self) -> None:
        if self.name is None and self.nullable is None and self.data_type is None:
            raise InvalidInputError(
                f"column {self.path!r}: At least one of name, nullable, or data_type must be specified"
            )


@contextmanager
def columns_altered(
    table: Table, alterations: Sequence[Alteration], *, keeps_ids: bool = False
) -> Iterator[Merge | Project]:
    """Write the files that casts need; delete them if the block fails.

    Parameters
    ----------
    keeps_ids
        Whether columns keep their field ids when they get another type; not for 0.1 files.

    Yields
    ------
    The operation.

    Raises
    ------
    ColumnNotFoundError
        There is no such column.
    InvalidInputError
        Names clash, a column that must not be null holds nulls, a value does not fit the new type, or the
        new type is of another kind.
    UnsupportedFeatureError
        A column with an index other than a zone map is cast.
    """
    changes, casts = _fields_to_change(table.schema, alterations), {}
    for way, alteration in changes.values():
        _check_nulls(table, way, alteration)
        if alteration.data_type is not None and alteration.data_type != way[-1].arrow_type():
            casts[way[-1].id] = _checked_cast(table, way, alteration.data_type)
    schema = _with_names(table.schema, changes)
    if casts:
        with _cast(table, schema, casts, keeps_ids=keeps_ids) as merge:
            yield merge
    else:
        narrowed = any(not field.nullable and old.nullable for old, field in _pairs(table.schema, schema))
        yield Project(schema, preserves_nullability=not narrowed)


def altered_schema(schema: Schema, alterations: Sequence[Alteration]) -> Schema:
    """Return a schema with changed columns, which keep their field ids.

    Raises
    ------
    ColumnNotFoundError
        There is no such column.
    InvalidInputError
        Names clash, or a column is altered twice.
    UnsupportedFeatureError
        The new type has other fields below it than the old one.
    """
    changes = _fields_to_change(schema, alterations)
    types = {
        field_id: alteration.data_type
        for field_id, (_, alteration) in changes.items()
        if alteration.data_type is not None
    }

    def retyped(field: Field) -> Field:
        data_type = types.get(field.id)
        return field if data_type is None else _with_ids_of(field, _retyped(field, data_type))

    return edited(_with_names(schema, changes), retyped)


_Changes: TypeAlias = "dict[int, tuple[tuple[Field, ...], Alteration]]"
"""The path of fields to an altered field, and its alteration, by the field's id."""


def _fields_to_change(schema: Schema, alterations: Sequence[Alteration]) -> _Changes:
    changes: _Changes = {}
    for alteration in alterations:
        way = find_field(schema, alteration.path)
        above = (changes[field.id][1] for field in way if field.id in changes)
        if way[-1].id in changes or any(each.data_type is not None for each in above):
            raise InvalidInputError(f"column {alteration.path!r} is altered twice")
        extension = way[-1].metadata.get(EXTENSION_NAME)
        if extension is not None and alteration.data_type == way[-1].arrow_type():
            raise InvalidInputError(
                f"column {alteration.path!r} has the extension type {extension.decode()!r}, which stores "
                f"{shown_type(alteration.data_type)}; it cannot be cast to that"
            )
        changes[way[-1].id] = way, alteration
    return changes


def _with_names(schema: Schema, changes: _Changes) -> Schema:
    """Return the schema with new names and nullability; the types are the old ones."""
    renamed = edited(schema, lambda field: _renamed(field, changes))
    check_names(renamed, before=schema)
    check_primary_key(renamed.fields)
    return renamed


def _pairs(left: Schema, right: Schema) -> Iterator[tuple[Field, Field]]:
    return zip(left.walk(), right.walk(), strict=True)


@computes_change
def _check_nulls(table: Table, way: Sequence[Field], alteration: Alteration) -> None:
    if alteration.nullable is False and way[-1].nullable and has_nulls(table, way):
        raise InvalidInputError(
            f"column {alteration.path!r} contains nulls, so it cannot be made non-nullable"
        )


def _renamed(field: Field, changes: _Changes) -> Field:
    if field.id not in changes:
        return field
    _, change = changes[field.id]
    return dataclasses.replace(
        field,
        name=field.name if change.name is None else change.name,
        nullable=field.nullable if change.nullable is None else change.nullable,
    )


# -- casts --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Cast:
    """The new type of a field, and the id of the field that has to be rewritten as a whole for it."""

    data_type: pa.DataType
    unit: int


def _checked_cast(table: Table, way: Sequence[Field], data_type: pa.DataType) -> _Cast:
    field, path = way[-1], ".".join(each.name for each in way)
    if not can_cast(field.arrow_type(), data_type):
        raise InvalidInputError(
            f'Cannot cast column "{path}" from {shown_type(field.arrow_type())} to {shown_type(data_type)}: '
            "casts are between integers, floats, times, decimals, or the sizes of text, binary and lists, "
            "and to and from dictionaries of these"
        )
    unit = _unit(way, table.manifest.file_version)
    ids = {node.id for node in (unit if table.manifest.file_version == "0.1" else field).walk()}
    names = sorted(
        {index.name for index in table.indices if index.kind != KIND and not ids.isdisjoint(index.fields)}
    )
    if names:
        raise UnsupportedFeatureError(
            f"{table.uri}: column {path!r} cannot be cast because it has indices other than zone maps; "
            f"remove each with drop_index and build it again afterwards: {', '.join(map(repr, names))}"
        )
    return _Cast(data_type, unit.id)


def _unit(way: Sequence[Field], version: str) -> Field:
    """Return the field that is rewritten as a whole.

    From 2.1 on, fields of structs may be in different files; the contents of a list stay together. In 2.0, a
    struct is one column, which cannot be split over two files. In 0.1, ids cannot be removed from a file.
    """
    if version in ("0.1", "2.0"):
        return way[0]
    return next((field for field in way if not field.is_struct or field.is_packed or field.is_blob), way[-1])


def can_cast(old: pa.DataType, new: pa.DataType) -> bool:
    """Return whether a column may be cast to another type, by the rules of pylance."""
    types = pa.types
    if types.is_dictionary(old) or types.is_dictionary(new):
        return can_cast(*(each.value_type if types.is_dictionary(each) else each for each in (old, new)))
    for kind in (types.is_integer, types.is_floating, types.is_temporal, types.is_decimal, types.is_boolean):
        if kind(old):
            return bool(kind(new))
    if types.is_string(old) or types.is_large_string(old):
        return bool(types.is_string(new) or types.is_large_string(new))
    if types.is_binary(old) or types.is_large_binary(old):
        return bool(types.is_binary(new) or types.is_large_binary(new))
    return _is_list(old) and _is_list(new) and can_cast(old.value_type, new.value_type)


def _is_list(data_type: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_list(data_type) or types.is_large_list(data_type) or types.is_fixed_size_list(data_type)
    )


@contextmanager
def _cast(table: Table, schema: Schema, casts: Mapping[int, _Cast], *, keeps_ids: bool) -> Iterator[Merge]:
    """Write columns with other types; ``schema`` is the table's, with the new names."""
    first_id = None if keeps_ids else highest_field_id(table.manifest) + 1
    version = table.manifest.file_version
    with_old_names = _retyped_schema(table, table.schema, casts, first_id)
    # names in a file are not read, and casts match fields by their old names
    units = {cast.unit for cast in casts.values()}
    old, new = _parts(table.schema.fields, with_old_names.fields, units)
    part = Schema(fields=new, metadata=schema.metadata)
    check_schema(part, version)

    def rows(fragment: Fragment) -> Iterator[list[pa.Array]]:
        for arrays in read_live(table, fragment, old):
            yield [_converted(array, field) for array, field in zip(arrays, new, strict=True)]

    altered = _retyped_schema(table, schema, casts, first_id)
    with columns_written(table, table.fragments, part, rows) as files:
        yield Merge(
            tuple(with_columns_of(fragment, files[fragment.id], altered) for fragment in table.fragments),
            altered,
            # rows that others append meanwhile have the old column, and would lose it
            preserves_nullability=False,
        )


def _retyped_schema(table: Table, schema: Schema, casts: Mapping[int, _Cast], first_id: int | None) -> Schema:
    numbering = Numbering(first_id or 0, source=table.uri)
    units = {cast.unit for cast in casts.values()} if table.manifest.file_version == "0.1" else set()

    def retyped(field: Field) -> Field:
        cast = casts.get(field.id)
        if cast is not None:
            made = _retyped(field, cast.data_type)
            return _with_ids_of(field, made) if first_id is None else numbering.numbered(made)
        return numbering.numbered(field) if field.id in units else field

    return edited(schema, retyped)


def _retyped(field: Field, data_type: pa.DataType) -> Field:
    (made,) = schema_from_arrow(pa.schema([pa.field(field.name, data_type, field.nullable)])).fields
    return dataclasses.replace(made, metadata=field.metadata, primary_key_position=field.primary_key_position)


def _with_ids_of(old: Field, new: Field) -> Field:
    if len(old.children) != len(new.children):
        raise UnsupportedFeatureError(
            f"column {old.name!r} of type {old.arrow_type()} cannot keep its field ids as type "
            f"{new.arrow_type()}"
        )
    children = tuple(_with_ids_of(*pair) for pair in zip(old.children, new.children, strict=True))
    return dataclasses.replace(new, id=old.id, children=children)


def _parts(
    old: Sequence[Field], new: Sequence[Field], units: set[int]
) -> tuple[tuple[Field, ...], tuple[Field, ...]]:
    """Return the units within their structs, in the old and in the new schema."""
    old_parts, new_parts = [], []
    for before, after in zip(old, new, strict=True):
        if before.id in units:
            old_parts.append(before)
            new_parts.append(after)
        elif before.is_struct:
            below_old, below_new = _parts(before.children, after.children, units)
            if below_old:
                old_parts.append(before.with_children(below_old))
                new_parts.append(after.with_children(below_new))
    return tuple(old_parts), tuple(new_parts)


def _converted(array: pa.Array, field: Field) -> pa.Array:
    try:
        return _cast_values(array, field.arrow_type())
    except pa.ArrowNotImplementedError as err:
        raise UnsupportedFeatureError(f"column {field.name!r} cannot be cast: {err}") from err
    except pa.ArrowInvalid as err:
        value = scalar_text(plain_scalar(_unfit(array, field.arrow_type())))
        raise InvalidInputError(
            f"column {field.name!r}: Can't cast value {value} to type {shown_type(field.arrow_type())}: {err}"
        ) from err


def _cast_values(values: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Cast without loss. To add a zone, values without one are read as local times of that zone."""
    if pa.types.is_dictionary(values.type):
        return _cast_values(values.dictionary_decode(), data_type)
    if pa.types.is_dictionary(data_type):
        return _cast_values(values, data_type.value_type).dictionary_encode().cast(data_type)
    old, new = _item_type(values.type), _item_type(data_type)
    if getattr(new, "tz", None) is None or getattr(old, "tz", None) is not None:
        return values.cast(data_type)
    return _in_zone(values.cast(_with_items(data_type, pa.timestamp(new.unit))), data_type)


def _item_type(data_type: pa.DataType) -> pa.DataType:
    return _item_type(data_type.value_type) if _is_list(data_type) else data_type


def _with_items(data_type: pa.DataType, items: pa.DataType) -> pa.DataType:
    """Return a list type, nested to any depth, with another type of innermost items."""
    if not _is_list(data_type):
        return items
    field = data_type.value_field.with_type(_with_items(data_type.value_type, items))
    if pa.types.is_fixed_size_list(data_type):
        return pa.list_(field, data_type.list_size)
    return pa.large_list(field) if pa.types.is_large_list(data_type) else pa.list_(field)


def _in_zone(values: pa.Array, data_type: pa.DataType) -> pa.Array:
    if not _is_list(data_type):
        return pc.assume_timezone(values, data_type.tz)
    buffers = values.buffers()[: data_type.num_buffers]
    items = _in_zone(values.values, data_type.value_type)
    return pa.Array.from_buffers(data_type, len(values), buffers, offset=values.offset, children=[items])


def _unfit(array: pa.Array, data_type: pa.DataType) -> pa.Scalar:
    """Return the first value that cannot be cast; the array must have one."""
    start, stop = 0, len(array)
    while stop - start > 1:
        middle = (start + stop) // 2
        try:
            _cast_values(array[start:middle], data_type)
        except pa.ArrowInvalid:
            stop = middle
        else:
            start = middle
    return array[start]
