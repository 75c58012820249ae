"""Convert between the logical type names of the format and Arrow types.

Spec: table format, `Field.logical_type`; the strings are those that pylance 14 writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lance_df.errors import CorruptDataError, UnsupportedFeatureError

if TYPE_CHECKING:
    from collections.abc import Sequence

LIST_TYPES = frozenset({"list", "list.struct", "large_list", "large_list.struct"})

_PRIMITIVES: dict[str, pa.DataType] = {
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
    "halffloat": pa.float16(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "large_string": pa.large_string(),
    "large_binary": pa.large_binary(),
    "json": pa.large_binary(),
    "date32:day": pa.date32(),
    "date64:ms": pa.date64(),
    "time32:s": pa.time32("s"),
    "time32:ms": pa.time32("ms"),
    "time64:us": pa.time64("us"),
    "time64:ns": pa.time64("ns"),
    **{f"duration:{unit}": pa.duration(unit) for unit in ("s", "ms", "us", "ns")},
    # very old tables wrote timestamps without the third part
    **{f"timestamp:{unit}": pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")},
}
_NAMES = {
    data_type: name for name, data_type in _PRIMITIVES.items() if name != "json" and name.count(":") < 2
}
_NAMES |= {pa.timestamp(unit): f"timestamp:{unit}:-" for unit in ("s", "ms", "us", "ns")}
_NAMES |= {pa.string_view(): "string", pa.binary_view(): "binary"}

# zones and nested lists make long names, but not as long
_MAX_NAME = 2000

BFLOAT16 = "lance.bfloat16"


def to_arrow(logical_type: str, children: Sequence[pa.Field] = ()) -> pa.DataType:
    """Return the Arrow type in which values of ``logical_type`` are stored.

    Parameters
    ----------
    logical_type
        As in ``Field.logical_type``.
    children
        Arrow fields of the child fields, for struct, list and map types.

    Raises
    ------
    UnsupportedFeatureError
        The name is unknown.
    CorruptDataError
        Its parameters or its number of children are impossible.
    """
    if (primitive := _PRIMITIVES.get(logical_type)) is not None:
        return primitive
    if len(logical_type) > _MAX_NAME:
        raise CorruptDataError(
            f"a logical type has {len(logical_type)} characters, expected at most {_MAX_NAME}"
        )
    kind, _, rest = logical_type.partition(":")
    try:
        return _parametric(kind, rest, children)
    except (ValueError, TypeError, pa.ArrowInvalid, IndexError, OverflowError, RecursionError) as err:
        raise CorruptDataError(
            f"invalid logical type {logical_type!r} with {len(children)} children"
        ) from err


def _parametric(kind: str, rest: str, children: Sequence[pa.Field]) -> pa.DataType:
    match kind:
        case "struct":
            return pa.struct(children)
        case "list" | "list.struct":
            (item,) = children
            return pa.list_(item)
        case "large_list" | "large_list.struct":
            (item,) = children
            return pa.large_list(item)
        case "map":
            (entries,) = children
            key, value = entries.type
            return pa.map_(key.with_nullable(False), value)
        case "timestamp":
            unit, _, zone = rest.partition(":")
            return pa.timestamp(unit, tz=None if zone in ("", "-") else zone)
        case "decimal":
            bits, precision, scale = rest.split(":")
            make = {"128": pa.decimal128, "256": pa.decimal256}
            if bits in make:
                return make[bits](int(precision), int(scale))
        case "fixed_size_binary":
            return pa.binary(_positive(rest))
        case "fixed_size_list":
            item_type, _, size = rest.rpartition(":")
            if children:
                return pa.list_(pa.field("item", children[0].type, children[0].nullable), _positive(size))
            item = pa.binary(2) if item_type == BFLOAT16 else to_arrow(item_type)
            return pa.list_(pa.field("item", item), _positive(size))
        case "dict":
            value, _, tail = rest.rpartition(":")[0].rpartition(":")
            return pa.dictionary(to_arrow(tail), to_arrow(value), ordered=rest.endswith(":true"))
        case _:
            pass
    raise UnsupportedFeatureError(f"unknown logical type {kind + (':' + rest if rest else '')!r}")


def _positive(text: str) -> int:
    number = int(text)
    if number < 0:
        raise ValueError(text)
    return number


def from_arrow(data_type: pa.DataType) -> str:
    """Return the logical type name for an Arrow type; it does not include the names of children.

    Raises
    ------
    UnsupportedFeatureError
        The format has no such type.
    """
    if (name := _NAMES.get(data_type)) is not None:
        return name
    types = pa.types
    if types.is_timestamp(data_type):
        return f"timestamp:{data_type.unit}:{data_type.tz or '-'}"
    if types.is_decimal128(data_type) or types.is_decimal256(data_type):
        return f"decimal:{data_type.bit_width}:{data_type.precision}:{data_type.scale}"
    if types.is_fixed_size_binary(data_type):
        return f"fixed_size_binary:{data_type.byte_width}"
    if types.is_fixed_size_list(data_type):
        if isinstance(data_type.value_type, pa.BaseExtensionType):
            raise UnsupportedFeatureError(
                f"Lance does not support fixed-size lists of Arrow type {data_type.value_type}"
            )
        inner = "struct" if types.is_struct(data_type.value_type) else from_arrow(data_type.value_type)
        return f"fixed_size_list:{inner}:{data_type.list_size}"
    if types.is_dictionary(data_type):
        return f"dict:{from_arrow(data_type.value_type)}:{from_arrow(data_type.index_type)}:false"
    if types.is_struct(data_type):
        return "struct"
    if types.is_map(data_type) and not data_type.keys_sorted:
        return "map"
    if types.is_list(data_type) or types.is_large_list(data_type):
        prefix = "list" if types.is_list(data_type) else "large_list"
        return f"{prefix}.struct" if types.is_struct(data_type.value_type) else prefix
    castable = _castable(data_type)
    raise UnsupportedFeatureError(
        f"Lance does not support Arrow type {data_type}" + (f"; cast it to {castable}" if castable else "")
    )


def _castable(data_type: pa.DataType) -> str | None:
    """Return a type that can be stored, and that values of another type may be cast to; None if none can."""
    if pa.types.is_interval(data_type) or pa.types.is_union(data_type):
        return None
    if pa.types.is_run_end_encoded(data_type):
        return str(data_type.value_type)
    if pa.types.is_decimal(data_type):
        return f"decimal128({data_type.precision}, {data_type.scale})"
    if "list_view" in str(data_type):
        return "a list"
    if pa.types.is_map(data_type):
        return "a map without sorted keys"
    return "a type that Lance supports, such as string"
