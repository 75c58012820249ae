"""Copy nested arrays that DataFusion would misread (as of DataFusion 55 and Arrow for Rust 59).

DataFusion panics at an array of structs within structs, or of fixed-size lists of structs, whose first row is
not the first one of its buffers, so slices of such arrays are copied. For a NULL struct, it reads the arrays
of the fields, whatever they contain, so NULL is written into fields of arrays that a caller has made.
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
    """Return a batch in which the given columns are not slices."""
    slices = [index for index in columns if _is_slice(batch.column(index))]
    if not slices:
        return batch
    arrays = batch.columns
    for index in slices:
        arrays[index] = pa.concat_arrays([arrays[index]])
    return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)


def importable(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch of any origin in a form that DataFusion can compute with."""
    if any(_has_struct(field.type) for field in batch.schema):
        columns = list(map(_with_nulls_below, batch.columns))
        batch = pa.RecordBatch.from_arrays(columns, schema=batch.schema)
    return without_offsets(batch, columns_to_copy(batch.schema))


def _with_nulls_below(values: pa.Array) -> pa.Array:
    """Return an array in which the fields of NULL structs are NULL too."""
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
    """Whether an array, or one below its structs and fixed-size lists, has an offset."""
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
    """Whether a type has a struct below one or more structs and fixed-size lists."""
    if _is_fixed_size(data_type):
        inner = [data_type.value_type]
    elif pa.types.is_struct(data_type):
        inner = [data_type.field(index).type for index in range(data_type.num_fields)]
    else:
        return False
    return any(pa.types.is_struct(each) or _has_inner_struct(each) for each in inner)
