"""Columns as JSON text, a column at a time.

Integers and finite floats are numbers. Values that JSON cannot express are strings: NaN, Infinity and
-Infinity, decimals, dates, times and bytes. An entry of a map is a list of its key and its value.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types

from lance_df.cli.output.text_buffers import bytes_of, joined
from lance_df.cli.output.value_text import TEXT, is_nested, plain, value_text

_CONTROL: Final = tuple(range(0x20))


def json_text(column: pa.Array) -> pa.Array:
    """Return the JSON texts of a column, as ``large_string``, NULL where ``column`` is."""
    column = plain(column)
    data_type = column.type
    if types.is_null(data_type) or types.is_boolean(data_type) or types.is_integer(data_type):
        return value_text(column)
    if types.is_floating(data_type):
        return _numbers(column)
    if types.is_struct(data_type):
        return _structs(column)
    if types.is_map(data_type):
        return _maps(column)
    if is_nested(data_type):
        return _lists(column)
    return _quoted(value_text(column))


def json_name(name: str) -> str:
    """Return a name as JSON."""
    return json.dumps(name, ensure_ascii=False)


def _numbers(column: pa.Array) -> pa.Array:
    text = value_text(column)
    numbers = column.cast(pa.float32()) if types.is_float16(column.type) else column
    is_finite = pc.is_finite(numbers)
    if pc.all(is_finite).as_py():
        return text
    words = pc.replace_substring(joined('"', text, '"'), "inf", "Infinity")
    return pc.if_else(is_finite, text, words)


def _quoted(text: pa.Array) -> pa.Array:
    """Return text as JSON strings."""
    _, data = bytes_of(text)
    counts = np.bincount(data, minlength=256)
    if counts[ord("\\")]:
        text = pc.replace_substring(text, "\\", "\\\\")
    if counts[ord('"')]:
        text = pc.replace_substring(text, '"', '\\"')
    for code in _CONTROL:
        if counts[code]:
            text = pc.replace_substring(text, chr(code), json.dumps(chr(code))[1:-1])
    return joined('"', text, '"')


def _structs(column: pa.Array) -> pa.Array:
    parts: list[pa.Array | str] = []
    for number, field in enumerate(column.type):
        parts += [f"{', ' if number else '{'}{json_name(field.name)}: "]
        parts += [json_text(_field(column, number))]
    if not parts:
        return _with_nulls_of(column, pa.array(["{}"] * len(column), TEXT))
    return _with_nulls_of(column, joined(*parts, "}", null="null"))


def _field(column: pa.Array, number: int) -> pa.Array:
    """Return a field of a struct, NULL where the struct is."""
    child = column.field(number)
    return child if len(child) == len(column) else child.slice(column.offset, len(column))


def _lists(column: pa.Array) -> pa.Array:
    if types.is_list(column.type) or types.is_large_list(column.type):
        offsets, values = column.offsets.cast(pa.int64()), column.values
    else:  # fixed-size lists and list views: flattening omits the values of NULL lists
        lengths = pc.fill_null(pc.list_value_length(column).cast(pa.int64()), 0)
        offsets = pa.array(np.concatenate([[0], np.cumsum(lengths.to_numpy())]), pa.int64())
        values = column.flatten()
    return _with_nulls_of(column, _joined_lists(offsets, values, json_text))


def _maps(column: pa.Array) -> pa.Array:
    def entries(both: pa.Array) -> pa.Array:
        keys, values = (json_text(_field(both, number)) for number in range(2))
        return joined("[", keys, ", ", values, "]", null="null")

    both = pa.StructArray.from_arrays([column.keys, column.items], ["key", "value"])
    return _with_nulls_of(column, _joined_lists(column.offsets.cast(pa.int64()), both, entries))


def _joined_lists(offsets: pa.Array, values: pa.Array, text_of: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """Return each list in brackets; all values are converted to text at once."""
    bounds = offsets.to_numpy()
    first, last = (int(bounds[0]), int(bounds[-1])) if len(bounds) else (0, 0)
    items = pc.fill_null(text_of(values.slice(first, last - first)), "null")
    lists = pa.LargeListArray.from_arrays(pa.array(bounds - first, pa.int64()), items)
    return joined("[", pc.binary_join(lists, pa.scalar(", ", TEXT)), "]")


def _with_nulls_of(column: pa.Array, text: pa.Array) -> pa.Array:
    return pc.if_else(column.is_valid(), text, pa.scalar(None, TEXT)) if column.null_count else text
