"""Convert leaf arrays to the plain buffers that encoders work on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.format.encodings_v2_1 import Encoding, Flat, PackedStruct, Variable
from lance_df.records import dataclass

Bytes: TypeAlias = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class FixedValues:
    """Values of whole bytes, back to back; ``row_encoding`` gives their parts unless each is one number."""

    data: Bytes
    width_bytes: int
    row_encoding: PackedStruct | None = None

    @property
    def encoding(self) -> Encoding:
        return self.row_encoding or Flat(self.width_bytes * 8)

    @property
    def words(self) -> npt.NDArray[np.unsignedinteger]:
        """The values as unsigned integers, for widths of 1, 2, 4 and 8 bytes."""
        return self.data.view(f"<u{self.width_bytes}")

    def __len__(self) -> int:
        return len(self.data) // self.width_bytes if self.width_bytes else 0


@dataclass(frozen=True, slots=True)
class BooleanValues:
    """One bit for each value, least significant first."""

    bitmap: Bytes
    count: int

    def __len__(self) -> int:
        return self.count


@dataclass(frozen=True, slots=True)
class VariableValues:
    """Byte strings: ``offsets`` has one entry more than there are values and starts with 0.

    ``wrap`` returns the encoding of each value, given the encoding of the compressed strings.
    """

    offsets: npt.NDArray[np.int64]
    data: Bytes
    offset_bits: int
    wrap: Callable[[Encoding], Encoding] | None = None

    @property
    def encoding(self) -> Encoding:
        plain = Variable(self.offset_bits)
        return plain if self.wrap is None else self.wrap(plain)

    @property
    def num_bytes(self) -> int:
        """The bytes of the values and of their offsets."""
        return len(self.data) + len(self) * self.offset_bits // 8

    def __len__(self) -> int:
        return len(self.offsets) - 1


@dataclass(frozen=True, slots=True)
class ItemLayer:
    """One level of a fixed-size list: the items of a list, and which of all items are valid (None: all)."""

    dimension: int
    validity: npt.NDArray[np.bool_] | None


@dataclass(frozen=True, slots=True)
class FixedListValues:
    """Fixed-size lists of primitives: ``layers``, outermost first, and ``items``, flattened."""

    layers: tuple[ItemLayer, ...]
    items: FixedValues | BooleanValues
    count: int

    def __len__(self) -> int:
        return self.count


LeafValues: TypeAlias = FixedValues | BooleanValues | VariableValues | FixedListValues


def leaf_values(array: pa.Array, valid: npt.NDArray[np.bool_] | None = None) -> LeafValues:
    """Return the buffers of an array of a leaf's storage type, as views where possible.

    If ``valid`` is false or the array is null, the value is arbitrary, or empty if of variable width.
    """
    types = pa.types
    data_type = array.type
    if types.is_boolean(data_type):
        return BooleanValues(_bitmap(pc.fill_null(array, False)), len(array))
    if types.is_fixed_size_list(data_type):
        return _fixed_lists(array)
    if is_variable(data_type):
        return _variable(array, valid)
    width = data_type.byte_width
    return FixedValues(_slice(array.buffers()[1], array.offset * width, len(array) * width), width)


def is_variable(data_type: pa.DataType) -> bool:
    """Whether values have variable width."""
    types = pa.types
    return bool(
        types.is_string(data_type)
        or types.is_binary(data_type)
        or types.is_large_string(data_type)
        or types.is_large_binary(data_type)
    )


def pack_bits(flags: npt.NDArray[np.bool_]) -> Bytes:
    """Return an Arrow bitmap, least significant bit first."""
    return np.packbits(flags, bitorder="little")


def _bitmap(array: pa.Array) -> Bytes:
    return pack_bits(array.to_numpy(zero_copy_only=False).astype(np.bool_, copy=False))


def _variable(array: pa.Array, valid: npt.NDArray[np.bool_] | None) -> VariableValues:
    large = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    if valid is not None and not valid.all():
        # in Arrow nulls may own bytes, especially those below a null struct
        array = pc.if_else(pa.array(valid), array, pa.scalar(b"").cast(array.type))
    dtype = np.dtype(np.int64 if large else np.int32)
    _, offset_buffer, data_buffer = array.buffers()
    if not len(array):
        return VariableValues(np.zeros(1, np.int64), np.zeros(0, np.uint8), dtype.itemsize * 8)
    offsets = np.frombuffer(offset_buffer, dtype, len(array) + 1, array.offset * dtype.itemsize)
    first = int(offsets[0])
    data = _slice(data_buffer, first, int(offsets[-1]) - first)
    return VariableValues(offsets.astype(np.int64) - first, data, dtype.itemsize * 8)


def _fixed_lists(array: pa.Array) -> FixedListValues:
    layers: list[ItemLayer] = []
    current, count = array, len(array)
    while pa.types.is_fixed_size_list(current.type):
        size = current.type.list_size
        current = current.values.slice(current.offset * size, len(current) * size)
        validity = current.is_valid().to_numpy(zero_copy_only=False) if current.null_count else None
        layers.append(ItemLayer(size, validity))
    if pa.types.is_null(current.type):
        # Arrow stores no validity for null type arrays, Lance stores only validity for them
        layers[-1] = ItemLayer(size, np.zeros(len(current), np.bool_))
        return FixedListValues(tuple(layers), FixedValues(np.zeros(0, np.uint8), 0), count)
    items = leaf_values(current)
    if not isinstance(items, FixedValues | BooleanValues):
        raise TypeError(f"not a fixed-width type: {current.type}")
    return FixedListValues(tuple(layers), items, count)


def _slice(buffer: pa.Buffer | None, start: int, num_bytes: int) -> Bytes:
    if buffer is None or not num_bytes:
        return np.zeros(num_bytes, np.uint8)
    return np.frombuffer(buffer, np.uint8, num_bytes, start)
