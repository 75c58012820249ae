"""Nested arrays as DataFusion takes them for what they are (as of DataFusion 55 and Arrow for Rust 59).

It panics at the array of a struct that has a struct below it, or of a fixed-size list of structs, whose first
row is not the first one of its buffers: slices of such arrays are copied. Of a struct that is NULL it takes
whatever lies in the arrays of its fields: where a caller has made the arrays, NULL is put there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lance_df.encodings.arrays import items_of, with_fields, with_items

if TYPE_CHECKING:
    from collections.abc import Sequence


def columns_to_copy(schema: pa.Schema) -> list[int]:
    """Return the positions of the columns whose slices cannot be imported."""
    return [index for index, field in enumerate(schema) if _has_inner_struct(field.type)]


def without_offsets(batch: pa.RecordBatch, columns: Sequence[int]) -> pa.RecordBatch:
    """Return a batch some columns of which are no slices."""
    slices = [index for index in columns if _is_slice(batch.column(index))]
    if not slices:
        return batch
    arrays = batch.columns
    for index in slices:
        arrays[index] = pa.concat_arrays([arrays[index]])
    return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)


def importable(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch of any origin for DataFusion to compute with."""
    if any(_has_struct(field.type) for field in batch.schema):
        columns = list(map(_with_nulls_below, batch.columns))
        batch = pa.RecordBatch.from_arrays(columns, schema=batch.schema)
    return without_offsets(batch, columns_to_copy(batch.schema))


def _with_nulls_below(values: pa.Array) -> pa.Array:
    """Return an array in which the fields of structs that are NULL are NULL, too."""
    data_type = values.type
    if not _has_struct(data_type):
        return values
    if _is_fixed_size(data_type) and values.offset:
        values = pa.concat_arrays([values])
    if pa.types.is_struct(data_type):
        children = list(map(_with_nulls_below, values.flatten()))
        return with_fields(values, data_type, children)
    items = items_of(values)
    return values if items is None else with_items(values, data_type, _with_nulls_below(items))


def _is_slice(values: pa.Array) -> bool:
    """Whether an array, or one below its structs and fixed-size lists, begins after its first row."""
    if values.offset:
        return True
    if pa.types.is_struct(values.type):
        return any(_is_slice(values.field(index)) for index in range(values.type.num_fields))
    return _is_fixed_size(values.type) and _is_slice(values.values)


def _has_struct(data_type: pa.DataType) -> bool:
    if pa.types.is_struct(data_type):
        return True
    return any(_has_struct(data_type.field(index).type) for index in range(data_type.num_fields))


def _is_fixed_size(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_fixed_size_list(data_type))


def _has_inner_struct(data_type: pa.DataType) -> bool:
    """Whether a struct comes below structs and fixed-size lists alone, at least one."""
    if _is_fixed_size(data_type):
        inner = [data_type.value_type]
    elif pa.types.is_struct(data_type):
        inner = [data_type.field(index).type for index in range(data_type.num_fields)]
    else:
        return False
    return any(pa.types.is_struct(each) or _has_inner_struct(each) for each in inner)
