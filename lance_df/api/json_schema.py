"""Arrow schemas as JSON in the form of `schema_to_json` of pylance, with types as Lance logical types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from lance_df.arguments import checked_mapping, checked_type
from lance_df.errors import InvalidInputError, LanceError, UnsupportedFeatureError
from lance_df.format import logical_types

_LISTS = {"list": pa.list_, "large_list": pa.large_list}


def schema_to_json(schema: pa.Schema) -> dict[str, Any]:
    """Return a schema as data for `json.dumps`.

    Raises
    ------
    UnsupportedFeatureError
        The form has no representation for a type: maps, views, and types that Lance does not have.
    """
    checked_type(schema, "schema", pa.Schema, "a pyarrow Schema")
    described: dict[str, Any] = {"fields": [_field_to_json(field) for field in schema]}
    return described | _metadata_to_json(schema.metadata)


def json_to_schema(schema_json: Mapping[str, Any]) -> pa.Schema:
    """Return the schema for data that `schema_to_json` returned.

    Raises
    ------
    InvalidInputError
        The data is not in this form.
    """
    try:
        fields = [_field_from_json(each) for each in _object(schema_json)["fields"]]
        return pa.schema(fields, schema_json.get("metadata"))
    except (LanceError, KeyError, TypeError, ValueError, AttributeError, pa.ArrowException) as err:
        reason = f"{err} is missing" if type(err) is KeyError else str(err) or type(err).__name__
        raise InvalidInputError(
            f"schema_json must be what schema_to_json returns, got {schema_json!r:.80}: {reason}"
        ) from err


def _object(described: object) -> Mapping[str, Any]:
    return checked_mapping(described, "a schema, field or type", "a JSON object")


def _field_to_json(field: pa.Field) -> dict[str, Any]:
    described = {"name": field.name, "type": _type_to_json(field.type), "nullable": field.nullable}
    return described | _metadata_to_json(field.metadata)


def _metadata_to_json(metadata: Mapping[bytes, bytes] | None) -> dict[str, Any]:
    if not metadata:
        return {}
    return {"metadata": {key.decode(): value.decode("utf-8", "replace") for key, value in metadata.items()}}


def _type_to_json(data_type: pa.DataType) -> dict[str, Any]:
    types = pa.types
    if types.is_map(data_type) or data_type in (pa.string_view(), pa.binary_view()):
        raise UnsupportedFeatureError(f"type {data_type} cannot be written in a JSON schema")
    if types.is_fixed_size_binary(data_type):
        return {"type": "fixed_size_binary", "length": data_type.byte_width}
    if types.is_struct(data_type):
        return {"type": "struct", "fields": [_field_to_json(field) for field in data_type]}
    if types.is_list(data_type) or types.is_large_list(data_type) or types.is_fixed_size_list(data_type):
        items = {"fields": [_field_to_json(data_type.value_field)]}
        if types.is_fixed_size_list(data_type):
            return {"type": "fixed_size_list", **items, "length": data_type.list_size}
        return {"type": "list" if types.is_list(data_type) else "large_list", **items}
    return {"type": logical_types.from_arrow(data_type)}


def _field_from_json(described: Mapping[str, Any]) -> pa.Field:
    data_type = _type_from_json(_object(described)["type"])
    return pa.field(described["name"], data_type, described["nullable"], described.get("metadata"))


def _type_from_json(described: Mapping[str, Any]) -> pa.DataType:
    described = _object(described)
    name, fields = described["type"], [_field_from_json(each) for each in described.get("fields") or ()]
    match name:
        case "struct":
            return pa.struct(fields)
        case "list" | "large_list":
            return _LISTS[name](_single(fields))
        case "fixed_size_list":
            return pa.list_(_single(fields), described["length"])
        case "fixed_size_binary":
            return pa.binary(described["length"])
        case _:
            return logical_types.to_arrow(name)


def _single(fields: Sequence[pa.Field]) -> pa.Field:
    (field,) = fields
    return field
