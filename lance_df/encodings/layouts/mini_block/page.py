"""Decode mini-block pages: chunks of a few KiB that are decoded whole.

Buffers: ``chunk words | chunks [| dictionary] [| repetition index]``. A chunk is ``u16 slots [| u16
repetition size] [| u16 definition size] | sizes of value buffers``, followed by these buffers, each aligned
to 8 bytes. Format: docs/format/mini_block.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_df.encodings.buffers import as_bytes, read_spans
from lance_df.encodings.chunks import Chunks
from lance_df.encodings.codecs.values import decode_dictionary
from lance_df.encodings.dictionary.decode import Dictionary
from lance_df.encodings.layouts.mini_block.chunk_table import ChunkTable, starts_of
from lance_df.encodings.layouts.mini_block.loaded import LoadedChunks
from lance_df.encodings.levels.decode import LevelScheme
from lance_df.encodings.loaded_page import is_plain_type
from lance_df.encodings.plan import RowRange, read_whole
from lance_df.errors import CorruptDataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance_df.encodings.buffers import Counts
    from lance_df.encodings.plan import IoPlan, Rows
    from lance_df.format.encodings_v2_1 import MiniBlockLayout
    from lance_df.storage import ByteRange

# if more than one in this many rows is wanted, all chunks between them are decoded
_DENSE = 16


class MiniBlockPage:
    """Loads the chunks that contain rows; caches the chunk table and the dictionary."""

    __slots__ = (
        "_buffers",
        "_data_type",
        "_has_lists",
        "_layout",
        "_mapped",
        "_num_rows",
        "_state",
        "_value_type",
        "_whole",
    )

    def __init__(
        self,
        layout: MiniBlockLayout,
        buffers: Sequence[ByteRange],
        num_rows: int,
        data_type: pa.DataType,
        *,
        mapped: bool,
    ) -> None:
        self._layout = layout
        self._buffers = buffers
        self._num_rows = num_rows
        self._data_type = data_type
        self._value_type = data_type.value_type if pa.types.is_dictionary(data_type) else data_type
        self._mapped = mapped
        self._has_lists = LevelScheme.of(layout.layers).max_repetition > 0
        self._state: tuple[ChunkTable, Dictionary | None] | None = None
        self._whole: LoadedChunks | None = None
        expected = 2 + (layout.dictionary is not None) + (layout.repetition_index_depth > 0)
        if len(buffers) != expected:
            raise CorruptDataError(f"a mini-block page has {len(buffers)} buffers, expected {expected}")
        if self._has_lists != (layout.repetition_index_depth > 0):
            raise CorruptDataError(
                "a mini-block page must have both lists and a repetition index, or neither"
            )
        if pa.types.is_dictionary(data_type) and layout.dictionary is None:
            raise CorruptDataError("a page of a dictionary column has no dictionary")

    def load(self, rows: Rows) -> IoPlan[tuple[LoadedChunks, Rows]]:
        """Plan to load the chunks that contain ``rows``. See `PageDecoder`."""
        if self._mapped:
            return (yield from self._load_whole()), rows
        table, dictionary = yield from self._read_state()
        numbers = self._chunks_of(table, rows)
        starts, stops = table.bytes[numbers], table.bytes[numbers + 1]
        data, _ = yield from read_spans(self._buffers[1], starts, stops, mapped=False)
        items = starts_of(table.items[numbers + 1] - table.items[numbers])
        chunks = Chunks(data, starts_of(stops - starts), items, self._layout)
        if self._has_lists:
            return LoadedChunks(chunks, self._data_type, dictionary, table, numbers), rows
        return LoadedChunks(chunks, self._data_type, dictionary), table.renumber(rows, numbers)

    def whole(self) -> IoPlan[LoadedChunks | None]:
        """Plan to load all chunks. See `PageDecoder`."""
        if self._has_lists or not is_plain_type(self._data_type):
            return None
        return (yield from self._load_whole())

    def _load_whole(self) -> IoPlan[LoadedChunks]:
        if self._whole is None:
            table, dictionary = yield from self._read_state()
            data = as_bytes((yield from read_whole(self._buffers[1])))
            if int(table.bytes[-1]) > len(data):
                raise CorruptDataError(
                    f"the chunks take {table.bytes[-1]} bytes, but the buffer has {len(data)}"
                )
            chunks = Chunks(data, table.bytes, table.items, self._layout)
            self._whole = LoadedChunks(chunks, self._data_type, dictionary, table)
        return self._whole

    def _chunks_of(self, table: ChunkTable, rows: Rows) -> Counts:
        if not len(rows):
            return np.empty(0, np.int64)
        if not isinstance(rows, RowRange) and not self._has_lists:
            first, last = int(rows[0]), int(rows[-1])
            if last - first < len(rows) * _DENSE:  # hardly any chunk could be left out
                return table.chunks_of(RowRange(first, last + 1))
        return table.chunks_of(rows)

    def _read_state(self) -> IoPlan[tuple[ChunkTable, Dictionary | None]]:
        """Plan to load the chunk table and the dictionary, which are cached."""
        if self._state is not None:
            return self._state
        layout, dictionary = self._layout, None
        words, *others = [as_bytes(buffer) for buffer in (yield [self._buffers[0], *self._buffers[2:]])]
        if layout.dictionary is not None:
            values = decode_dictionary(
                layout.dictionary, others[0], layout.num_dictionary_items, self._value_type
            )
            dictionary = Dictionary(values, self._data_type)
        width = 4 if layout.has_large_chunk else 2
        if len(words) % width:
            raise CorruptDataError(
                f"the chunk metadata has {len(words)} bytes, expected a multiple of {width}"
            )
        index = others[-1] if layout.repetition_index_depth else None
        table = ChunkTable.parse(
            words.view(f"<u{width}"), index, num_items=layout.num_items, num_rows=self._num_rows
        )
        self._state = table, dictionary
        return self._state
