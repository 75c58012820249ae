"""Mini-block pages: chunks of a few KiB that are decoded whole.

Buffers: ``chunk words | chunks [| dictionary] [| repetition index]``. A chunk is ``u16 slots [| u16
repetition size] [| u16 definition size] | sizes of value buffers`` and then these buffers, each on a
multiple of 8. Spec: file format 2.x, 4.4, 5.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_df.encodings.plan import RowRange
from lance_df.encodings.v2_1.buffers import Bytes, Chunked, Counts, align8, as_bytes, read_spans
from lance_df.encodings.v2_1.dictionary import look_up
from lance_df.encodings.v2_1.levels import LevelScheme, Slots, decode_levels, rows_of_slots
from lance_df.encodings.v2_1.values import decode_dictionary, decode_indices, decode_values
from lance_df.errors import CorruptDataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance_df.encodings.plan import IoPlan, Rows
    from lance_df.encodings.v2_1.levels import Levels
    from lance_df.format.encodings_v2_1 import Encoding, MiniBlockLayout
    from lance_df.storage import ByteRange

# no level encoding gets more than 85 levels out of a byte, unless they are all 0 and all slots own a value
_MAX_LEVELS_PER_BYTE = 128


@dataclass(frozen=True, slots=True)
class _ChunkTable:
    """Where chunks, their items and their rows start; all have one entry more than there are chunks.

    ``rows`` counts rows that start in earlier chunks, ``finished_rows`` those that end there.
    """

    bytes: Counts
    items: Counts
    rows: Counts
    finished_rows: Counts

    def chunks_of(self, rows: Rows) -> Counts:
        """Return the chunks that hold slots of ``rows``, ascending."""
        wanted = np.array([rows.start, rows.stop - 1]) if isinstance(rows, RowRange) else rows
        first = np.searchsorted(self.rows, wanted, side="right") - 1
        last = np.searchsorted(self.finished_rows, wanted, side="right") - 1
        if isinstance(rows, RowRange):
            return np.arange(first[0], last[1] + 1)
        touched = np.zeros(len(self.rows), np.int64)
        np.add.at(touched, first, 1)
        np.subtract.at(touched, last + 1, 1)
        return np.flatnonzero(np.cumsum(touched))


class MiniBlockPage:
    """Decodes the chunks that rows lie in. Keeps the chunk table and the dictionary."""

    __slots__ = (
        "_buffers",
        "_data_type",
        "_dictionary",
        "_layout",
        "_mapped",
        "_num_rows",
        "_scheme",
        "_table",
        "_value_type",
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
        self._scheme = LevelScheme.of(layout.layers)
        self._table: _ChunkTable | None = None
        self._dictionary: pa.Array | None = None
        expected = 2 + (layout.dictionary is not None) + (layout.repetition_index_depth > 0)
        if len(buffers) != expected:
            raise CorruptDataError(f"a mini-block page with {len(buffers)} buffers, expected {expected}")
        if (self._scheme.max_repetition > 0) != (layout.repetition_index_depth > 0):
            raise CorruptDataError("a mini-block page has either lists or a repetition index, expected both")
        if pa.types.is_dictionary(data_type) and layout.dictionary is None:
            raise CorruptDataError("a page of a dictionary column without a dictionary")

    def decode(self, rows: Rows) -> IoPlan[Slots]:
        """Plan the slots of ``rows``."""
        table = yield from self._read_state()
        chunks = table.chunks_of(rows) if len(rows) else np.empty(0, np.int64)
        data, starts = yield from read_spans(
            self._buffers[1], table.bytes[chunks], table.bytes[chunks + 1], mapped=self._mapped
        )
        counts = table.items[chunks + 1] - table.items[chunks]
        sizes = table.bytes[chunks + 1] - table.bytes[chunks]
        slots, num_slots = self._decode_chunks(Chunked(data, starts, sizes), counts)
        if not self._scheme.max_repetition:
            return slots.select(_renumber(rows, table.items, chunks), None)
        if slots.repetition is None:
            raise CorruptDataError("lists without repetition levels")
        row_of_slot = _rows_of_slots(slots.repetition, num_slots, self._scheme.max_repetition, table, chunks)
        return slots.select(rows, row_of_slot)

    def _read_state(self) -> IoPlan[_ChunkTable]:
        if self._table is not None:
            return self._table
        layout = self._layout
        wanted = [self._buffers[0], *self._buffers[2:]]
        buffers = [as_bytes(buffer) for buffer in (yield wanted)]
        if layout.dictionary is not None:
            self._dictionary = decode_dictionary(
                layout.dictionary, buffers[1], layout.num_dictionary_items, self._value_type
            )
        index = buffers[-1] if layout.repetition_index_depth else None
        self._table = self._chunk_table(buffers[0], index)
        return self._table

    def _chunk_table(self, words: Bytes, index: Bytes | None) -> _ChunkTable:
        width = 4 if self._layout.has_large_chunk else 2
        if len(words) % width:
            raise CorruptDataError(f"chunk metadata of {len(words)} bytes, expected a multiple of {width}")
        numbers = words.view(f"<u{width}").astype(np.int64)
        starts = _starts(((numbers >> 4) + 1) * 8)
        counts = np.left_shift(1, numbers & 15)
        if len(counts):
            counts[-1] = self._layout.num_items - int(counts[:-1].sum())
        if starts[-1] > self._buffers[1].num_bytes:
            raise CorruptDataError(
                f"{len(counts)} chunks take {starts[-1]} bytes, their buffer has {self._buffers[1].num_bytes}"
            )
        if (counts < 0).any() or int(counts.sum()) != self._layout.num_items:
            raise CorruptDataError(f"{len(counts)} chunks cannot hold {self._layout.num_items} items")
        items = _starts(counts)
        if index is None:
            if self._layout.num_items != self._num_rows:
                raise CorruptDataError(f"{self._layout.num_items} items in a page of {self._num_rows} rows")
            return _ChunkTable(starts, items, items, items)
        return _ChunkTable(starts, items, *_row_starts(index, len(counts), self._num_rows))

    def _decode_chunks(self, chunks: Chunked, counts: Counts) -> tuple[Slots, Counts]:
        """Return all slots of the chunks, and how many there are in each."""
        layout = self._layout
        num_slots, repetition, definition, values = self._split(chunks)
        has_levels = layout.repetition is not None or layout.definition is not None
        if not has_levels:
            num_slots = counts
        if (num_slots > counts + chunks.sizes * _MAX_LEVELS_PER_BYTE).any():
            raise CorruptDataError(f"a chunk claims {int(num_slots.max())} slots")
        levels = _levels(layout.definition, definition, num_slots)
        decoded = Slots(
            self._scheme,
            _levels(layout.repetition, repetition, num_slots),
            levels,
            self._decode_values(values, counts, levels),
        )
        return decoded.checked(), num_slots

    def _decode_values(
        self, buffers: tuple[Chunked, ...], counts: Counts, definition: Levels | None
    ) -> pa.Array:
        if self._dictionary is None:
            return decode_values(self._layout.values, buffers, counts, self._data_type)
        indices = decode_indices(self._layout.values, buffers, counts)
        is_null = None
        if definition is not None:
            is_null = definition[definition <= self._scheme.max_visible] > 0
        return look_up(self._dictionary, indices, is_null, self._data_type)

    def _split(self, chunks: Chunked) -> tuple[Counts, Chunked | None, Chunked | None, tuple[Chunked, ...]]:
        """Return the number of slots, the level blocks and the value buffers of chunks."""
        layout = self._layout
        has_repetition, has_definition = layout.repetition is not None, layout.definition is not None
        size_words = 2 if layout.has_large_chunk else 1
        num_words = 1 + has_repetition + has_definition + size_words * layout.num_buffers
        chunks.require(np.full(len(chunks), 2 * num_words, np.int64), "chunk headers")
        words, at = chunks.words(2), chunks.starts // 2
        header = [words[at + word].astype(np.int64) for word in range(num_words)]
        num_slots, *header = header
        sizes = header[: has_repetition + has_definition]
        rest = header[has_repetition + has_definition :]
        if layout.has_large_chunk:
            rest = [low | high << 16 for low, high in zip(rest[::2], rest[1::2], strict=True)]
        sections = []
        position = align8(np.full(len(chunks), 2 * num_words, np.int64))
        for size in [*sizes, *rest]:
            sections.append(Chunked(chunks.data, chunks.starts + position, size))
            chunks.require(position + size, "the buffers of a chunk")
            position = position + align8(size)
        repetition = sections.pop(0) if has_repetition else None
        definition = sections.pop(0) if has_definition else None
        return num_slots, repetition, definition, tuple(sections)


def _levels(encoding: Encoding | None, blocks: Chunked | None, counts: Counts) -> Levels | None:
    return None if encoding is None or blocks is None else decode_levels(encoding, blocks, counts)


def _starts(counts: Counts) -> Counts:
    """Return where each part starts, and where the last one ends."""
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))


def _row_starts(index: Bytes, num_chunks: int, num_rows: int) -> tuple[Counts, Counts]:
    """Return (rows started, rows finished) before each chunk, and in all."""
    if len(index) != 16 * num_chunks:
        raise CorruptDataError(f"a repetition index of {len(index)} bytes for {num_chunks} chunks")
    pairs = index.view("<u8").reshape(-1, 2)
    if (pairs[:, 0] > num_rows).any():
        raise CorruptDataError(f"a chunk finishes {int(pairs[:, 0].max())} rows, the page has {num_rows}")
    finished = pairs[:, 0].astype(np.int64)
    continues = pairs[:, 1] > 0
    preamble = np.concatenate((np.zeros(1, np.bool_), continues[:-1]))
    started = finished + continues - preamble
    if (started < 0).any() or int(finished.sum()) != num_rows or continues[-1:].any():
        raise CorruptDataError(f"the repetition index does not make up {num_rows} rows")
    return _starts(started), _starts(finished)


def _renumber(rows: Rows, items: Counts, chunks: Counts) -> Rows:
    """Return rows as they are numbered when only ``chunks`` are decoded, for pages without lists."""
    if not len(chunks):
        return RowRange(0, 0)
    if isinstance(rows, RowRange):
        first = int(items[chunks[0]])
        return RowRange(rows.start - first, rows.stop - first)
    counts = items[chunks + 1] - items[chunks]
    shift = np.cumsum(counts) - counts - items[chunks]
    return rows + shift[np.searchsorted(items[chunks], rows, side="right") - 1]


def _rows_of_slots(
    repetition: Levels, num_slots: Counts, max_repetition: int, table: _ChunkTable, chunks: Counts
) -> Counts:
    """Return the row of every slot; a chunk may begin with the rest of a row of the chunk before it."""
    row_of_slot = rows_of_slots(repetition, max_repetition, 0)
    stops = np.cumsum(num_slots)
    started = np.append(row_of_slot, -1)[stops - 1] + 1
    first = started - np.diff(started, prepend=0)
    expected = table.rows[chunks + 1] - table.rows[chunks]
    if (np.diff(started, prepend=0) != expected).any():
        raise CorruptDataError("levels and repetition index disagree about the rows of a chunk")
    return row_of_slot + np.repeat(table.rows[chunks] - first, num_slots)
