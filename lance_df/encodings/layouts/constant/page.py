"""Decode constant pages: every leaf value is null, or all that are not null are equal.

Buffers: ``[value] [repetition levels, definition levels]``. The number of buffers, and whether the layout
itself holds the value, determine which of them exist. Format: docs/format/constant.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lance_df.encodings.buffers import Bytes, Chunked, as_bytes
from lance_df.encodings.codecs.values import bits_per_offset
from lance_df.encodings.layouts.constant.loaded import LoadedConstant
from lance_df.encodings.levels.decode import Levels, LevelScheme, decode_levels
from lance_df.encodings.loaded_page import is_plain_type
from lance_df.errors import CorruptDataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from lance_df.encodings.plan import IoPlan, Rows
    from lance_df.format.encodings_v2_1 import ConstantLayout, Encoding
    from lance_df.storage import ByteRange

_Streams = tuple[Levels | None, Levels | None]


class ConstantPage:
    """Loads the levels and the value once."""

    __slots__ = (
        "_data_type",
        "_layout",
        "_level_buffers",
        "_loaded",
        "_num_rows",
        "_scheme",
        "_value_buffer",
    )

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
            raise CorruptDataError(
                f"a constant page has {len(buffers)} buffers, expected 0 or 2 of levels besides the value"
            )
        self._loaded: LoadedConstant | None = None

    def load(self, rows: Rows) -> IoPlan[tuple[LoadedConstant, Rows]]:
        """Plan to load levels and value, if they are not loaded yet. See `PageDecoder`."""
        return (yield from self._load()), rows

    def whole(self) -> IoPlan[LoadedConstant | None]:
        """Plan to load levels and value. See `PageDecoder`."""
        return (yield from self._load()) if is_plain_type(self._data_type) else None

    def _load(self) -> IoPlan[LoadedConstant]:
        if self._loaded is not None:
            return self._loaded
        wanted = [*self._level_buffers] + ([self._value_buffer] if self._value_buffer else [])
        buffers = (yield wanted) if wanted else []
        value = self._layout.inline_value
        if self._value_buffer is not None:
            value = scalar(as_bytes(buffers[-1]), self._data_type)
        streams: _Streams = (None, None)
        if self._level_buffers:
            streams = self._levels([as_bytes(buffer) for buffer in buffers[:2]])
        if streams[0] is None and streams[1] is not None and len(streams[1]) != self._num_rows:
            raise CorruptDataError(
                f"found {len(streams[1])} definition levels, expected {self._num_rows}, one for each row"
            )
        self._scheme.check(*streams)
        self._loaded = LoadedConstant(self._scheme, *streams, value, self._num_rows, self._data_type)
        return self._loaded

    def _levels(self, buffers: Sequence[Bytes]) -> _Streams:
        layout = self._layout
        repetition = _decode_stream(layout.repetition, buffers[0], layout.num_repetition_levels)
        definition = _decode_stream(layout.definition, buffers[1], layout.num_definition_levels)
        return repetition, definition


def _decode_stream(encoding: Encoding | None, data: Bytes, count: int) -> Levels | None:
    if not len(data) and encoding is None:
        return None
    if encoding is None:
        if len(data) % 2:
            raise CorruptDataError(f"levels take {len(data)} bytes, expected an even number")
        return data.view("<u2")
    # runs expand most: 255 levels for 3 bytes; constants take no bytes, but no writer uses them for levels
    if count > len(data) * 255 + 1024:
        raise CorruptDataError(f"{len(data)} bytes cannot hold {count} levels")
    return decode_levels(encoding, Chunked.single(data), np.array([count], np.int64))


def scalar(data: Bytes, data_type: pa.DataType) -> bytes:
    """Return the value stored as ``u32 number of buffers | u32 sizes | Arrow buffers of one value``."""
    num_buffers = 1 if bits_per_offset(data_type) is None else 2
    words = data[: len(data) // 4 * 4].view("<u4")
    if len(words) < 1 + num_buffers or words[0] != num_buffers:
        raise CorruptDataError(
            f"a scalar of {len(data)} bytes does not have the expected {num_buffers} buffers"
        )
    sizes = words[1 : 1 + num_buffers].tolist()
    start = 4 * (1 + num_buffers)
    if start + sum(sizes) > len(data):
        raise CorruptDataError(f"a scalar of {len(data)} bytes cannot hold buffers of {sizes} bytes")
    stop = start + sum(sizes)
    if num_buffers == 1:
        return data[start:stop].tobytes()
    offsets = data[start : start + sizes[0]]
    width = (bits_per_offset(data_type) or 0) // 8
    if len(offsets) != 2 * width:
        raise CorruptDataError(f"the offsets of a scalar take {len(offsets)} bytes, expected {2 * width}")
    first, last = offsets.view(f"<i{width}").tolist()
    if not 0 <= first <= last <= sizes[1]:
        raise CorruptDataError(
            f"a scalar takes bytes {first} to {last}, which is out of range: the buffer has {sizes[1]} bytes"
        )
    return data[start + sizes[0] + first : start + sizes[0] + last].tobytes()
