"""Convert arrays to the storage types of a schema's fields before they are written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_df.encodings.arrays import with_fields
from lance_df.encodings.jsonb import encode_jsonb
from lance_df.errors import InvalidInputError
from lance_df.expr.text_views import as_texts, is_view
from lance_df.format.blobs import MOVED_BLOB

if TYPE_CHECKING:
    from lance_df.format.schema import Field


def conform_array(array: pa.Array, field: Field) -> pa.Array:
    """Convert an array to the field's storage type; buffers are shared if the types allow it.

    Parameters
    ----------
    array
        An array of the field's logical type. Struct fields are matched by name. At any level, nullability and
        extension types may differ, and views are accepted for strings and binaries. `MOVED_BLOB` values are
        kept.

    Raises
    ------
    InvalidInputError
        Views refer to more text than an array of strings can hold; see `parts_of_texts`.
    """
    return _conform(array, field, field.arrow_type())


def _conform(array: pa.Array, field: Field, wanted: pa.DataType) -> pa.Array:
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if array.type == wanted or (field.is_blob and array.type == MOVED_BLOB):
        return array
    if field.is_json:
        return encode_jsonb(array)
    if field.is_struct and field.is_blob:
        return _conform_blobs(array, wanted)
    if field.is_struct:
        children = [
            _conform(array.field(array.type.get_field_index(child.name)), child, child.arrow_type())
            for child in field.children
        ]
        fields = [
            child.to_arrow().with_type(values.type)
            for child, values in zip(field.children, children, strict=True)
        ]
        return with_fields(array, pa.struct(fields), children)
    if field.children:
        return _conform_items(array, field, wanted)
    return as_texts(array, wanted) if is_view(array.type) else array.cast(wanted)


def _conform_blobs(array: pa.Array, wanted: pa.StructType) -> pa.Array:
    """Convert blobs given as bytes, or with more or fewer description fields than the column."""
    given = {"data": array}
    if pa.types.is_struct(array.type):
        given = {field.name: array.field(i) for i, field in enumerate(array.type)}
        for name in given.keys() - {field.name for field in wanted}:
            if given[name].null_count < len(array):
                raise InvalidInputError(f"the blobs of this column have no field {name!r}")
    children = [
        given[field.name].cast(field.type) if field.name in given else pa.nulls(len(array), field.type)
        for field in wanted
    ]
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(wanted), mask=mask)


def _conform_items(array: pa.Array, field: Field, wanted: pa.DataType) -> pa.Array:
    """Convert the items of a list, map or fixed-size list; offsets and validity are unchanged."""
    (child,) = field.children
    valid = None
    if array.null_count:
        valid = pa.py_buffer(np.packbits(array.is_valid().to_numpy(zero_copy_only=False), bitorder="little"))
    if pa.types.is_fixed_size_list(wanted):
        size = wanted.list_size
        items, buffers = array.values.slice(array.offset * size, len(array) * size), [valid]
    else:
        items, buffers = array.values, [valid, pa.py_buffer(array.offsets.to_numpy())]
    conformed = _conform(items, child, child.arrow_type())
    if conformed.type != child.arrow_type() and field.is_list:
        kind = pa.large_list if pa.types.is_large_list(wanted) else pa.list_
        wanted = kind(wanted.value_field.with_type(conformed.type))
    return pa.Array.from_buffers(wanted, len(array), buffers, children=[conformed])
