"""Convert Arrow schemas to and from JSON: `JsonArrowSchema` of the namespace client specification.

That format cannot express the unit of a time, the zone of a timestamp, the index type of a dictionary, or a
negative scale. For such types, ``logical_type`` additionally holds the Lance logical type; other readers
ignore it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from lance_df.errors import CorruptDataError, LanceError, UnsupportedFeatureError
from lance_df.format import logical_types

_LOGICAL_TYPE: Final = "logical_type"

_SIMPLE: Final[Mapping[str, pa.DataType]] = {
    "null": pa.null(),
    "bool": pa.bool_(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "uint8": pa.uint8(),
    "uint16": pa.uint16(),
    "uint32": pa.uint32(),
    "uint64": pa.uint64(),
    "float16": pa.float16(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "utf8": pa.string(),
    "large_utf8": pa.large_string(),
    "binary": pa.binary(),
    "large_binary": pa.large_binary(),
    "date32": pa.date32(),
    "date64": pa.date64(),
}
_NAMES: Final = {data_type: name for name, data_type in _SIMPLE.items()}
# the defaults for type names alone; namespaces written by lance_df also have ``logical_type``
_UNIT_OMITTED: Final[Mapping[str, pa.DataType]] = {
    "timestamp": pa.timestamp("us"),
    "time32": pa.time32("ms"),
    "time64": pa.time64("us"),
    "duration": pa.duration("us"),
}
_DECIMALS: Final = {"decimal128": pa.decimal128, "decimal256": pa.decimal256}
_LISTS: Final = {"list": pa.list_, "large_list": pa.large_list}
_SCALES_PER_PRECISION = 1000


def schema_to_json(schema: pa.Schema) -> dict[str, Any]:
    """Return a schema as JSON data, with the metadata of schema and fields.

    Raises
    ------
    UnsupportedFeatureError
        Lance does not support a type.
    """
    members: dict[str, Any] = {"fields": [_field_to_json(field) for field in schema]}
    if schema.metadata:
        members["metadata"] = _metadata_to_json(schema.metadata)
    return members


def schema_from_json(data: object, *, source: str) -> pa.Schema:
    """Return the schema that JSON data describes.

    Raises
    ------
    CorruptDataError
        The data is not a `JsonArrowSchema`.
    UnsupportedFeatureError
        A type is unknown.
    """
    members = _object(data, source)
    fields = [_field_from_json(field, source) for field in _list(members.get("fields"), "fields", source)]
    return pa.schema(fields, _metadata_from_json(members.get("metadata"), source))


def type_to_json(data_type: pa.DataType) -> dict[str, Any]:
    """Return a type as JSON data: ``{"type": "int32"}``; see `schema_to_json`."""
    if isinstance(data_type, pa.BaseExtensionType):
        data_type = data_type.storage_type
    types = pa.types
    if (name := _NAMES.get(data_type)) is not None:
        return {"type": name}
    if types.is_decimal128(data_type) or types.is_decimal256(data_type):
        members = {
            "type": f"decimal{data_type.bit_width}",
            "length": data_type.precision * _SCALES_PER_PRECISION + data_type.scale,
        }
        return members if data_type.scale >= 0 else _exact(members, data_type)
    if types.is_timestamp(data_type) or types.is_time(data_type) or types.is_duration(data_type):
        return _exact({"type": _temporal_name(data_type)}, data_type)
    if types.is_dictionary(data_type):
        return _exact(type_to_json(data_type.value_type), data_type)
    if types.is_fixed_size_binary(data_type):
        return {"type": "fixed_size_binary", "length": data_type.byte_width}
    if types.is_fixed_size_list(data_type):
        fields = [_field_to_json(data_type.value_field)]
        return {"type": "fixed_size_list", "fields": fields, "length": data_type.list_size}
    if types.is_list(data_type) or types.is_large_list(data_type):
        name = "list" if types.is_list(data_type) else "large_list"
        return {"type": name, "fields": [_field_to_json(data_type.value_field)]}
    if types.is_struct(data_type):
        return {"type": "struct", "fields": [_field_to_json(field) for field in data_type]}
    if types.is_map(data_type):
        entries = pa.field("entries", pa.struct([data_type.key_field, data_type.item_field]), nullable=False)
        return {"type": "map", "fields": [_field_to_json(entries)]}
    raise UnsupportedFeatureError(f"type {data_type} is not supported in a namespace")


def type_from_json(data: object, *, source: str) -> pa.DataType:
    """Return the type that JSON data describes; see `schema_from_json`."""
    members = _object(data, source)
    name = members.get("type")
    if not isinstance(name, str):
        raise CorruptDataError(f"{source}: a data type has no name: {data!r:.100}")
    name = name.lower()
    try:
        if isinstance(exact := members.get(_LOGICAL_TYPE), str):
            return logical_types.to_arrow(exact)
        return _type_of_name(name, members, source)
    except (pa.ArrowInvalid, OverflowError, ValueError, TypeError, RecursionError) as err:
        if isinstance(err, LanceError):
            raise
        raise CorruptDataError(f"{source}: invalid data type: {data!r:.100}") from err


def _type_of_name(name: str, members: Mapping[str, Any], source: str) -> pa.DataType:
    if (simple := _SIMPLE.get(name) or _UNIT_OMITTED.get(name)) is not None:
        return simple
    length = members.get("length")
    match name:
        case "boolean":
            return pa.bool_()
        case "decimal128" | "decimal256":
            return _DECIMALS[name](*divmod(_integer(length, source), _SCALES_PER_PRECISION))
        case "fixed_size_binary":
            return pa.binary(_integer(length, source))
        case "list" | "large_list":
            return _LISTS[name](_children(members, 1, source)[0])
        case "fixed_size_list":
            return pa.list_(_children(members, 1, source)[0], _integer(length, source))
        case "struct":
            return pa.struct(_children(members, None, source))
        case "map":
            (entries,) = _children(members, 1, source)
            if not pa.types.is_struct(entries.type) or entries.type.num_fields != 2:
                raise CorruptDataError(
                    f"{source}: the entries of a map must have a key and a value, got {entries.type}"
                )
            key, value = entries.type
            return pa.map_(key.with_nullable(False), value)
        case _:
            raise UnsupportedFeatureError(f"{source}: unknown data type {name!r}")


def _exact(members: dict[str, Any], data_type: pa.DataType) -> dict[str, Any]:
    return {**members, _LOGICAL_TYPE: logical_types.from_arrow(data_type)}


def _temporal_name(data_type: pa.DataType) -> str:
    if pa.types.is_timestamp(data_type):
        return "timestamp"
    return "duration" if pa.types.is_duration(data_type) else f"time{data_type.bit_width}"


def _field_to_json(field: pa.Field) -> dict[str, Any]:
    members: dict[str, Any] = {
        "name": field.name,
        "nullable": field.nullable,
        "type": type_to_json(field.type),
    }
    if field.metadata:
        members["metadata"] = _metadata_to_json(field.metadata)
    return members


def _field_from_json(data: object, source: str) -> pa.Field:
    members = _object(data, source)
    name, nullable = members.get("name"), members.get("nullable", True)
    if not isinstance(name, str) or not isinstance(nullable, bool):
        raise CorruptDataError(
            f"{source}: a field must have a name, and nullable must be true or false: {data!r:.100}"
        )
    data_type = type_from_json(members.get("type"), source=source)
    return pa.field(name, data_type, nullable, _metadata_from_json(members.get("metadata"), source))


def _metadata_to_json(metadata: Mapping[bytes, bytes]) -> dict[str, str]:
    return {key.decode(): value.decode("utf-8", "replace") for key, value in metadata.items()}


def _metadata_from_json(data: object, source: str) -> dict[str, str] | None:
    if data is None:
        return None
    members = _object(data, source)
    if not all(isinstance(value, str) for value in members.values()):
        raise CorruptDataError(f"{source}: metadata values must be strings: {data!r:.100}")
    return dict(members) or None


def _children(members: Mapping[str, Any], count: int | None, source: str) -> list[pa.Field]:
    fields = _list(members.get("fields"), "fields", source)
    if count is not None and len(fields) != count:
        raise CorruptDataError(f"{source}: type {members['type']} has {len(fields)} fields, expected {count}")
    return [_field_from_json(field, source) for field in fields]


def _object(data: object, source: str) -> Mapping[str, Any]:
    if not isinstance(data, dict):
        raise CorruptDataError(f"{source}: expected a JSON object, found {data!r:.100}")
    return data


def _list(data: object, what: str, source: str) -> list[Any]:
    if not isinstance(data, list):
        raise CorruptDataError(f"{source}: {what} must be a list, found {data!r:.100}")
    return data


def _integer(data: object, source: str) -> int:
    if isinstance(data, bool) or not isinstance(data, int):
        raise CorruptDataError(f"{source}: expected a length, found {data!r:.100}")
    return data
