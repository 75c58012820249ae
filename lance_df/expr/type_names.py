"""The names of Arrow types in DataFusion."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from lance_df.errors import UnsupportedFeatureError

_UNITS: Final = {"s": "Second", "ms": "Millisecond", "us": "Microsecond", "ns": "Nanosecond"}
_NAMES: Final = {
    pa.bool_(): "Boolean",
    **{getattr(pa, f"int{bits}")(): f"Int{bits}" for bits in (8, 16, 32, 64)},
    **{getattr(pa, f"uint{bits}")(): f"UInt{bits}" for bits in (8, 16, 32, 64)},
    **{getattr(pa, f"float{bits}")(): f"Float{bits}" for bits in (16, 32, 64)},
    pa.string(): "Utf8",
    pa.large_string(): "LargeUtf8",
    pa.string_view(): "Utf8View",
    pa.binary(): "Binary",
    pa.large_binary(): "LargeBinary",
    pa.binary_view(): "BinaryView",
    pa.date32(): "Date32",
    pa.date64(): "Date64",
}


def type_name(data_type: pa.DataType) -> str:
    """Return a type in the format of ``arrow_cast``.

    Raises
    ------
    UnsupportedFeatureError
        The type has no name here.
    """
    kinds = pa.types
    if kinds.is_timestamp(data_type):
        zone = "None" if data_type.tz is None else f'Some("{data_type.tz}")'
        return f"Timestamp({_UNITS[data_type.unit]}, {zone})"
    if kinds.is_time(data_type):
        return f"Time{data_type.bit_width}({_UNITS[data_type.unit]})"
    if kinds.is_duration(data_type):
        return f"Duration({_UNITS[data_type.unit]})"
    if kinds.is_decimal(data_type):
        return f"Decimal{data_type.bit_width}({data_type.precision}, {data_type.scale})"
    if kinds.is_fixed_size_binary(data_type):
        return f"FixedSizeBinary({data_type.byte_width})"
    name = _NAMES.get(data_type) if kinds.is_primitive(data_type) or data_type in _NAMES else None
    if name is None:
        raise UnsupportedFeatureError(f"values of type {data_type} cannot be written as an SQL literal")
    return name


def shown_type(data_type: pa.DataType) -> str:
    """Return the name of a type for messages: `type_name`, or Arrow's name if there is none."""
    try:
        return type_name(data_type)
    except UnsupportedFeatureError:
        return str(data_type)
