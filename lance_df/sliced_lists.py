"""Prepare sliced arrays for pyarrow's take and filter.

Both read nested fixed-size lists at a wrong offset, even beyond their buffers, if the lists are a slice
(pyarrow 26). Sorting, and leaving out nulls, are based on them. Concatenation is right.
"""

from __future__ import annotations

from typing import TypeVar

import pyarrow as pa

_Rows = TypeVar("_Rows", pa.Array, pa.ChunkedArray, pa.RecordBatch, pa.Table)


def unsliced(rows: _Rows) -> _Rows:
    """Return the same rows, in which no nested fixed-size lists are a slice: these are copied.

    Call this before ``take``, ``filter``, ``drop_null`` and ``sort_by`` of values that may have any type.
    """
    if isinstance(rows, pa.Array):
        return _copied(rows) if _has_nested_lists(rows.type) and _is_sliced(rows) else rows
    if isinstance(rows, pa.ChunkedArray):
        is_safe = not _has_nested_lists(rows.type)
        return rows if is_safe else pa.chunked_array(map(unsliced, rows.chunks), rows.type)
    schema = rows.schema
    for number, data_type in enumerate(schema.types):
        if _has_nested_lists(data_type):
            rows = rows.set_column(number, schema.field(number), unsliced(rows.column(number)))
    return rows


def _has_nested_lists(data_type: pa.DataType) -> bool:
    """Return whether a type has fixed-size lists of fixed-size lists at any depth.

    The walk does not recurse: it may come before the check of the depth.
    """
    remaining = [data_type]
    while remaining:
        inner = remaining.pop()
        if _is_nested_list(inner):
            return True
        if isinstance(inner, pa.BaseExtensionType):
            remaining.append(inner.storage_type)
        else:
            remaining.extend(inner.field(index).type for index in range(inner.num_fields))
    return False


def _is_nested_list(data_type: pa.DataType) -> bool:
    return pa.types.is_fixed_size_list(data_type) and pa.types.is_fixed_size_list(data_type.value_type)


def _is_sliced(values: pa.Array) -> bool:
    """Return whether some nested fixed-size lists do not start at the first of their items."""
    kinds, data_type = pa.types, values.type
    if isinstance(values, pa.ExtensionArray):
        return _is_sliced(values.storage)
    if _is_nested_list(data_type) and (values.offset or values.values.offset):
        return True
    if kinds.is_struct(data_type):
        return any(_is_sliced(values.field(index)) for index in range(data_type.num_fields))
    if kinds.is_map(data_type):
        return _is_sliced(values.keys) or _is_sliced(values.items)
    return bool(data_type.num_fields) and _is_sliced(values.values)


def _copied(values: pa.Array) -> pa.Array:
    if isinstance(values, pa.ExtensionArray):
        return values.type.wrap_array(_copied(values.storage))
    return pa.concat_arrays([values])
