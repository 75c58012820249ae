"""Mini-block pages: chunks of a few KiB that are decoded whole.

Buffers: ``chunk words | chunks [| dictionary] [| repetition index]``. A chunk is ``u16 slots [| u16
repetition size] [| u16 definition size] | sizes of value buffers`` and then these buffers, each on a
multiple of 8. Format: docs/format/mini_block.md.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_df.encodings.buffers import Chunked, Counts, as_bytes, read_spans
from lance_df.encodings.codecs.values import (
    decode_codes,
    decode_dictionary,
    decode_indices,
    decode_values,
    expand_codes,
)
from lance_df.encodings.dictionary.decode import Dictionary
from lance_df.encodings.layouts.mini_block.chunk_table import ChunkTable
from lance_df.encodings.levels.decode import LevelScheme, Slots, decode_levels
from lance_df.encodings.plan import RowRange
from lance_df.errors import CorruptDataError
from lance_df.format.encodings_v2_1 import Fsst

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance_df.encodings.levels.decode import Levels
    from lance_df.encodings.plan import IoPlan, Rows
    from lance_df.format.encodings_v2_1 import Encoding, MiniBlockLayout
    from lance_df.storage import ByteRange

# no level encoding gets more than 85 levels out of a byte, unless they are all 0 and all slots own a value
_MAX_LEVELS_PER_BYTE = 128
# more rows than one of so many: all chunks between them are decoded
_DENSE = 16


class MiniBlockPage:
    """Decodes the chunks that rows lie in. Keeps the chunk table and the dictionary.

    Attributes
    ----------
    layout, buffers
        As given.
    """

    __slots__ = (
        "_data_type",
        "_dictionary",
        "_mapped",
        "_num_rows",
        "_scheme",
        "_table",
        "_value_type",
        "buffers",
        "layout",
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
        self.layout = layout
        self.buffers = buffers
        self._num_rows = num_rows
        self._data_type = data_type
        self._value_type = data_type.value_type if pa.types.is_dictionary(data_type) else data_type
        self._mapped = mapped
        self._scheme = LevelScheme.of(layout.layers)
        self._table: ChunkTable | None = None
        self._dictionary: Dictionary | None = None
        expected = 2 + (layout.dictionary is not None) + (layout.repetition_index_depth > 0)
        if len(buffers) != expected:
            raise CorruptDataError(f"a mini-block page with {len(buffers)} buffers, expected {expected}")
        if (self._scheme.max_repetition > 0) != (layout.repetition_index_depth > 0):
            raise CorruptDataError("a mini-block page has either lists or a repetition index, expected both")
        if pa.types.is_dictionary(data_type) and layout.dictionary is None:
            raise CorruptDataError("a page of a dictionary column without a dictionary")

    def decode(self, rows: Rows) -> IoPlan[Slots]:
        """Plan the slots of ``rows``."""
        table, _ = yield from self.read_state()
        chunks = self._chunks_of(table, rows)
        starts, stops = table.bytes[chunks], table.bytes[chunks + 1]
        data, positions = yield from read_spans(self.buffers[1], starts, stops, mapped=self._mapped)
        counts = table.items[chunks + 1] - table.items[chunks]
        slots, num_slots = self.decode_chunks(Chunked(data, positions, stops - starts), counts)
        if not self._scheme.max_repetition:
            return self.finish(slots.select(table.renumber(rows, chunks), None))
        if slots.repetition is None:
            raise CorruptDataError("lists without repetition levels")
        row_of_slot = table.rows_of_slots(slots.repetition, num_slots, self._scheme.max_repetition, chunks)
        return self.finish(slots.select(rows, row_of_slot))

    def _chunks_of(self, table: ChunkTable, rows: Rows) -> Counts:
        if not len(rows):
            return np.empty(0, np.int64)
        if not isinstance(rows, RowRange) and not self._scheme.max_repetition:
            first, last = int(rows[0]), int(rows[-1])
            if last - first < len(rows) * _DENSE:  # then hardly a chunk can be left out
                return table.chunks_of(RowRange(first, last + 1))
        return table.chunks_of(rows)

    def read_state(self) -> IoPlan[tuple[ChunkTable, Dictionary | None]]:
        """Plan what is kept of the page."""
        if self._table is not None:
            return self._table, self._dictionary
        layout = self.layout
        words, *others = [as_bytes(buffer) for buffer in (yield [self.buffers[0], *self.buffers[2:]])]
        if layout.dictionary is not None:
            values = decode_dictionary(
                layout.dictionary, others[0], layout.num_dictionary_items, self._value_type
            )
            self._dictionary = Dictionary(values, self._data_type)
        width = 4 if layout.has_large_chunk else 2
        if len(words) % width:
            raise CorruptDataError(f"chunk metadata of {len(words)} bytes, expected a multiple of {width}")
        index = others[-1] if layout.repetition_index_depth else None
        self._table = ChunkTable.parse(
            words.view(f"<u{width}"), index, num_items=layout.num_items, num_rows=self._num_rows
        )
        return self._table, self._dictionary

    def decode_chunks(self, chunks: Chunked, counts: Counts) -> tuple[Slots, Counts]:
        """Return all slots of the chunks, with values as they are stored, and how many there are in each."""
        layout = self.layout
        num_slots, repetition, definition, values = self._split(chunks)
        if repetition is None and definition is None:
            num_slots = counts
        elif (num_slots > counts + chunks.sizes * _MAX_LEVELS_PER_BYTE).any():
            raise CorruptDataError(f"a chunk claims {int(num_slots.max())} slots")
        decoded = Slots(
            self._scheme,
            _levels(layout.repetition, repetition, num_slots),
            _levels(layout.definition, definition, num_slots),
            self.decode_stored(values, counts),
        )
        return decoded.checked(), num_slots

    def decode_stored(self, buffers: tuple[Chunked, ...], counts: Counts) -> pa.Array:
        """Decode as far as values depend on each other: the rest is left until rows have been selected."""
        encoding = self.layout.values
        if self._dictionary is not None:
            return decode_indices(encoding, buffers, counts)
        if isinstance(encoding, Fsst):
            return decode_codes(encoding, buffers, counts, self._data_type)
        return decode_values(encoding, buffers, counts, self._data_type)

    def finish(self, slots: Slots) -> Slots:
        """Decode the values that are left of the slots of :meth:`decode_chunks`."""
        if self._dictionary is not None:
            return replace(slots, values=self._dictionary.look_up(slots.values, slots.nulls()))
        if isinstance(self.layout.values, Fsst):
            return replace(slots, values=self.finish_values(slots.values))
        return slots

    def finish_values(self, stored: pa.Array) -> pa.Array:
        """Decode what is left of values of :meth:`decode_stored` that are no indices."""
        if isinstance(self.layout.values, Fsst):
            return expand_codes(self.layout.values, stored, self._data_type)
        return stored

    def _split(self, chunks: Chunked) -> tuple[Counts, Chunked | None, Chunked | None, tuple[Chunked, ...]]:
        """Return the number of slots, the level blocks and the value buffers of chunks."""
        layout = self.layout
        num_levels = (layout.repetition is not None) + (layout.definition is not None)
        words_per_size = 2 if layout.has_large_chunk else 1
        num_words = 1 + num_levels + words_per_size * layout.num_buffers
        chunks.require(2 * num_words, "chunk headers")
        at = (chunks.starts // 2)[:, None] + np.arange(num_words)
        header = list(np.ascontiguousarray(chunks.words(2)[at].T, np.int64))
        sizes = header[1 + num_levels :]
        if layout.has_large_chunk:
            sizes = [low | high << 16 for low, high in zip(sizes[::2], sizes[1::2], strict=True)]
        sections = []
        position = chunks.starts + (2 * num_words + 7 & ~7)
        for size in [*header[1 : 1 + num_levels], *sizes]:
            sections.append(Chunked(chunks.data, position, size))
            position = position + (size + 7 & ~7)
        if sections:
            last = sections[-1]
            chunks.require(last.starts + last.sizes - chunks.starts, "the buffers of a chunk")
        repetition = sections.pop(0) if layout.repetition is not None else None
        definition = sections.pop(0) if layout.definition is not None else None
        return header[0], repetition, definition, tuple(sections)


def _levels(encoding: Encoding | None, blocks: Chunked | None, counts: Counts) -> Levels | None:
    return None if encoding is None or blocks is None else decode_levels(encoding, blocks, counts)
