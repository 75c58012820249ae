"""Schemas with field ids, with the names of pylance."""

from __future__ import annotations

from typing import Self

import pyarrow as pa

from lance_df.api.json_schema import json_to_schema, schema_to_json
from lance_df.arguments import checked_text
from lance_df.errors import InvalidInputError
from lance_df.format.schema import Field, Schema, schema_from_arrow

__all__ = ["LanceField", "LanceSchema", "json_to_schema", "schema_to_json"]


class LanceField:
    """A field of a schema."""

    __slots__ = ("_field",)

    def __init__(self, field: Field) -> None:
        self._field = field

    def __repr__(self) -> str:
        return (
            f"LanceField(id={self._field.id}, name={self._field.name!r}, type={self._field.logical_type!r})"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LanceField) and self._field == other._field

    def __hash__(self) -> int:
        return hash(self._field)

    def id(self) -> int:
        """Return the id, which links the field to data files."""
        return self._field.id

    def name(self) -> str:
        """Return the name, without the names of enclosing fields."""
        return self._field.name

    @property
    def metadata(self) -> dict[str, str]:
        """Return the metadata of the field."""
        return {key: value.decode("utf-8", "replace") for key, value in self._field.metadata.items()}

    def children(self) -> list[LanceField]:
        """Return the fields of a struct, the items of a list, or the entries of a map."""
        return [LanceField(child) for child in self._field.children]

    def to_arrow(self) -> pa.Field:
        """Return the Arrow field with its storage type."""
        return self._field.to_arrow()

    def is_unenforced_primary_key(self) -> bool:
        """Return whether the field belongs to the key by which rows are meant to be unique."""
        return self._field.primary_key_position is not None

    def unenforced_primary_key_position(self) -> int | None:
        """Return the position of the field in the primary key."""
        return self._field.primary_key_position


class LanceSchema:
    """A schema with its field ids."""

    __slots__ = ("_schema",)

    def __init__(self, schema: Schema) -> None:
        self._schema = schema

    def _repr_html_(self) -> str:
        from lance_df.api.descriptions import schema_html

        return schema_html(self._schema)

    def __repr__(self) -> str:
        return f"Schema {{ {', '.join(map(repr, self.fields()))} }}"  # as pylance prints it

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LanceSchema) and self._schema == other._schema

    def __hash__(self) -> int:
        return hash(self._schema)

    def fields(self) -> list[LanceField]:
        """Return the columns."""
        return [LanceField(field) for field in self._schema.fields]

    def field(self, name: str) -> LanceField | None:
        """Return the column with this name, or None."""
        return next((LanceField(field) for field in self._schema.fields if field.name == name), None)

    def field_case_insensitive(self, name: str) -> LanceField | None:
        """Return the column with this name, or else a column whose name differs only in case, or None."""
        exact = self.field(checked_text(name, "name"))
        matches = (f for f in self._schema.fields if f.name.casefold() == name.casefold())
        return exact or next((LanceField(field) for field in matches), None)

    def unenforced_primary_key(self) -> list[LanceField]:
        """Return the fields of the key by which rows are meant to be unique, in the order of the key."""
        keys = [field for field in self._schema.walk() if field.primary_key_position is not None]
        return [
            LanceField(field) for field in sorted(keys, key=lambda f: (f.primary_key_position or 0, f.id))
        ]

    def to_pyarrow(self) -> pa.Schema:
        """Return the Arrow schema with storage types."""
        return self._schema.to_arrow()

    @classmethod
    def from_pyarrow(cls, schema: pa.Schema) -> Self:
        """Return a schema for an Arrow schema. Its fields are numbered from 0, depth first.

        Raises
        ------
        InvalidInputError
            The argument is not an Arrow schema.
        UnsupportedFeatureError
            The format cannot hold a type.
        """
        if not isinstance(schema, pa.Schema):
            raise InvalidInputError(f"expected a pyarrow schema, got {type(schema).__name__}")
        return cls(schema_from_arrow(schema))
