"""Cast columns with structs, lists and maps, value by value.

Arrow's own cast has three faults. If a struct is null, it counts its fields as null, and refuses them if they
must not be null. It leaves out fields of structs that the other type lacks. It accepts null items that must
not be null.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.sliced_lists import unsliced

if TYPE_CHECKING:
    import numpy.typing as npt


def recast(
    column: pa.Array, wanted: pa.DataType, cast: Callable[[pa.Array, pa.DataType], pa.Array]
) -> pa.Array:
    """Return a column in another type. Fields of structs are matched by name; missing ones become null.

    Parameters
    ----------
    cast
        Casts columns that have neither fields nor items.

    Raises
    ------
    pyarrow.ArrowInvalid
        A struct has a field that the type lacks, or a value is null that must not be.
    """
    if column.type == wanted:
        return column
    if isinstance(column.type, pa.ExtensionType):
        return recast(column.storage, wanted, cast)
    types = pa.types
    if types.is_struct(wanted) and types.is_struct(column.type):
        return _struct(column, wanted, cast)
    if _is_list(wanted) and _is_list(column.type):
        items = _checked(column.flatten(), wanted.value_field)
        return _with_items(column, wanted, recast(items, wanted.value_type, cast))
    if types.is_map(wanted) and types.is_map(column.type):
        column, fields = _entries(column), [wanted.key_field, wanted.item_field]
        parts = [
            recast(_checked(part, field), field.type, cast)
            for part, field in zip(column.flatten().flatten(), fields, strict=True)
        ]
        return _with_items(column, wanted, pa.StructArray.from_arrays(parts, fields=fields))
    return cast(column, wanted)


def _struct(
    column: pa.StructArray, wanted: pa.StructType, cast: Callable[[pa.Array, pa.DataType], pa.Array]
) -> pa.StructArray:
    # flatten makes fields null wherever the struct is null
    given = dict(zip(column.type.names, column.flatten(), strict=True))
    unknown = [name for name in given if wanted.get_field_index(name) < 0]
    if unknown:
        raise pa.ArrowInvalid(f"field {unknown[0]!r} does not exist in {wanted}")
    children = []
    for field in wanted:
        child = given.get(field.name, pa.nulls(len(column), field.type))
        children.append(recast(_checked(child, field, column.null_count), field.type, cast))
    mask = column.is_null() if column.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(wanted), mask=mask)


def _checked(column: pa.Array, field: pa.Field, allowed: int = 0) -> pa.Array:
    if not field.nullable and column.null_count > allowed:
        raise pa.ArrowInvalid(f"{field.name!r} is not nullable, but a row has null")
    return column


def _is_list(data_type: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_list(data_type) or types.is_large_list(data_type) or types.is_fixed_size_list(data_type)
    )


def _entries(column: pa.MapArray) -> pa.ListArray:
    """Return maps as lists of structs, which Arrow's functions support."""
    fields = [column.type.key_field, column.type.item_field]
    entries = pa.StructArray.from_arrays([column.keys, column.items], fields=fields)
    buffers, offset = column.buffers()[:2], column.offset
    return pa.Array.from_buffers(
        pa.list_(entries.type), len(column), buffers, offset=offset, children=[entries]
    )


def _with_items(column: pa.Array, wanted: pa.DataType, items: pa.Array) -> pa.Array:
    """Return lists or maps with other items; ``items`` has the items of all lists that are not null.

    Raises
    ------
    pyarrow.ArrowInvalid
        The number of items in a list differs from the type's.
    """
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    sizes = np.where(valid, pc.fill_null(pc.list_value_length(column), 0).to_numpy(), 0)
    buffers = [pa.py_buffer(np.packbits(valid, bitorder="little")) if column.null_count else None]
    if pa.types.is_fixed_size_list(wanted):
        items = _with_room(items, wanted, sizes, valid)
    else:
        offsets = np.zeros(len(column) + 1, np.int64 if pa.types.is_large_list(wanted) else np.int32)
        np.cumsum(sizes, out=offsets[1:])
        buffers.append(pa.py_buffer(offsets))
    return pa.Array.from_buffers(wanted, len(column), buffers, children=[items])


def _with_room(
    items: pa.Array, wanted: pa.FixedSizeListType, sizes: npt.NDArray[Any], valid: npt.NDArray[np.bool_]
) -> pa.Array:
    """Return items of fixed-size lists, with null items for lists that are null.

    A null list has as many items as any other. Arrow's cast to such lists reads beyond the existing items.
    """
    size = wanted.list_size
    other = sizes[valid & (sizes != size)]
    if len(other):
        raise pa.ArrowInvalid(f"a list has {other[0]} items, but the table requires {size}")
    if valid.all():
        return items
    is_there = np.repeat(valid, size)
    return unsliced(items).take(pa.array(np.cumsum(is_there) - 1, mask=~is_there))
