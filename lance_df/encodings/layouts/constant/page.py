"""Constant pages: every leaf value is null, or all that are not null are equal.

Buffers: ``[value] [repetition levels, definition levels]``. Which of them exist follows from their number and
from whether the layout itself holds the value. Format: docs/format/constant.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_df.encodings.buffers import Bytes, Chunked, Counts, as_bytes
from lance_df.encodings.codecs.values import bits_per_offset, bits_per_value, checked_text, fixed_width_array
from lance_df.encodings.levels.decode import Levels, LevelScheme, Slots, decode_levels, rows_of_slots
from lance_df.encodings.plan import RowRange
from lance_df.encodings.variable.decode import check_total_bytes
from lance_df.errors import CorruptDataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance_df.encodings.plan import IoPlan, Rows
    from lance_df.format.encodings_v2_1 import ConstantLayout, Encoding
    from lance_df.storage import ByteRange

_Streams = tuple[Levels | None, Levels | None]


class ConstantPage:
    """Decodes levels once, and repeats the value for as many slots as are asked for."""

    __slots__ = ("_data_type", "_layout", "_level_buffers", "_num_rows", "_scheme", "_state", "_value_buffer")

    def __init__(
        self, layout: ConstantLayout, buffers: Sequence[ByteRange], num_rows: int, data_type: pa.DataType
    ) -> None:
        self._layout = layout
        self._num_rows = num_rows
        self._data_type = data_type
        self._scheme = LevelScheme.of(layout.layers)
        has_value_buffer = layout.inline_value is None and len(buffers) % 2 == 1
        self._value_buffer = buffers[0] if has_value_buffer else None
        self._level_buffers = tuple(buffers[1:] if has_value_buffer else buffers)
        if len(self._level_buffers) not in (0, 2):
            raise CorruptDataError(f"a constant page with {len(buffers)} buffers")
        self._state: tuple[_Streams, bytes | None] | None = None

    @property
    def is_uniform(self) -> bool:
        """Whether all rows are equal, as far as some have been decoded."""
        return self._state is not None and all(stream is None for stream in self._state[0])

    def decode(self, rows: Rows) -> IoPlan[Slots]:
        """Plan the slots of ``rows``."""
        if self._state is None:
            self._state = yield from self._read_state()
        (repetition, definition), value = self._state
        if repetition is None:
            if definition is not None:
                definition = definition[slice(rows.start, rows.stop) if isinstance(rows, RowRange) else rows]
            elif value is None and self._scheme.max_definition:
                definition = np.ones(len(rows), np.uint16)
            slots = Slots(self._scheme, None, definition, self._repeat(value, len(rows))).checked()
            self._check_nulls(slots, value)
            return slots
        row_of_slot = rows_of_slots(repetition, self._scheme.max_repetition, 0)
        if not len(row_of_slot) or row_of_slot[0] != 0 or row_of_slot[-1] != self._num_rows - 1:
            raise CorruptDataError(f"levels of a constant page do not make up {self._num_rows} rows")
        levels = Slots(self._scheme, repetition, definition, pa.nulls(0))
        visible = levels.visible()
        count = len(repetition) if visible is None else int(np.count_nonzero(visible))
        placeholder = Slots(self._scheme, repetition, definition, pa.nulls(count)).checked()
        chosen = placeholder.select(rows, row_of_slot)
        self._check_nulls(chosen, value)
        values = self._repeat(value, len(chosen.values))
        return Slots(self._scheme, chosen.repetition, chosen.definition, values)

    def _read_state(self) -> IoPlan[tuple[_Streams, bytes | None]]:
        wanted = [*self._level_buffers] + ([self._value_buffer] if self._value_buffer else [])
        buffers = (yield wanted) if wanted else []
        value = self._layout.inline_value
        if self._value_buffer is not None:
            value = scalar(as_bytes(buffers[-1]), self._data_type)
        streams: _Streams = (None, None)
        if self._level_buffers:
            streams = self._levels([as_bytes(buffer) for buffer in buffers[:2]])
        if streams[0] is None and streams[1] is not None and len(streams[1]) != self._num_rows:
            raise CorruptDataError(f"{len(streams[1])} definition levels for {self._num_rows} rows")
        self._scheme.check(*streams)
        return streams, value

    def _levels(self, buffers: Sequence[Bytes]) -> _Streams:
        layout = self._layout
        repetition = _decode_stream(layout.repetition, buffers[0], layout.num_repetition_levels)
        definition = _decode_stream(layout.definition, buffers[1], layout.num_definition_levels)
        return repetition, definition

    def _check_nulls(self, slots: Slots, value: bytes | None) -> None:
        if value is not None or not len(slots.values) or pa.types.is_null(self._data_type):
            return
        nulls = slots.nulls()
        if nulls is None or not nulls.all():
            raise CorruptDataError("a constant page without a value holds values that are not null")

    def _repeat(self, value: bytes | None, count: int) -> pa.Array:
        if value is None or count == 0:
            return _placeholders(count, self._data_type)
        return repeated([value], np.array([count], np.int64), self._data_type)


def repeated(values: Sequence[bytes], counts: Counts, data_type: pa.DataType) -> pa.Array:
    """Return value i, as layouts hold it, ``counts[i]`` times, one value after the other.

    Raises
    ------
    CorruptDataError
        A value is not of the type.
    """
    total = int(counts.sum())
    sizes = np.fromiter(map(len, values), np.int64, len(values))
    offset_bits = bits_per_offset(data_type)
    if offset_bits is not None:
        check_total_bytes(int(sizes @ counts), offset_bits // 8)
    elif pa.types.is_boolean(data_type):
        bits = np.repeat(np.fromiter((value != b"\0" for value in values), np.bool_, len(values)), counts)
        return fixed_width_array(np.packbits(bits, bitorder="little"), total, data_type)
    elif (wrong := sizes * 8 != bits_per_value(data_type)).any():
        raise CorruptDataError(
            f"a constant of {sizes[wrong.argmax()]} bytes, the column's type is {data_type}"
        )
    data = b"".join(value * count for value, count in zip(values, counts.tolist(), strict=True))
    if offset_bits is None:
        return fixed_width_array(np.frombuffer(data, np.uint8), total, data_type)
    offsets = np.zeros(total + 1, f"<i{offset_bits // 8}")
    np.cumsum(np.repeat(sizes, counts), out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return checked_text(pa.Array.from_buffers(data_type, total, buffers, null_count=0))


def _decode_stream(encoding: Encoding | None, data: Bytes, count: int) -> Levels | None:
    if not len(data) and encoding is None:
        return None
    if encoding is None:
        if len(data) % 2:
            raise CorruptDataError(f"levels of {len(data)} bytes, expected an even number")
        return data.view("<u2")
    # runs expand most: 255 levels for 3 bytes; constants take no bytes, but no writer makes them
    if count > len(data) * 255 + 1024:
        raise CorruptDataError(f"{len(data)} bytes claim to hold {count} levels")
    return decode_levels(encoding, Chunked.single(data), np.array([count], np.int64))


def scalar(data: Bytes, data_type: pa.DataType) -> bytes:
    """Return the bytes of the value in ``u32 number of buffers | u32 sizes | Arrow buffers of one value``."""
    num_buffers = 1 if bits_per_offset(data_type) is None else 2
    words = data[: len(data) // 4 * 4].view("<u4")
    if len(words) < 1 + num_buffers or words[0] != num_buffers:
        raise CorruptDataError(f"a scalar of {len(data)} bytes, expected {num_buffers} buffers")
    sizes = words[1 : 1 + num_buffers].tolist()
    start = 4 * (1 + num_buffers)
    if start + sum(sizes) > len(data):
        raise CorruptDataError(f"a scalar of {len(data)} bytes claims buffers of {sizes} bytes")
    stop = start + sum(sizes)
    if num_buffers == 1:
        return data[start:stop].tobytes()
    offsets = data[start : start + sizes[0]]
    width = (bits_per_offset(data_type) or 0) // 8
    if len(offsets) != 2 * width:
        raise CorruptDataError(f"the offsets of a scalar take {len(offsets)} bytes, expected {2 * width}")
    first, last = offsets.view(f"<i{width}").tolist()
    if not 0 <= first <= last <= sizes[1]:
        raise CorruptDataError(f"a scalar lies at {first} to {last} of {sizes[1]} bytes")
    return data[start + sizes[0] + first : start + sizes[0] + last].tobytes()


def _placeholders(count: int, data_type: pa.DataType) -> pa.Array:
    """Return ``count`` values of no meaning, which levels hide."""
    if pa.types.is_null(data_type):
        return pa.nulls(count)
    if pa.types.is_struct(data_type):
        children = [_placeholders(count, child.type) for child in data_type]
        return pa.Array.from_buffers(data_type, count, [None], null_count=0, children=children)
    if pa.types.is_fixed_size_list(data_type):
        items = _placeholders(count * data_type.list_size, data_type.value_type)
        return pa.Array.from_buffers(data_type, count, [None], null_count=0, children=[items])
    if pa.types.is_dictionary(data_type):
        indices = _placeholders(count, data_type.index_type)
        values = _placeholders(min(count, 1), data_type.value_type)
        return pa.DictionaryArray.from_arrays(indices, values, ordered=data_type.ordered, safe=False)
    zeros = pa.nulls(count, data_type).buffers()
    return pa.Array.from_buffers(data_type, count, [None, *zeros[1:]], null_count=0)
