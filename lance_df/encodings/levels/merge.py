"""Join the path arrays of sibling leaves into one nested array."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lance_df.encodings.levels.shape import Group, Leaf, Shape, leaves
from lance_df.errors import CorruptDataError, UnsupportedFeatureError

if TYPE_CHECKING:
    from collections.abc import Sequence


def merge(shape: Shape, paths: Sequence[pa.Array | None], count: int) -> pa.Array:
    """Return one array of ``shape.data_type``.

    Parameters
    ----------
    paths
        One array for each leaf, depth first; None for empty structs, which take the shape of their siblings.
        The lists and structs above leaves start at offset 0.
    count
        The number of values of the result.

    Raises
    ------
    CorruptDataError
        Leaves disagree about their common ancestors.
    UnsupportedFeatureError
        Lists contain only empty structs, so their lengths are not stored.
    """
    if isinstance(shape, Leaf):
        (values,) = paths
        return _leaf(shape, values, count)
    known = [path for path in paths if path is not None]
    for path in known:
        if len(path) != count:
            raise CorruptDataError(f"one column of a nested field has {len(path)} values, expected {count}")
    if shape.kind == "struct":
        return _struct(shape, paths, known, count)
    if not known:
        raise UnsupportedFeatureError(
            "lists of structs without fields are not supported, because their lengths are not stored"
        )
    return _list(shape, paths, known)


def _leaf(leaf: Leaf, values: pa.Array | None, count: int) -> pa.Array:
    if values is None:
        return pa.Array.from_buffers(leaf.data_type, count, [None], null_count=0, children=[])
    if len(values) != count:
        raise CorruptDataError(f"one column of a nested field has {len(values)} values, expected {count}")
    if leaf.selected_children is None:
        return values
    children = [values.field(number) for number in leaf.selected_children]
    mask = values.is_null() if values.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(leaf.data_type), mask=mask)


def _struct(
    shape: Group, paths: Sequence[pa.Array | None], known: Sequence[pa.Array], count: int
) -> pa.Array:
    children, position = [], 0
    for child in shape.children:
        stop = position + sum(1 for _ in leaves(child))
        child_paths = [None if path is None else path.field(0) for path in paths[position:stop]]
        children.append(merge(child, child_paths, count))
        position = stop
    if not known:
        return pa.Array.from_buffers(shape.data_type, count, [None], null_count=0, children=children)
    return _like(known[0], shape.data_type, children)


def _list(shape: Group, paths: Sequence[pa.Array | None], known: Sequence[pa.Array]) -> pa.Array:
    (child,) = shape.children
    first = known[0]
    for other in known[1:]:
        if shape.kind != "fixed_size_list" and other.offsets != first.offsets:
            raise CorruptDataError("the columns of a list disagree about its lengths")
    num_items = len(first.values)
    items = merge(child, [None if path is None else path.values for path in paths], num_items)
    if shape.kind == "map" and (items.null_count or items.field(0).null_count):
        raise CorruptDataError("a map has a null key or entry")
    return _like(first, shape.data_type, [items])


def _like(array: pa.Array, data_type: pa.DataType, children: Sequence[pa.Array]) -> pa.Array:
    """Return an array with the validity and offsets of ``array``, and with other children."""
    num_buffers = 2 if not (pa.types.is_struct(data_type) or pa.types.is_fixed_size_list(data_type)) else 1
    buffers = array.buffers()[:num_buffers]
    return pa.Array.from_buffers(
        data_type, len(array), buffers, array.null_count, array.offset, children=list(children)
    )
