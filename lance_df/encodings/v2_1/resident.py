"""Mini-block pages of 2.1 and 2.2 files in memory, without levels. See `encodings.resident`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lance_df.encodings import kernels
from lance_df.encodings.resident import CodedValues, is_plain_type
from lance_df.encodings.v2_1.buffers import Chunked, as_bytes
from lance_df.encodings.v2_1.mini_block import MiniBlockPage
from lance_df.errors import CorruptDataError
from lance_df.format.encodings_v2_1 import RepDefLayer

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from lance_df.encodings.plan import IoPlan
    from lance_df.encodings.resident import ResidentPage
    from lance_df.encodings.v2_1.page import PageDecoder
    from lance_df.format.encodings_v2_1 import MiniBlockLayout
    from lance_df.storage import ByteRange

    Run = Callable[[IoPlan[Any]], Any]

_PLAIN_LAYERS = ((RepDefLayer.ALL_VALID_ITEM,), (RepDefLayer.NULLABLE_ITEM,))


def open_resident(decoder: PageDecoder, data_type: pa.DataType, run: Run) -> ResidentPage | None:
    """Return the reader of a page in memory; None for one that only its decoder reads.

    Parameters
    ----------
    run
        Runs the plans of decoders.
    """
    if not isinstance(decoder, MiniBlockPage) or not _is_plain(decoder.layout, data_type):
        return None
    return ResidentMiniBlock(decoder, run)


def _is_plain(layout: MiniBlockLayout, data_type: pa.DataType) -> bool:
    return (
        layout.repetition is None
        and layout.definition is None
        and layout.layers in _PLAIN_LAYERS
        and layout.num_buffers > 0
        and is_plain_type(data_type)
    )


class ResidentMiniBlock:
    """Decodes the chunks that rows lie in."""

    __slots__ = ("_bounds", "_counts", "_data", "_decoder", "_dictionary", "_items", "_layout")

    def __init__(self, decoder: MiniBlockPage, run: Run) -> None:
        table, dictionary = run(decoder.read_state())
        self._decoder = decoder
        self._layout = decoder.layout
        self._data = as_bytes(run(_whole(decoder.buffers[1])))
        self._bounds = table.bytes
        self._items = table.items
        self._counts = np.diff(table.items)
        self._dictionary = None if dictionary is None else CodedValues(dictionary.values, null_first=False)
        if int(self._bounds[-1]) > len(self._data):
            raise CorruptDataError(f"chunks take {self._bounds[-1]} bytes, the buffer has {len(self._data)}")

    def read(self, start: int, stop: int, *, keep_dictionary: bool) -> pa.Array:
        """Return rows. See `ResidentPage`."""
        first = int(self._items.searchsorted(start, "right")) - 1
        last = int(self._items.searchsorted(stop, "left"))
        low, high = start - int(self._items[first]), stop - int(self._items[first])
        buffers, counts = self._buffers(first, last), self._counts[first:last]
        stored = self._decoder.decode_stored(buffers, counts)[low:high]
        if self._dictionary is None:
            return self._decoder.finish_values(stored)
        data = stored.buffers()[1]
        width = stored.type.bit_width // 8
        numbers = np.frombuffer(data, f"<u{width}", high - low, low * width)
        part = data.slice(low * width, (high - low) * width)
        return self._dictionary.read(numbers, part, keep_dictionary=keep_dictionary)

    def _buffers(self, first: int, last: int) -> tuple[Chunked, ...]:
        """Return the value buffers of chunks."""
        count = last - first
        starts, sizes = np.empty((2, self._layout.num_buffers, count), np.int64)
        broken = kernels.chunk_buffers(
            self._data, self._bounds, first, count, self._layout.has_large_chunk, starts, sizes
        )
        if broken >= 0:
            raise CorruptDataError(f"the buffers of chunk {first + broken} do not fit into it")
        return tuple(Chunked(self._data, at, size) for at, size in zip(starts, sizes, strict=True))


def _whole(buffer: ByteRange) -> IoPlan[pa.Buffer]:
    (data,) = yield [buffer]
    return data
