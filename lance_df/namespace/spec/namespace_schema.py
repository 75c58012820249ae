"""The schema of a namespace: the columns of all its members, with field ids that are never reused.

Spec: partitioning, "Schema". Its JSON form is a `JsonArrowSchema` in which every field, at any level, has its
id. The highest id ever assigned is stored as well, so that ids of dropped columns are not reused.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, Self

import pyarrow as pa

from lance_df.errors import AlreadyExistsError, ColumnNotFoundError, CorruptDataError, InvalidInputError
from lance_df.format.messages import parse_json
from lance_df.format.schema import FIELD_ID_KEY, MAX_FIELD_ID, Field, Schema, schema_from_arrow
from lance_df.namespace.spec.json_arrow import schema_from_json, schema_to_json
from lance_df.records import dataclass

SCHEMA_KEY: Final = "schema"
_HIGHEST_ID_KEY: Final = "lance_df:max_field_id"


@dataclass(frozen=True, slots=True)
class NamespaceSchema:
    """The columns of a namespace.

    Attributes
    ----------
    columns
        The columns as in the member tables.
    max_field_id
        The highest field id ever assigned.
    """

    columns: Schema
    max_field_id: int

    @classmethod
    def create(cls, schema: pa.Schema) -> Self:
        """Assign ids to the fields of an Arrow schema, depth first from 0.

        Raises
        ------
        InvalidInputError
            The value is not a schema, has no columns, or has two columns with the same name.
        UnsupportedFeatureError
            The format does not support a type.
        """
        if not isinstance(schema, pa.Schema):
            raise InvalidInputError(f"expected a pyarrow schema, got {schema!r:.100}")
        columns = schema_from_arrow(schema)
        if not columns.fields:
            raise InvalidInputError("a namespace must have at least one column")
        _check_names(columns.fields)
        return cls(columns, columns.max_field_id)

    @classmethod
    def from_json(cls, text: str, *, source: str) -> Self:
        """Parse a stored schema.

        Raises
        ------
        CorruptDataError
            The schema is malformed: a field has no id, two fields have the same id, or two columns
            of one level have the same name.
        UnsupportedFeatureError
            A type is unknown.
        """
        data = parse_json(text, source)
        arrow = schema_from_json(data, source=source)
        metadata = {key.decode(): value for key, value in (arrow.metadata or {}).items()}
        highest = metadata.pop(_HIGHEST_ID_KEY, b"-1").decode()
        numbered = schema_from_arrow(arrow).fields
        fields = tuple(
            _with_stored_ids(field, described, source)
            for field, described in zip(numbered, data["fields"], strict=True)
        )
        columns = Schema(fields=fields, metadata=metadata)
        ids = [field.id for field in columns.walk()]
        highest_id = -1 if highest == "-1" else _field_id(highest)
        try:
            _check_names(fields)
        except AlreadyExistsError as err:
            raise CorruptDataError(f"{source}: {err}, expected distinct names; repair the namespace") from err
        if len(set(ids)) < len(ids) or highest_id is None:
            raise CorruptDataError(
                f"{source}: the field ids are {ids} and the highest is {highest:.100}, expected distinct "
                f"ids of at most {MAX_FIELD_ID}"
            )
        return cls(columns, max(highest_id, columns.max_field_id))

    def to_json(self) -> str:
        """Return the JSON text that is stored."""
        data = schema_to_json(self.arrow)
        for field, described in zip(self.columns.fields, data["fields"], strict=True):
            _describe_ids(field, described)
        data.setdefault("metadata", {})[_HIGHEST_ID_KEY] = str(self.max_field_id)
        return json.dumps(data, separators=(",", ":"))

    @property
    def arrow(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        return self.columns.to_arrow()

    def path(self, field_id: int) -> tuple[str, ...] | None:
        """Return the names from a column down to the field with an id, or None if there is no such field."""
        return _path(self.columns.fields, field_id)

    def find(self, path: str) -> Field:
        """Return the field at a path ``a`` or ``a.b``; a column whose name contains the dot takes precedence.

        Raises
        ------
        ColumnNotFoundError
            There is no such field.
        """
        field = _find(self.columns.fields, path)
        if field is None:
            names = ", ".join(map(repr, self.columns.names))
            raise ColumnNotFoundError(f"column {path!r} does not exist; the columns are {names}")
        return field

    def with_columns(self, columns: Schema) -> NamespaceSchema:
        """Return the schema with other columns; ids of dropped columns stay reserved."""
        return NamespaceSchema(columns, max(self.max_field_id, columns.max_field_id))


def _check_names(fields: Sequence[Field], within: str = "") -> None:
    names = [field.name for field in fields]
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise AlreadyExistsError(f"duplicate column name {within + twice[0]!r}")
    for field in fields:
        _check_names(field.children, f"{within}{field.name}.")


def _described_children(described: Mapping[str, Any]) -> Sequence[dict[str, Any]]:
    # the item of a fixed-size list of numbers is a field in Arrow, but not in Lance
    children: Sequence[dict[str, Any]] = described["type"].get("fields") or ()
    return children


def _describe_ids(field: Field, described: dict[str, Any]) -> None:
    described.setdefault("metadata", {})[FIELD_ID_KEY] = str(field.id)
    for child, below in zip(field.children, _described_children(described), strict=False):
        _describe_ids(child, below)


def _with_stored_ids(field: Field, described: Mapping[str, Any], source: str) -> Field:
    number = (described.get("metadata") or {}).get(FIELD_ID_KEY)
    field_id = None if number is None else _field_id(number)
    if field_id is None:
        raise CorruptDataError(
            f"{source}: column {field.name!r} has the {FIELD_ID_KEY} {number!r:.100}, expected a number of "
            f"at most {MAX_FIELD_ID}"
        )
    children = zip(field.children, _described_children(described), strict=False)
    return dataclasses.replace(
        field,
        id=field_id,
        children=tuple(_with_stored_ids(child, below, source) for child, below in children),
    )


def _field_id(text: str) -> int | None:
    """Return the field id in a stored text, or None if the text is not a field id."""
    if not re.fullmatch("[0-9]{1,10}", text) or int(text) > MAX_FIELD_ID:
        return None
    return int(text)


def _path(fields: Sequence[Field], field_id: int) -> tuple[str, ...] | None:
    for field in fields:
        if field.id == field_id:
            return (field.name,)
        if (below := _path(field.children, field_id)) is not None:
            return (field.name, *below)
    return None


def _find(fields: Sequence[Field], path: str) -> Field | None:
    for field in fields:
        if field.name == path:
            return field
    for field in fields:
        if field.is_struct and path.startswith(field.name + "."):
            child = _find(field.children, path[len(field.name) + 1 :])
            if child is not None:
                return child
    return None
