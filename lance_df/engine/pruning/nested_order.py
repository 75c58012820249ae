"""The order of lists and structs in DataFusion's comparisons.

Lists are compared element by element; a list is less than a longer list that begins with it. Structs are
compared field by field, and maps are compared as lists of structs. Inside them, NULL equals NULL and is less
than all values, and floats are in IEEE 754's total order, in which -0.0 is less than 0.0.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.errors import UnsupportedFeatureError
from lance_df.expr.floats import bit_values, float_values
from lance_df.expr.literals import plain_array, without_views

Signs: TypeAlias = npt.NDArray[np.int8]
_Rows: TypeAlias = npt.NDArray[np.int64]


def is_nested(data_type: pa.DataType) -> bool:
    """Return whether values of a type contain other values."""
    return bool(pa.types.is_nested(data_type))


def compared(left: pa.Array, right: pa.Array) -> Signs:
    """Return -1, 0 or 1 for each row: the left value is less than, equal to or greater than the right one.

    Parameters
    ----------
    left, right
        Arrays of the same length. NULL is less than all values and equals NULL.

    Raises
    ------
    UnsupportedFeatureError
        Values of these types cannot be ordered.
    """
    rows = np.arange(len(left))
    return _compared(left, rows, right, rows)


def _compared(left: pa.Array, left_rows: _Rows, right: pa.Array, right_rows: _Rows) -> Signs:
    """Compare rows of two arrays, given by their row numbers."""
    left, right = plain_array(left), plain_array(right)
    signs = np.zeros(len(left_rows), np.int8)
    is_valid = [_valid(left)[left_rows], _valid(right)[right_rows]]
    signs[:] = is_valid[0].astype(np.int8) - is_valid[1].astype(np.int8)
    (both,) = np.nonzero(is_valid[0] & is_valid[1])
    if not len(both):
        return signs
    lefts, rights = left_rows[both], right_rows[both]
    if pa.types.is_struct(left.type) and pa.types.is_struct(right.type):
        signs[both] = _structs(left, lefts, right, rights)
    elif is_nested(left.type) and is_nested(right.type):
        signs[both] = _lists(left, lefts, right, rights)
    else:
        signs[both] = _values(left, lefts, right, rights)
    return signs


def _structs(left: pa.StructArray, left_rows: _Rows, right: pa.StructArray, right_rows: _Rows) -> Signs:
    if left.type.num_fields != right.type.num_fields:
        raise _no_order(left, right)
    signs = np.zeros(len(left_rows), np.int8)
    for number in range(left.type.num_fields):
        (tied,) = np.nonzero(signs == 0)
        if not len(tied):
            break
        signs[tied] = _compared(left.field(number), left_rows[tied], right.field(number), right_rows[tied])
    return signs


def _lists(left: pa.Array, left_rows: _Rows, right: pa.Array, right_rows: _Rows) -> Signs:
    left_starts, left_sizes = _extents(left, left_rows)
    right_starts, right_sizes = _extents(right, right_rows)
    signs = np.sign(left_sizes - right_sizes).astype(np.int8)
    shorter = np.minimum(left_sizes, right_sizes)
    # compares all pairs of items at once; the first pair that differs decides
    ends = np.cumsum(shorter)
    within = np.arange(int(shorter.sum())) - np.repeat(ends - shorter, shorter)
    items = _compared(
        _items(left),
        np.repeat(left_starts, shorter) + within,
        _items(right),
        np.repeat(right_starts, shorter) + within,
    )
    (differing,) = np.nonzero(items)
    lists, firsts = np.unique(np.searchsorted(ends, differing, side="right"), return_index=True)
    signs[lists] = items[differing[firsts]]
    return signs


def _extents(values: pa.Array, rows: _Rows) -> tuple[_Rows, _Rows]:
    """Return the start and the number of items of each of some lists."""
    kinds = pa.types
    if kinds.is_fixed_size_list(values.type):
        size = values.type.list_size
        return (rows + values.offset) * size, np.full(len(rows), size, np.int64)
    if kinds.is_list_view(values.type) or kinds.is_large_list_view(values.type):
        starts = values.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
        return starts[rows], values.sizes.to_numpy(zero_copy_only=False).astype(np.int64)[rows]
    if not (kinds.is_list(values.type) or kinds.is_large_list(values.type) or kinds.is_map(values.type)):
        raise _no_order(values, values)
    ends = values.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
    return ends[rows], ends[rows + 1] - ends[rows]


def _items(values: pa.Array) -> pa.Array:
    """Return the array of all items, to which the offsets refer."""
    if pa.types.is_map(values.type):
        return pa.StructArray.from_arrays([values.keys, values.items], ["key", "value"])
    return values.values


def _values(left: pa.Array, left_rows: _Rows, right: pa.Array, right_rows: _Rows) -> Signs:
    one, other = (
        without_views(left).take(pa.array(left_rows)),
        without_views(right).take(pa.array(right_rows)),
    )
    if pa.types.is_floating(one.type) and pa.types.is_floating(other.type):
        wide = one.type if one.type == other.type else pa.float64()
        keys = _total_order(one.cast(wide)), _total_order(other.cast(wide))
        return (keys[0] > keys[1]).astype(np.int8) - (keys[0] < keys[1])
    try:
        greater, less = pc.greater(one, other), pc.less(one, other)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as err:
        raise _no_order(left, right) from err
    signs: Signs = _bits(greater).astype(np.int8) - _bits(less).astype(np.int8)
    return signs


def _total_order(values: pa.Array) -> npt.NDArray[np.signedinteger]:
    bits = bit_values(np.ascontiguousarray(float_values(values)))
    limits = np.iinfo(bits.dtype)
    ordered: npt.NDArray[np.signedinteger] = bits ^ ((bits >> (limits.bits - 1)) & limits.max)
    return ordered


def _valid(values: pa.Array) -> npt.NDArray[np.bool_]:
    return _bits(values.is_valid())


def _bits(values: pa.BooleanArray) -> npt.NDArray[np.bool_]:
    bits: npt.NDArray[np.bool_] = values.to_numpy(zero_copy_only=False)
    return bits


def _no_order(left: pa.Array, right: pa.Array) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"values of type {left.type} and {right.type} cannot be compared in a filter"
    )
