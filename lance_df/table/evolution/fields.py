"""Find fields by path, change schemas, and give ids to new fields.

Spec: table format, chapter 11.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from lance_df.errors import ColumnNotFoundError, InvalidInputError, UnsupportedFeatureError
from lance_df.format.column_path import parse_path
from lance_df.format.messages import is_text
from lance_df.format.schema import Field, Schema, check_field_id, schema_from_arrow
from lance_df.records import dataclass
from lance_df.table.writing.schema_rules import check_column_name, check_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import pyarrow as pa

    from lance_df.format.manifest import Manifest


def find_field(schema: Schema, path: str) -> tuple[Field, ...]:
    """Return the fields on the path to a column, from the top level to the column itself.

    Raises
    ------
    ColumnNotFoundError
        There is no such column.
    InvalidInputError
        The path is malformed.
    """
    names = parse_path(path)
    way: list[Field] = []
    children: Sequence[Field] = schema.fields
    for name in names:
        child = next((field for field in children if field.name == name), None)
        if child is None:
            known = ", ".join(repr(field.name) for field in children) or "none"
            where = f" in {'.'.join(field.name for field in way)!r}" if way else ""
            raise ColumnNotFoundError(f'Column "{path}" does not exist; the columns{where} are {known}')
        way.append(child)
        children = child.children
    return tuple(way)


def edited(schema: Schema, edit: Callable[[Field], Field | None]) -> Schema:
    """Return the schema with every field replaced by the result of ``edit``, children first.

    A field is left out if the result is None.
    """

    def visit(fields: Iterable[Field]) -> tuple[Field, ...]:
        made = (edit(field.with_children(visit(field.children))) for field in fields)
        return tuple(field for field in made if field is not None)

    return dataclasses.replace(schema, fields=visit(schema.fields))


def check_names(schema: Schema, *, before: Schema) -> None:
    """Check the names of a schema whose fields were renamed.

    Raises
    ------
    InvalidInputError
        Two columns share a name, or a new name is empty or reserved, or has a dot or a backquote.
    """
    _check_siblings(schema.fields, "")
    for name in set(schema.names).difference(before.names):
        check_column_name(name)
        if "." in name:
            raise InvalidInputError(
                f"column name {name!r} must not contain a dot; use a struct field instead"
            )


def _check_siblings(fields: Sequence[Field], within: str) -> None:
    seen: set[str] = set()
    for name in (field.name for field in fields):
        if not name or "\0" in name or not is_text(name):
            raise InvalidInputError(f"invalid column name {within + name!r}")
        if name in seen:
            raise InvalidInputError(f"duplicate column name {within + name!r}")
        seen.add(name)
    for field in fields:
        _check_siblings(field.children, f"{within}{field.name}.")


def highest_field_id(manifest: Manifest) -> int:
    """Return the highest field id that is in use by the schema or a data file, or was ever assigned."""
    in_files = (max(file.fields, default=-1) for m in manifest.fragments.to_proto() for file in m.files)
    mark = -1 if manifest.max_allocated_field_id is None else manifest.max_allocated_field_id
    return max(manifest.schema.max_field_id, mark, max(in_files, default=-1))


class Numbering:
    """Assigns field ids from ``first`` on; ``source`` names the table in error messages."""

    def __init__(self, first: int, *, source: str) -> None:
        self._next = first
        self._source = source

    def numbered(self, field: Field) -> Field:
        """Return the field with new ids for itself and all fields below, depth first.

        Raises
        ------
        CorruptDataError
            No id is left.
        """
        check_field_id(self._next, self._source)
        field_id, self._next = self._next, self._next + 1
        return dataclasses.replace(
            field, id=field_id, children=tuple(self.numbered(child) for child in field.children)
        )


@dataclass(frozen=True, slots=True)
class NewFields:
    """Fields that are added to a schema.

    Attributes
    ----------
    schema
        The whole schema, including the new fields.
    part
        The new fields alone, in the given order; new fields of structs are inside these structs.
    """

    schema: Schema
    part: Schema

    @property
    def are_nullable(self) -> bool:
        """Whether rows of writers that do not know the fields may lack them."""
        return all(field.nullable for field in self.part.walk())


def with_new_fields(
    schema: Schema,
    given: pa.Schema,
    *,
    first_id: int,
    data_format: str,
    in_lists: bool = False,
    source: str = "the schema",
) -> NewFields:
    """Add columns, and in 2.2 fields of structs, to a schema.

    Parameters
    ----------
    given
        The new columns. A struct that exists already adds its new fields to the existing one. The metadata
        of the given schema is added.
    first_id
        The lowest free field id, see `highest_field_id`.
    data_format
        File version of the new data.
    in_lists
        Whether structs in lists may get new fields. This is possible without data; with data, two files
        would have the lengths of the lists.
    source
        The name of the table in error messages.

    Raises
    ------
    CorruptDataError
        No field id is left.
    InvalidInputError
        A column exists already, or has a reserved name.
    UnsupportedFeatureError
        The format does not support a type.
    """
    merge = _Merge(Numbering(first_id, source=source), data_format, in_lists)
    fields, part = merge.levels(schema.fields, schema_from_arrow(given).fields, "")
    check_schema(Schema(fields=part), data_format)
    metadata = {key.decode(): value for key, value in (given.metadata or {}).items()}
    return NewFields(
        Schema(fields=fields, metadata={**schema.metadata, **metadata}),
        Schema(fields=part, metadata=schema.metadata),
    )


@dataclass(frozen=True, slots=True)
class _Merge:
    """Merges new fields into existing ones."""

    numbering: Numbering
    data_format: str
    in_lists: bool

    def levels(
        self, old: Sequence[Field], new: Sequence[Field], within: str
    ) -> tuple[tuple[Field, ...], tuple[Field, ...]]:
        """Return all fields of one level, and those of them that are new or contain new ones."""
        fields = {field.name: field for field in old}
        part: list[Field] = []
        names = [field.name for field in new]
        for field in new:
            path = within + field.name
            if names.count(field.name) > 1:
                raise InvalidInputError(f"duplicate new column {path!r}")
            before = fields.get(field.name)
            if before is None:
                fields[field.name] = self.numbering.numbered(field)
                part.append(fields[field.name])
                continue
            self._check_nests(before, field, path)
            children, new_children = self.levels(before.children, field.children, f"{path}.")
            fields[field.name] = before.with_children(children)
            part.append(before.with_children(new_children))
        return tuple(fields.values()), tuple(part)

    def _check_nests(self, before: Field, field: Field, path: str) -> None:
        is_struct = before.is_struct and not before.is_packed and not before.is_blob
        is_list = self.in_lists and before.is_list and not before.children[0].is_leaf
        if before.logical_type != field.logical_type or not (is_struct or is_list):
            raise InvalidInputError(f"column {path!r} already exists")
        if self.data_format != "2.2":
            raise UnsupportedFeatureError(
                f"column {path!r} already exists, and fields cannot be added to its struct in files of "
                f"version {self.data_format}"
            )
