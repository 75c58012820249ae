"""Make Arrow arrays from buffers whose sizes have been checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.encodings.text import check_utf8
from lance_df.errors import CorruptDataError, InvalidInputError, UnsupportedFeatureError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt

T = TypeVar("T")

_INT32_MAX = 2**31 - 1


class OversizedArrayError(InvalidInputError, UnsupportedFeatureError):
    """Rows do not fit into one array of their type; fewer rows may fit."""


def in_halves(read: Callable[[int, int], T], start: int, stop: int) -> Iterator[T]:
    """Yield the rows from ``start`` to ``stop`` (exclusive), in as few parts as arrays can hold by halving.

    Raises
    ------
    OversizedArrayError
        A single row does not fit.
    """
    try:
        result = read(start, stop)
    except OversizedArrayError:
        if stop - start < 2:
            raise
    else:
        yield result
        return
    middle = (start + stop) // 2
    yield from in_halves(read, start, middle)
    yield from in_halves(read, middle, stop)


def fixed_width_bits(data_type: pa.DataType) -> int | None:
    """Return the bits of one value, or None for types without a fixed width."""
    if pa.types.is_fixed_size_list(data_type):
        bits = fixed_width_bits(data_type.value_type)
        return None if bits is None else bits * data_type.list_size
    if pa.types.is_null(data_type) or pa.types.is_dictionary(data_type):
        return None
    if pa.types.is_fixed_size_binary(data_type):
        return int(data_type.byte_width) * 8  # pyarrow's bit width is limited to 32 bits
    try:
        return int(data_type.bit_width)
    except ValueError:
        return None


def fixed_array(data_type: pa.DataType, num_values: int, data: pa.Buffer) -> pa.Array:
    """Return values without nulls. ``data`` must have enough bytes, and is viewed if aligned."""
    if pa.types.is_fixed_size_list(data_type):
        items = fixed_array(data_type.value_type, num_values * data_type.list_size, data)
        return fixed_size_lists(data_type, num_values, items)
    return pa.Array.from_buffers(data_type, num_values, [None, aligned(data, data_type)], null_count=0)


def fixed_size_lists(data_type: pa.DataType, num_values: int, items: pa.Array) -> pa.Array:
    """Return lists without nulls of ``num_values * list_size`` items."""
    return pa.Array.from_buffers(data_type, num_values, [None], null_count=0, children=[items])


def items_of(values: pa.Array) -> pa.Array | None:
    """Return all items that lists refer to, or the values of a map; None for other types."""
    kinds = pa.types
    if kinds.is_map(values.type):
        return values.items
    is_list = kinds.is_list(values.type) or kinds.is_large_list(values.type)
    return values.values if is_list or kinds.is_fixed_size_list(values.type) else None


def with_items(values: pa.Array, data_type: pa.DataType, items: pa.Array) -> pa.Array:
    """Return lists or maps with their items replaced, as many as `items_of` returns.

    Parameters
    ----------
    data_type
        The type of the result; it may differ only in the type of the items.
    """
    if pa.types.is_map(data_type):
        fields = [data_type.key_field, data_type.item_field]
        items = pa.StructArray.from_arrays([values.keys, items], fields=fields)
    buffers = values.buffers()[: 1 if pa.types.is_fixed_size_list(data_type) else 2]
    return pa.Array.from_buffers(
        data_type, len(values), buffers, values.null_count, values.offset, children=[items]
    )


def variable_array(
    data_type: pa.DataType, ends: npt.NDArray[np.int64], data: pa.Buffer, valid: pa.Buffer | None
) -> pa.Array:
    """Return strings or binaries.

    Parameters
    ----------
    data_type
        One of the string and binary types.
    ends
        0, then the end of each value in ``data``; they ascend and lie within ``data``.
    data
        The bytes, which are viewed, not copied.
    valid
        The validity bitmap; None if there are no nulls.

    Raises
    ------
    CorruptDataError
        A string is not UTF-8.
    InvalidInputError
        More than 2 GiB in a type with 32-bit offsets.
    """
    text = pa.types.is_string(data_type) or pa.types.is_large_string(data_type)
    if text:
        check_utf8(data, ends)
    large = pa.types.is_large_string(data_type) or pa.types.is_large_binary(data_type)
    if not large and not (text or pa.types.is_binary(data_type)):
        raise CorruptDataError(f"expected values of type {data_type}, found values of variable width")
    offsets = ends if large else _offsets_32(ends)
    return pa.Array.from_buffers(data_type, len(ends) - 1, [valid, pa.py_buffer(offsets), data])


def list_array(
    data_type: pa.DataType, ends: npt.NDArray[np.int64], items: pa.Array, valid: pa.Buffer | None
) -> pa.Array:
    """Return lists. ``ends`` has 0, then the end of each list in ``items``, ascending."""
    offsets = ends if pa.types.is_large_list(data_type) else _offsets_32(ends)
    return pa.Array.from_buffers(data_type, len(ends) - 1, [valid, pa.py_buffer(offsets)], children=[items])


def struct_array(data_type: pa.DataType, num_values: int, children: Sequence[pa.Array]) -> pa.Array:
    """Return structs without nulls."""
    return pa.Array.from_buffers(data_type, num_values, [None], null_count=0, children=list(children))


def with_fields(structs: pa.Array, data_type: pa.DataType, children: Sequence[pa.Array]) -> pa.Array:
    """Return structs with the validity of ``structs``; the type may also have no fields."""
    valid = structs.is_valid().buffers()[1] if structs.null_count else None
    return pa.Array.from_buffers(data_type, len(structs), [valid], children=list(children))


def null_array(data_type: pa.DataType, num_values: int) -> pa.Array:
    """Return an array of nulls. Its zeroed memory is never written to, so the system does not allocate it.

    Raises
    ------
    InvalidInputError
        More rows than this machine can address.
    """
    try:
        return _null_array(data_type, num_values)
    except (MemoryError, ValueError, OverflowError) as err:
        raise InvalidInputError(f"{num_values} rows are too many for one array of {data_type}") from err


def _null_array(data_type: pa.DataType, num_values: int) -> pa.Array:
    types = pa.types
    valid = _zeros((num_values + 7) // 8)
    if types.is_null(data_type):
        return pa.nulls(num_values)
    if (bits := fixed_width_bits(data_type)) is not None:
        return with_validity_bitmap(
            fixed_array(data_type, num_values, _zeros((num_values * bits + 7) // 8)), valid
        )
    if types.is_struct(data_type):
        children = [_null_array(child.type, num_values) for child in data_type]
        return pa.Array.from_buffers(data_type, num_values, [valid], children=children)
    if types.is_fixed_size_list(data_type):
        items = _null_array(data_type.value_type, num_values * data_type.list_size)
        return pa.Array.from_buffers(data_type, num_values, [valid], children=[items])
    if types.is_dictionary(data_type):
        indices = _null_array(data_type.index_type, num_values)
        values = empty_array(data_type.value_type)
        return pa.DictionaryArray.from_arrays(indices, values, ordered=data_type.ordered)
    wide = (
        types.is_large_string(data_type) or types.is_large_binary(data_type) or types.is_large_list(data_type)
    )
    offsets = _zeros((num_values + 1) * (8 if wide else 4))
    if types.is_list(data_type) or types.is_large_list(data_type):
        items = empty_array(data_type.value_type)
        return pa.Array.from_buffers(data_type, num_values, [valid, offsets], children=[items])
    if types.is_map(data_type):
        entries = empty_array(pa.struct([data_type.key_field, data_type.item_field]))
        return pa.Array.from_buffers(data_type, num_values, [valid, offsets], children=[entries])
    return pa.Array.from_buffers(data_type, num_values, [valid, offsets, pa.py_buffer(b"")])


def with_validity_bitmap(array: pa.Array, bitmap: pa.Buffer) -> pa.Array:
    """Return ``array``, which starts at offset 0 as its children do, with null where the bitmap has 0.

    The fields of structs are null there too, because engines read a field without its struct.
    """
    data_type = array.type
    if pa.types.is_null(data_type):
        return array
    if array.null_count or pa.types.is_dictionary(data_type):
        valid = pa.Array.from_buffers(pa.bool_(), len(array), [None, bitmap])
        return pc.if_else(valid, array, pa.scalar(None, data_type))
    if pa.types.is_fixed_size_list(data_type):
        return pa.Array.from_buffers(data_type, len(array), [bitmap], children=[array.values])
    if pa.types.is_struct(data_type):
        children = [with_validity_bitmap(array.field(index), bitmap) for index in range(data_type.num_fields)]
        return pa.Array.from_buffers(data_type, len(array), [bitmap], children=children)
    return pa.Array.from_buffers(data_type, len(array), [bitmap, *array.buffers()[1:]])


def concat_arrays(arrays: Sequence[pa.Array], data_type: pa.DataType) -> pa.Array:
    """Concatenate arrays; a single one is returned as is.

    Raises
    ------
    OversizedArrayError
        The result does not fit into one array: more than 2 GiB of strings, more than 2**31 - 1 items, or more
        dictionary values than indices can number.
    """
    if len(arrays) == 1:
        return arrays[0]
    if not arrays:
        return empty_array(data_type)
    if pa.types.is_dictionary(data_type):
        return _concat_dictionaries(arrays, data_type)
    try:
        return pa.concat_arrays(arrays)
    except pa.ArrowException:
        if not holds_dictionary(data_type):
            raise _too_large(data_type) from None
    try:
        return pa.concat_arrays(list(map(_with_used_values, arrays)))
    except pa.ArrowException as err:
        raise _too_large(data_type) from err


def one_array(values: pa.ChunkedArray | pa.Array) -> pa.Array:
    """Return values as one array. Raises as `concat_arrays`."""
    return values if isinstance(values, pa.Array) else concat_arrays(values.chunks, values.type)


def holds_dictionary(data_type: pa.DataType) -> bool:
    """Return whether a type is a dictionary, or has one below structs, lists or maps."""
    if pa.types.is_dictionary(data_type):
        return True
    return any(holds_dictionary(data_type.field(index).type) for index in range(data_type.num_fields))


def _with_used_values(values: pa.Array) -> pa.Array:
    """Return values whose dictionaries have no NULL and no unused values, so that pyarrow can join them."""
    data_type = values.type
    if not holds_dictionary(data_type):
        return values
    if pa.types.is_dictionary(data_type):
        return _coded(values.dictionary_decode(), data_type)
    if pa.types.is_struct(data_type):
        children = [_with_used_values(values.field(index)) for index in range(data_type.num_fields)]
        return with_fields(values, data_type, children)
    items = items_of(values)
    return values if items is None else with_items(values, data_type, _with_used_values(items))


def _too_large(data_type: pa.DataType) -> OversizedArrayError:
    return OversizedArrayError(f"the rows do not fit into one array of {data_type}; read fewer rows")


def has_nulls(array: pa.Array) -> bool:
    """Whether a value is null, also by an index of a dictionary's value that is null."""
    if isinstance(array, pa.DictionaryArray) and array.dictionary.null_count:
        return bool(array.is_null().true_count)
    return bool(array.null_count)


def empty_array(data_type: pa.DataType) -> pa.Array:
    """Return an array without values."""
    return pa.array([], data_type)


def _concat_dictionaries(arrays: Sequence[pa.Array], data_type: pa.DataType) -> pa.Array:
    if all(array.dictionary.equals(arrays[0].dictionary) for array in arrays[1:]):
        indices = pa.concat_arrays([array.indices for array in arrays])
        return pa.DictionaryArray.from_arrays(indices, arrays[0].dictionary, ordered=data_type.ordered)
    return _coded(pa.concat_arrays([array.dictionary_decode() for array in arrays]), data_type)


def _coded(values: pa.Array, data_type: pa.DataType) -> pa.DictionaryArray:
    """Dictionary-encode values with only those that occur."""
    encoded = values.dictionary_encode()
    try:
        indices = encoded.indices.cast(data_type.index_type)
    except pa.ArrowInvalid as err:
        raise OversizedArrayError(
            f"the pages have {len(encoded.dictionary)} different dictionary values, more than indices of "
            f"type {data_type.index_type} can address; read fewer rows"
        ) from err
    return pa.DictionaryArray.from_arrays(indices, encoded.dictionary, ordered=data_type.ordered)


def _offsets_32(ends: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    if len(ends) and int(ends[-1]) > _INT32_MAX:
        raise OversizedArrayError(
            f"the rows hold {int(ends[-1])} bytes or items, but an array of this type holds at most "
            f"{_INT32_MAX}; read fewer rows"
        )
    return ends.astype(np.int32)


def _zeros(num_bytes: int) -> pa.Buffer:
    return pa.py_buffer(np.zeros(num_bytes, np.uint8))


def aligned(data: pa.Buffer, data_type: pa.DataType) -> pa.Buffer:
    """Return ``data``, copied if its address lacks the alignment that engines expect of the type."""
    return data if is_aligned(data, data_type) else pa.py_buffer(data.to_pybytes())


def is_aligned(data: pa.Buffer, data_type: pa.DataType) -> bool:
    """Whether the address of fixed-width values has the alignment that engines expect of the type."""
    if pa.types.is_fixed_size_binary(data_type):
        return True
    # DataFusion and Lance panic at wide decimals that have the alignment of words
    widest = 16 if pa.types.is_decimal(data_type) else 8
    return data.address % max(1, min(data_type.bit_width // 8, widest)) == 0
