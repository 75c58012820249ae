"""Read chunks of mini-block pages in memory."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_df.encodings.arrays import empty_array
from lance_df.encodings.bitpacked.values import PackedValues
from lance_df.encodings.buffers import Chunked, with_validity
from lance_df.encodings.codecs.values import INDEX_TYPES, bits_per_offset, bits_per_value
from lance_df.encodings.dictionary.coded_values import CodedValues, index_words
from lance_df.encodings.flat.values import FlatValues
from lance_df.encodings.fsst.symbol_table import SymbolTable
from lance_df.encodings.fsst.values import MAX_CODED_CHUNK, CodedStrings
from lance_df.encodings.gather import take
from lance_df.encodings.layouts.leveled_page import LeveledPage
from lance_df.encodings.layouts.mini_block.general_values import GeneralValues
from lance_df.encodings.levels.decode import LevelScheme, Slots, decode_levels
from lance_df.encodings.levels.validity import Validity, definition_levels
from lance_df.encodings.loaded_page import Form, is_plain_type, viewed
from lance_df.encodings.plan import RowRange
from lance_df.encodings.rle.values import RunValues
from lance_df.encodings.variable.values import PlainStrings
from lance_df.errors import CorruptDataError
from lance_df.format.encodings_v2_1 import Flat, Fsst, InlineBitpacking, RepDefLayer, Rle, Variable

if TYPE_CHECKING:
    import numpy.typing as npt

    from lance_df.encodings.buffers import Counts
    from lance_df.encodings.chunks import Chunks, Values
    from lance_df.encodings.dictionary.decode import Dictionary
    from lance_df.encodings.layouts.mini_block.chunk_table import ChunkTable
    from lance_df.encodings.levels.decode import Levels
    from lance_df.encodings.levels.validity import Mask
    from lance_df.encodings.loaded_page import RowReader
    from lance_df.encodings.page_take import PageTake
    from lance_df.encodings.plan import RowPositions, Rows
    from lance_df.format.encodings_v2_1 import MiniBlockLayout


_WORD_BITS = (8, 16, 32, 64)
# no level encoding has more than 85 levels in a byte, unless all are 0 and all slots own a value
_MAX_LEVELS_PER_BYTE = 128


class LoadedChunks(LeveledPage):
    """All chunks of a page, or those of some rows; they are decoded as far as rows need them.

    Parameters
    ----------
    chunks
        The chunks, one after another.
    data_type
        The type of the values.
    dictionary
        The values that stored indices refer to.
    table, numbers
        For pages with lists: the chunk table of the page, and the numbers of these chunks in it; None for
        all. Rows are numbered within the page. Without lists, they are numbered within the chunks.
    """

    __slots__ = (
        "_chunks",
        "_data_type",
        "_dictionary",
        "_is_plain",
        "_numbers",
        "_scheme",
        "_table",
        "_validity",
        "_values",
    )

    def __init__(
        self,
        chunks: Chunks,
        data_type: pa.DataType,
        dictionary: Dictionary | None = None,
        table: ChunkTable | None = None,
        numbers: Counts | None = None,
    ) -> None:
        self._chunks = chunks
        self._data_type = data_type
        self._dictionary = dictionary
        self._table = table
        self._numbers = numbers
        self._scheme = LevelScheme.of(chunks.layout.layers)
        self._values = _values_of(chunks, data_type, is_coded=dictionary is not None)
        self._is_plain = is_plain_type(data_type) and _is_flat(chunks.layout)
        self._validity = Validity(chunks) if self._is_plain and chunks.levels else None

    def reader(self, form: Form) -> RowReader:
        """Return a reader of rows. See `LoadedPage`."""
        if not self._is_plain:
            return super().reader(form)
        coded = None if self._dictionary is None else self._dictionary.coded
        if coded is not None and self._validity is None and isinstance(self._values, PackedValues):
            return self._packed_reader(self._values, coded, form)
        read, validity = self._values.reader(form), self._validity
        if coded is not None:
            return self._coded_reader(read, coded, form)
        if validity is None:
            return viewed(read, form)

        def read_nullable(start: int, stop: int) -> pa.Array:
            return with_validity(read(start, stop), validity.read(start, stop))

        return viewed(read_nullable, form)

    def _coded_reader(self, read_indices: RowReader, coded: CodedValues, form: Form) -> RowReader:
        validity, finish = self._validity, coded.finisher(form)

        def read(start: int, stop: int) -> pa.Array:
            indices = read_indices(start, stop)
            return finish(indices, None if validity is None else validity.read(start, stop))

        return viewed(read, form)

    def _packed_reader(self, values: PackedValues, coded: CodedValues, form: Form) -> RowReader:
        width = coded.index_width()
        if Form.DICTIONARY in form:
            return values.index_reader(coded, lambda count, data: coded.wrap(count, width, data))
        if (table := coded.table(form)) is not None:
            return values.value_reader(coded, table)
        return values.index_reader(coded, lambda count, data: coded.take(count, width, data))

    def take(self, rows: RowPositions, form: Form) -> pa.Array:
        """Return single rows. See `LoadedPage`."""
        if not self._is_plain:
            return super().take(rows, form)
        stored, valid = self._stored(rows), self._valid(rows)
        if self._dictionary is None:
            return with_validity(stored, valid)
        width = stored.type.bit_width // 8
        data = stored.buffers()[1].slice(stored.offset * width, len(stored) * width)
        return self._dictionary.coded.read(index_words(data, width, len(stored)), data, form, valid=valid)

    def _valid(self, rows: RowPositions) -> Mask | None:
        if self._validity is None:
            return None
        if not self._are_dense(rows):
            return self._validity.take(rows)
        first, last = int(rows[0]), int(rows[-1])
        return self._validity.read(first, last + 1)[rows - first]

    def page_take(self) -> PageTake | None:
        """Return the object by which kernels take single rows. See `LoadedPage`."""
        if not self._is_plain or self._validity is not None:
            return None
        if not isinstance(self._values, FlatValues | PackedValues | RunValues):
            return None
        page_take = self._values.page_take()
        return page_take if self._dictionary is None else page_take.decoding(self._dictionary.coded)

    def slots(self, rows: Rows) -> Slots:
        """Return the slots of rows. See `LeveledPage`."""
        if self._scheme.max_repetition:
            return self._list_slots(rows)
        definition = None
        if self._chunks.layout.definition is not None:
            definition = definition_levels(self._chunks, rows)
        levels = Slots(self._scheme, None, definition, pa.nulls(len(rows)))
        return replace(levels, values=self._decoded(rows, levels.checked().nulls()))

    def _list_slots(self, rows: Rows) -> Slots:
        """Return the slots of rows of the page; the levels, decoded first, say which items belong to them."""
        table = self._table
        assert table is not None
        numbers = table.chunks_of(rows) if len(rows) else np.empty(0, np.int64)
        here = numbers if self._numbers is None else np.searchsorted(self._numbers, numbers)
        repetition, definition, num_slots = self._levels(here)
        row_of_slot = table.rows_of_slots(repetition, num_slots, self._scheme.max_repetition, numbers)
        num_items = int(self._chunks.counts(here).sum())
        slots = Slots(self._scheme, repetition, definition, pa.nulls(num_items)).checked()
        slots, chosen = slots.select_levels(rows, row_of_slot)
        if not len(chosen):
            return replace(slots, values=empty_array(self._data_type))
        return replace(slots, values=self._decoded(self._chunks.rows_of(here, chosen), slots.nulls()))

    def _levels(self, numbers: Counts) -> tuple[Levels, Levels | None, Counts]:
        """Return the levels of chunks of lists, and the number of slots of each chunk."""
        chunks, layout = self._chunks, self._chunks.layout
        if layout.repetition is None:
            raise CorruptDataError("a page of lists has no repetition levels")
        starts, sizes = chunks.find(numbers)
        num_slots = chunks.words("<u2")[chunks.positions[numbers] // 2].astype(np.int64)
        num_bytes = chunks.positions[numbers + 1] - chunks.positions[numbers]
        if (num_slots > chunks.counts(numbers) + num_bytes * _MAX_LEVELS_PER_BYTE).any():
            raise CorruptDataError(
                f"a chunk declares {int(num_slots.max())} levels, more than its bytes can hold"
            )
        repetition = decode_levels(layout.repetition, Chunked(chunks.data, starts[0], sizes[0]), num_slots)
        if layout.definition is None:
            return repetition, None, num_slots
        definition = decode_levels(layout.definition, Chunked(chunks.data, starts[1], sizes[1]), num_slots)
        return repetition, definition, num_slots

    def _decoded(self, rows: Rows, is_null: npt.NDArray[np.bool_] | None) -> pa.Array:
        """Return values whose nulls are not marked."""
        if not len(rows):
            return empty_array(self._data_type)
        stored = self._stored(rows)
        return stored if self._dictionary is None else self._dictionary.look_up(stored, is_null)

    def _stored(self, rows: Rows) -> pa.Array:
        """Return values as stored, that is, with dictionary indices not looked up."""
        if isinstance(rows, RowRange):
            return self._values.reader(Form.PLAIN)(rows.start, rows.stop)
        if not self._are_dense(rows):
            return self._values.take(rows)
        first, last = int(rows[0]), int(rows[-1])
        return take(self._values.reader(Form.PLAIN)(first, last + 1), rows - first)

    def _are_dense(self, rows: RowPositions) -> bool:
        return len(rows) * self._values.dense > int(rows[-1]) - int(rows[0])


def _is_flat(layout: MiniBlockLayout) -> bool:
    """Whether values have no lists or structs above them, and at most one level for nulls."""
    if layout.repetition is not None:
        return False
    nullable = layout.layers == (RepDefLayer.NULLABLE_ITEM,)
    return nullable or (layout.definition is None and layout.layers == (RepDefLayer.ALL_VALID_ITEM,))


def _values_of(chunks: Chunks, data_type: pa.DataType, *, is_coded: bool) -> Values:
    encoding, num_buffers = chunks.layout.values, chunks.layout.num_buffers
    has_kernels = chunks.levels < 2 and (is_coded or is_plain_type(data_type))
    offset_bits = None if is_coded else bits_per_offset(data_type)
    match encoding:
        case _ if not has_kernels:
            pass
        case Variable(bits) if bits == offset_bits and num_buffers == 1:
            return PlainStrings(chunks, data_type, bits // 8)
        case Fsst(table, Variable(bits)) if bits == offset_bits and num_buffers == 1:
            symbols = SymbolTable.parse(table)
            if symbols.is_compressed and int(np.diff(chunks.positions).max(initial=0)) < MAX_CODED_CHUNK:
                return CodedStrings(chunks, data_type, bits // 8, symbols)
        case Flat(bits) | InlineBitpacking(bits) | Rle(Flat(bits), Flat(8)) if offset_bits is None:
            stored_type = INDEX_TYPES.get(bits) if is_coded else data_type
            if stored_type is not None and bits == bits_per_value(stored_type):
                if isinstance(encoding, Flat) and bits and bits % 8 == 0 and num_buffers == 1:
                    return FlatValues(chunks, stored_type, bits // 8)
                if isinstance(encoding, InlineBitpacking) and bits in _WORD_BITS and num_buffers == 1:
                    return PackedValues(chunks, stored_type, bits // 8)
                if isinstance(encoding, Rle) and bits in _WORD_BITS and num_buffers == 2:
                    return RunValues(chunks, stored_type, bits // 8)
    return GeneralValues(chunks, data_type, is_coded)
