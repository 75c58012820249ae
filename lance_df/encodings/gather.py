"""Take values of arrays by position, faster than Arrow where that pays off."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.encodings import kernels
from lance_df.encodings.kernels import gather, gather_strings
from lance_df.errors import CorruptDataError, InvalidInputError
from lance_df.sliced_lists import unsliced

Positions: TypeAlias = npt.NDArray[np.integer[Any]]
_Bytes: TypeAlias = npt.NDArray[np.uint8]

# For fewer values, numpy or Arrow is as fast as kernels.
FEW = 4096
# The bytes that a kernel may write beyond the positions that it finds.
_ROOM = 8
_PADDED_BYTES = (16, 24, 32)
_WORD_BYTES = (1, 2, 4, 8, 16)
_PAIR_BYTES = 16
_INT32_MAX = 2**31 - 1
_NOTHING = np.empty(0, np.uint8)
_NO_LENGTHS = np.empty(0, np.int32)
# By type id, whatever the unit or precision: asking pyarrow takes longer than a short gather.
_OFFSET_BYTES = {
    kind.id: width
    for width, kinds in {4: (pa.string(), pa.binary()), 8: (pa.large_string(), pa.large_binary())}.items()
    for kind in kinds
}
_VIEWS = pa.string_view().id, pa.binary_view().id
_BYTES_OF_WORDS = {
    kind.id: width
    for width, kinds in {
        1: (pa.int8(), pa.uint8()),
        2: (pa.int16(), pa.uint16(), pa.float16()),
        4: (pa.int32(), pa.uint32(), pa.float32(), pa.date32(), pa.time32("s")),
        8: (
            *(pa.int64(), pa.uint64(), pa.float64(), pa.date64()),
            *(pa.time64("us"), pa.timestamp("us"), pa.duration("us")),
        ),
        16: (pa.decimal128(38, 0), pa.month_day_nano_interval(), pa.string_view(), pa.binary_view()),
    }.items()
    for kind in kinds
}


def find_positions(mask: npt.NDArray[np.bool_], count: int, *, wanted: bool = True) -> npt.NDArray[np.int64]:
    """Return the positions of the flags equal to ``wanted``; ``count`` is their number."""
    if not kernels.COMPILED:
        return np.flatnonzero(mask if wanted else ~mask)
    positions = np.empty(count + _ROOM, np.int64)
    gather.find_positions(np.ascontiguousarray(mask).view(np.uint8), wanted, positions)
    return positions[:count]


def take(values: pa.Array, positions: npt.NDArray[np.int64]) -> pa.Array:
    """Return the values at ``positions``; the caller guarantees that all lie within ``values``.

    Raises
    ------
    InvalidInputError
        The strings are too long for one array.
    """
    width = word_bytes(values.type)
    if width:
        taken = _take_fixed(values, width, positions)
    elif _offset_bytes(values.type) and kernels.COMPILED:
        taken = _Variable(values).look_up(positions)
    else:
        return take_few(values, positions)
    if not values.null_count:
        return taken
    valid, num_nulls = _take_validity(values, positions)
    return pa.Array.from_buffers(
        values.type, len(taken), [valid if num_nulls else None, *taken.buffers()[1:]], null_count=num_nulls
    )


def _take_fixed(values: pa.Array, width: int, positions: npt.NDArray[np.int64]) -> pa.Array:
    """Return the values at positions without their nulls: null values are arbitrary."""
    _, data, *shared = values.buffers()
    taken = take_words(data, width, positions, first=values.offset)
    return pa.Array.from_buffers(values.type, len(positions), [None, taken, *shared], null_count=0)


def _take_validity(values: pa.Array, positions: npt.NDArray[np.int64]) -> tuple[pa.Buffer, int]:
    """Return the bitmap of ``values``, which have nulls, at ``positions``, and the number of nulls in it."""
    count = len(positions)
    bits = _bytes_of(values.buffers()[0])
    if not kernels.COMPILED:
        shifted = positions + values.offset
        valid = (bits[shifted >> 3] >> (shifted & 7).astype(np.uint8)) & 1
        return pa.py_buffer(np.packbits(valid, bitorder="little")), count - int(np.count_nonzero(valid))
    bitmap = pa.allocate_buffer(-(-count // 8))
    num_valid = gather.gather_bits(bits, values.offset, np.ascontiguousarray(positions), _bytes_of(bitmap))
    return bitmap, count - num_valid


def take_few(values: pa.Array, positions: Positions) -> pa.Array:
    """Return the values at positions by Arrow's own take, at half the cost of a call."""
    taken: pa.Array = pc.get_function("array_take").call([unsliced(values), pa.array(positions)])
    return taken


def take_words(data: pa.Buffer, width: int, positions: Positions, *, first: int = 0) -> pa.Buffer:
    """Return values of ``width`` bytes back to back; the caller guarantees that they lie within ``data``.

    Parameters
    ----------
    first
        The number of the value in ``data`` from which positions count.
    """
    return _take_words(_bytes_of(data)[first * width :], width, positions)


def _take_words(values: _Bytes, width: int, positions: Positions) -> pa.Buffer:
    count = len(positions)
    if not kernels.COMPILED or width not in _WORD_BYTES:
        words = values[: len(values) // width * width].view(f"V{width}")
        return pa.py_buffer(words.take(positions, mode="clip") if count else b"")
    taken = pa.allocate_buffer(count * width)
    gather.gather_values(values, width, *_numbers(positions), _bytes_of(taken))
    return taken


def _bytes_of(buffer: pa.Buffer | None) -> _Bytes:
    """Return a view of the bytes of a buffer, which may be None."""
    return np.frombuffer(buffer, np.uint8) if buffer is not None and buffer.size else _NOTHING


def _numbers(positions: Positions) -> tuple[_Bytes, int]:
    """Return the bytes of all positions, and the width of one."""
    return np.ascontiguousarray(positions).view(np.uint8), positions.itemsize


class Lookup:
    """The values of a dictionary, prepared for look-ups.

    Parameters
    ----------
    values
        The values. Nulls are allowed only if :meth:`look_up` is never called for them.
    """

    __slots__ = ("_table", "values")

    def __init__(self, values: pa.Array) -> None:
        self.values = values
        width = word_bytes(values.type)
        self._table: _Fixed | _Variable | None = None
        if width:
            self._table = _Fixed(values, width)
        elif _offset_bytes(values.type) and kernels.COMPILED:
            self._table = _Variable(values, may_pad=True)

    def look_up(self, indices: Positions) -> pa.Array:
        """Return the value of each index.

        Raises
        ------
        CorruptDataError
            An index lies outside the dictionary.
        InvalidInputError
            The strings are too long for one array.
        """
        if len(indices):
            highest, lowest = int(indices.max()), 0 if indices.dtype.kind == "u" else int(indices.min())
            if highest >= len(self.values) or lowest < 0:
                raise CorruptDataError(
                    f"dictionary index {lowest if lowest < 0 else highest} is out of range, the dictionary "
                    f"has {len(self.values)} values"
                )
        return self.take(indices)

    def take(self, indices: Positions) -> pa.Array:
        """Return the values of indices that the caller has checked."""
        table = self._table
        return take_few(self.values, indices) if table is None else table.look_up(indices)

    def take_at(self, indices: Positions, positions: npt.NDArray[np.int64]) -> pa.Array:
        """Return the values of the indices at some positions; the caller has checked them."""
        if isinstance(self._table, _Fixed) and self._table.width == _PAIR_BYTES and kernels.COMPILED:
            return self._table.look_up_at(indices, positions)
        taken = take_words(pa.py_buffer(indices), indices.itemsize, positions)
        return self.take(np.frombuffer(taken, indices.dtype) if len(positions) else indices[:0])


class _Fixed:
    """Values of 1, 2, 4, 8 or 16 bytes, including views, which point to shared bytes."""

    __slots__ = ("_data", "_shared", "_type", "width")

    def __init__(self, values: pa.Array, width: int) -> None:
        self._type, self.width = values.type, width
        _, data, *self._shared = values.buffers()
        self._data = _bytes_of(data)[values.offset * width :]

    def look_up(self, positions: Positions) -> pa.Array:
        return self._array(len(positions), _take_words(self._data, self.width, positions))

    def look_up_at(self, indices: Positions, positions: npt.NDArray[np.int64]) -> pa.Array:
        taken = pa.allocate_buffer(len(positions) * self.width)
        gather.look_up_pairs(
            self._data, *_numbers(indices), np.ascontiguousarray(positions), _bytes_of(taken)
        )
        return self._array(len(positions), taken)

    def _array(self, count: int, data: pa.Buffer) -> pa.Array:
        return pa.Array.from_buffers(self._type, count, [None, data, *self._shared], null_count=0)


class _Variable:
    """Strings and binaries: of any length, or as padded rows if all are short."""

    __slots__ = ("_data", "_lengths", "_longest", "_offsets", "_padded", "_type")

    def __init__(self, values: pa.Array, *, may_pad: bool = False) -> None:
        self._type = values.type
        width = _offset_bytes(values.type)
        _, offsets, data = values.buffers()
        self._offsets = (
            np.frombuffer(offsets, f"<i{width}", len(values) + 1, values.offset * width)
            if offsets
            else np.zeros(1, f"<i{width}")
        )
        self._data = _bytes_of(data)
        self._lengths, self._longest, self._padded = _NO_LENGTHS, 0, 0
        if may_pad and len(values):
            lengths = np.diff(self._offsets)
            self._longest = int(lengths.max())
            self._padded = next((size for size in _PADDED_BYTES if self._longest <= size), 0)
            if self._padded:
                self._lengths = lengths.astype(np.int32)
                self._data = self._pad()

    def look_up(self, positions: Positions) -> pa.Array:
        count, width = len(positions), self._offsets.itemsize
        numbers = _numbers(positions)
        offsets = pa.allocate_buffer((count + 1) * width)
        ends = _bytes_of(offsets)
        if not self._padded or (width == 4 and count * self._longest > _INT32_MAX):
            total = gather_strings.gather_ends(self._offsets.view(np.uint8), width, *numbers, ends)
            if width == 4 and total > _INT32_MAX:
                raise InvalidInputError(
                    f"{total} bytes do not fit into one array of strings; read fewer rows"
                )
        if self._padded:
            data = pa.allocate_buffer(count * self._longest + self._padded)
            rows = self._data, self._padded, self._lengths
            data = data.slice(0, gather_strings.gather_padded(*rows, *numbers, width, ends, _bytes_of(data)))
        else:
            data = pa.allocate_buffer(total)
            gather_strings.gather_spans(
                self._offsets.view(np.uint8), width, self._data, *numbers, _bytes_of(data)
            )
        return pa.Array.from_buffers(self._type, count, [None, offsets, data], null_count=0)

    def _pad(self) -> _Bytes:
        rows = np.zeros((len(self._lengths), self._padded), np.uint8)
        content = self._data[int(self._offsets[0]) : int(self._offsets[-1])]
        rows[np.arange(self._padded) < self._lengths[:, None]] = content
        return rows.reshape(-1)


def _offset_bytes(data_type: pa.DataType) -> int:
    """Return the width of the offsets of strings and binaries, 0 for other types."""
    return _OFFSET_BYTES.get(data_type.id, 0)


def word_bytes(data_type: pa.DataType) -> int:
    """Return the width of values that kernels treat as words, including string views; 0 for other types."""
    return _BYTES_OF_WORDS.get(data_type.id, 0)


def is_view(data_type: pa.DataType) -> bool:
    """Whether values are views, which pyarrow can neither take nor filter."""
    return data_type.id in _VIEWS
