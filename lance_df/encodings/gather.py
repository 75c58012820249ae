"""Take values of arrays by position, faster than Arrow does where that pays."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.encodings import kernels
from lance_df.errors import CorruptDataError, InvalidInputError

Positions: TypeAlias = npt.NDArray[np.integer[Any]]

# For less, loading the compiler takes longer than the work.
FEW = 4096
_PADDED_BYTES = (16, 24, 32)
_WORD_BYTES = (1, 2, 4, 8)
_PAIR_BYTES = 16
_INT32_MAX = 2**31 - 1
# By the number of a type, whatever its unit or precision: to ask pyarrow takes longer than a short gather.
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


def true_positions(mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Return the positions of what is true."""
    if not kernels.are_worth(len(mask)):
        return np.flatnonzero(mask)
    found = np.empty(len(mask), np.int64)
    return found[: kernels.mask_positions(mask, found)]


def take(values: pa.Array, positions: npt.NDArray[np.int64]) -> pa.Array:
    """Return the values at ``positions``, all of which the caller knows to lie within ``values``.

    Raises
    ------
    InvalidInputError
        The strings are too long for one array.
    """
    width = word_bytes(values.type)
    if len(positions) < FEW and (not width or values.null_count) and not is_view(values.type):
        return take_few(values, positions)
    if width:
        picked = _take_fixed(values, width, positions)
    elif _offset_bytes(values.type):
        picked = _Variable(values).look_up(positions)
    else:
        return values.take(pa.array(positions))
    if not values.null_count:
        return picked
    valid, num_nulls = _take_validity(values, positions)
    return pa.Array.from_buffers(
        values.type, len(picked), [valid if num_nulls else None, *picked.buffers()[1:]], null_count=num_nulls
    )


def _take_fixed(values: pa.Array, width: int, positions: npt.NDArray[np.int64]) -> pa.Array:
    """Return values whose nulls are any."""
    _, data, *shared = values.buffers()
    picked = take_words(data or pa.py_buffer(b""), width, positions, first=values.offset)
    return pa.Array.from_buffers(values.type, len(positions), [None, picked, *shared], null_count=0)


def _take_validity(values: pa.Array, positions: npt.NDArray[np.int64]) -> tuple[pa.Buffer, int]:
    """Return the bitmap of values at ``positions``, and how many of them are null; ``values`` has nulls."""
    count = len(positions)
    bits = np.frombuffer(values.buffers()[0], np.uint8)
    if count < FEW or not kernels.are_worth(count):
        places = positions + values.offset
        valid = (bits[places >> 3] >> (places & 7).astype(np.uint8)) & 1
        return pa.py_buffer(np.packbits(valid, bitorder="little")), count - int(np.count_nonzero(valid))
    bitmap = pa.allocate_buffer(-(-count // 8))
    num_valid = kernels.gather_bits(_frozen(bits), values.offset, positions, np.frombuffer(bitmap, np.uint8))
    return bitmap, count - num_valid


def take_few(values: pa.Array, positions: Positions) -> pa.Array:
    """Do the same as Arrow does it, at half the price of a call."""
    taken: pa.Array = pc.get_function("array_take").call([values, pa.array(positions)])
    return taken


def take_words(data: pa.Buffer, width: int, positions: npt.NDArray[np.int64], *, first: int = 0) -> pa.Buffer:
    """Return values of ``width`` bytes back to back; the caller knows that they lie within ``data``.

    Parameters
    ----------
    first
        The value of ``data`` that positions count from.
    """
    count = len(positions)
    if count >= FEW and width in (*_WORD_BYTES, _PAIR_BYTES) and kernels.are_worth(count):
        return _gather_words(_words_of(data, width, data.size // width - first, first * width), positions)
    words = np.frombuffer(data, f"V{width}", offset=first * width)
    return pa.py_buffer(words.take(positions, mode="clip"))


class Lookup:
    """Values of a dictionary, made ready to be looked up.

    Parameters
    ----------
    values
        May have nulls only where :meth:`look_up` is not asked for them.
    """

    __slots__ = ("_table", "values")

    def __init__(self, values: pa.Array) -> None:
        self.values = values
        self._table: _Fixed | _Variable | None = _fixed_of(values) or _padded_of(values)
        if self._table is None and _offset_bytes(values.type):
            self._table = _Variable(values)

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
                raise CorruptDataError(f"dictionary index {highest}, there are {len(self.values)} values")
        return self.pick(indices)

    def pick(self, indices: Positions) -> pa.Array:
        """Do the same for indices that the caller has checked."""
        table, count = self._table, len(indices)
        if table is None or (isinstance(table, _Variable) and table.is_simple(count)):
            return take_few(self.values, indices)
        return table.look_up(indices)

    def pick_at(self, indices: Positions, positions: npt.NDArray[np.int64]) -> pa.Array:
        """Return the values of the indices at some positions, all of which the caller has checked."""
        count = len(positions)
        if isinstance(self._table, _Fixed) and count >= FEW and kernels.are_worth(count):
            return self._table.look_up_at(indices, positions)
        return self.pick(indices.take(positions, mode="clip"))


class _Fixed:
    """Values of 1, 2, 4, 8 or 16 bytes; views are, and point to bytes that are shared."""

    __slots__ = ("_few", "_many", "_shared", "_type")

    def __init__(self, values: pa.Array, width: int) -> None:
        self._type = values.type
        _, data, *self._shared = values.buffers()
        data, start = data or pa.py_buffer(b""), values.offset * width
        self._few = np.frombuffer(data, f"V{width}", len(values), start)
        self._many = _words_of(data, width, len(values), start)

    def look_up(self, positions: Positions) -> pa.Array:
        count = len(positions)
        if count < FEW or not kernels.are_worth(count):
            data = pa.py_buffer(self._few.take(positions, mode="clip"))
        else:
            data = _gather_words(self._many, positions)
        return self._array(count, data)

    def look_up_at(self, indices: Positions, positions: npt.NDArray[np.int64]) -> pa.Array:
        if self._many.ndim == 1:
            return self.look_up(indices.take(positions, mode="clip"))
        data = pa.allocate_buffer(len(positions) * _PAIR_BYTES)
        kernels.look_up_pairs(self._many, indices, positions, np.frombuffer(data, "<u8").reshape(-1, 2))
        return self._array(len(positions), data)

    def _array(self, count: int, data: pa.Buffer) -> pa.Array:
        return pa.Array.from_buffers(self._type, count, [None, data, *self._shared], null_count=0)


def _words_of(data: pa.Buffer, width: int, count: int, start: int = 0) -> npt.NDArray[Any]:
    """Return values as words, those of 16 bytes as rows of two."""
    if width == _PAIR_BYTES:
        return _frozen(np.frombuffer(data, "<u8", 2 * count, start).reshape(-1, 2))
    return _frozen(np.frombuffer(data, f"<u{width}", count, start))


def _gather_words(words: npt.NDArray[Any], positions: Positions) -> pa.Buffer:
    buffer = pa.allocate_buffer(len(positions) * words.strides[0])
    out = np.frombuffer(buffer, words.dtype)
    if words.ndim == 1:
        kernels.gather_words(words, positions, out)
    else:
        kernels.gather_pairs(words, positions, out.reshape(-1, 2))
    return buffer


class _Variable:
    """Strings and binaries of any length, or short ones as padded rows of words."""

    __slots__ = ("_data", "_lengths", "_offsets", "_padded", "_type", "longest")

    def __init__(self, values: pa.Array, *, padded: int | None = None) -> None:
        self._type = values.type
        width = _offset_bytes(values.type)
        offsets = values.buffers()[1]
        self._offsets = (
            _frozen(np.frombuffer(offsets, f"<i{width}", len(values) + 1, values.offset * width))
            if offsets
            else np.zeros(1, f"<i{width}")
        )
        self._data = _frozen(np.frombuffer(values.buffers()[2] or b"", np.uint8))
        self._lengths = np.diff(self._offsets)
        self.longest = int(self._lengths.max(initial=0))
        self._padded = None if padded is None else self._pad(padded)

    def is_simple(self, count: int) -> bool:
        """Whether Arrow is to look up so many values, which then surely fit into one array."""
        return count < FEW or (count * self.longest <= _INT32_MAX and not kernels.are_worth(count))

    def look_up(self, positions: Positions) -> pa.Array:
        count, width = len(positions), self._offsets.itemsize
        if self._padded is None:
            total = self._checked_total(kernels.sum_lengths(self._lengths, positions))
            offsets, data = pa.allocate_buffer((count + 1) * width), pa.allocate_buffer(total)
            ends = np.frombuffer(offsets, f"<i{width}")
            out = np.frombuffer(data, np.uint8) if total else np.empty(0, np.uint8)
            kernels.gather_spans(self._offsets, self._data, positions, ends, out)
        else:
            room = count * self.longest
            if width == 4 and room > _INT32_MAX:
                self._checked_total(kernels.sum_lengths(self._lengths, positions))
            offsets = pa.allocate_buffer((count + 1) * width)
            data = pa.allocate_buffer(room + self._padded[:1].nbytes)
            ends, out = np.frombuffer(offsets, f"<i{width}"), np.frombuffer(data, np.uint8)
            data = data.slice(0, kernels.gather_padded(self._padded, self._lengths, positions, ends, out))
        return pa.Array.from_buffers(self._type, count, [None, offsets, data], null_count=0)

    def _checked_total(self, total: int) -> int:
        if self._offsets.itemsize == 4 and total > _INT32_MAX:
            raise InvalidInputError(f"{total} bytes do not fit into one array of strings: read fewer rows")
        return total

    def _pad(self, num_bytes: int) -> npt.NDArray[np.uint64]:
        rows = np.zeros((len(self._lengths), num_bytes), np.uint8)
        content = self._data[int(self._offsets[0]) : int(self._offsets[-1])]
        rows[np.arange(num_bytes) < self._lengths[:, None]] = content
        return rows.view("<u8")


def _fixed_of(values: pa.Array) -> _Fixed | None:
    width = word_bytes(values.type)
    return _Fixed(values, width) if width else None


def _padded_of(values: pa.Array) -> _Variable | None:
    if not _offset_bytes(values.type) or not len(values):
        return None
    longest = _Variable(values).longest
    padded = next((size for size in _PADDED_BYTES if longest <= size), None)
    return None if padded is None else _Variable(values, padded=padded)


def _offset_bytes(data_type: pa.DataType) -> int:
    """Return the width of the offsets of strings and binaries, 0 for other types."""
    return _OFFSET_BYTES.get(data_type.id, 0)


def word_bytes(data_type: pa.DataType) -> int:
    """Return the width of values that are words, string views among them; 0 for other types."""
    return _BYTES_OF_WORDS.get(data_type.id, 0)


def is_view(data_type: pa.DataType) -> bool:
    """Whether values are views, which pyarrow can neither take nor filter."""
    return data_type.id in _VIEWS


def _frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a view that may not be written to: kernels are compiled for that only."""
    view = array.view()
    view.flags.writeable = False
    return view
