"""Mini-block pages in memory, without lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_df.encodings.bitpacked.values import PackedValues
from lance_df.encodings.buffers import as_bytes, with_validity
from lance_df.encodings.chunks import Chunks
from lance_df.encodings.codecs.values import INDEX_TYPES, bits_per_offset, bits_per_value
from lance_df.encodings.dictionary.coded_values import CodedValues, index_words
from lance_df.encodings.flat.values import FlatValues
from lance_df.encodings.fsst.symbol_table import SymbolTable
from lance_df.encodings.fsst.values import MAX_CODED_CHUNK, CodedStrings
from lance_df.encodings.gather import take
from lance_df.encodings.layouts.mini_block.general_values import GeneralValues
from lance_df.encodings.layouts.mini_block.page import MiniBlockPage
from lance_df.encodings.levels.validity import Validity
from lance_df.encodings.plan import read_whole
from lance_df.encodings.resident import Form, viewed
from lance_df.encodings.rle.values import RunValues
from lance_df.encodings.variable.values import PlainStrings
from lance_df.errors import CorruptDataError
from lance_df.format.encodings_v2_1 import Flat, Fsst, InlineBitpacking, Rle, Variable

if TYPE_CHECKING:
    from lance_df.encodings.chunks import Values
    from lance_df.encodings.levels.validity import Mask
    from lance_df.encodings.page_take import PageTake
    from lance_df.encodings.plan import RowPositions
    from lance_df.encodings.resident import RowReader, Run


_WORD_BITS = (8, 16, 32, 64)


class ResidentMiniBlock:
    """Decodes the chunks that rows lie in."""

    __slots__ = ("_chunks", "_data_type", "_dictionary", "_validity", "_values")

    def __init__(self, decoder: MiniBlockPage, data_type: pa.DataType, run: Run) -> None:
        table, dictionary = run(decoder.read_state())
        data = as_bytes(run(read_whole(decoder.buffers[1])))
        if int(table.bytes[-1]) > len(data):
            raise CorruptDataError(f"chunks take {table.bytes[-1]} bytes, the buffer has {len(data)}")
        self._data_type = data_type
        self._chunks = Chunks(data, table.bytes, table.items, decoder.layout)
        self._values = _values_of(self._chunks, decoder, data_type, is_coded=dictionary is not None)
        self._dictionary = None if dictionary is None else CodedValues(dictionary.values, null_first=False)
        self._validity = Validity(self._chunks) if self._chunks.levels else None

    def reader(self, form: Form) -> RowReader:
        """Return what reads rows. See `ResidentPage`."""
        if self._dictionary is not None and self._validity is None and isinstance(self._values, PackedValues):
            return self._packed_reader(self._values, self._dictionary, form)
        read, validity = self._values.reader(form), self._validity
        if self._dictionary is not None:
            return self._coded_reader(read, self._dictionary, form)
        if validity is None:
            return viewed(read, self._data_type, form)

        def read_nullable(start: int, stop: int) -> pa.Array:
            return with_validity(read(start, stop), validity.read(start, stop))

        return viewed(read_nullable, self._data_type, form)

    def _coded_reader(self, read_indices: RowReader, coded: CodedValues, form: Form) -> RowReader:
        validity, finish = self._validity, coded.finisher(form)

        def read(start: int, stop: int) -> pa.Array:
            indices = read_indices(start, stop)
            return finish(indices, None if validity is None else validity.read(start, stop))

        return viewed(read, self._data_type, form)

    def _packed_reader(self, values: PackedValues, coded: CodedValues, form: Form) -> RowReader:
        width = coded.index_width()
        if Form.DICTIONARY in form:
            return values.index_reader(coded, lambda count, data: coded.wrap(count, width, data))
        if (table := coded.table(form)) is not None:
            return values.value_reader(coded, table)
        return values.index_reader(coded, lambda count, data: coded.take(count, width, data))

    def take(self, rows: RowPositions, form: Form) -> pa.Array:
        """Return single rows. See `ResidentPage`."""
        first, last = int(rows[0]), int(rows[-1])
        if len(rows) * self._values.dense > last - first:
            stored = take(self._values.reader(Form.PLAIN)(first, last + 1), rows - first)
            valid = None if self._validity is None else self._validity.read(first, last + 1)[rows - first]
        else:
            stored = self._values.take(rows)
            valid = None if self._validity is None else self._validity.take(rows)
        return self._finish(stored, valid, form)

    def page_take(self) -> PageTake | None:
        """Return how kernels take single rows. See `ResidentPage`."""
        if self._validity is not None or not isinstance(self._values, FlatValues | PackedValues | RunValues):
            return None
        page_take = self._values.page_take()
        return page_take if self._dictionary is None else page_take.decoding(self._dictionary)

    def _finish(self, stored: pa.Array, valid: Mask | None, form: Form) -> pa.Array:
        if self._dictionary is None:
            return with_validity(stored, valid)
        width = stored.type.bit_width // 8
        data = stored.buffers()[1].slice(stored.offset * width, len(stored) * width)
        return self._dictionary.read(index_words(data, width, len(stored)), data, form, valid=valid)


def _values_of(chunks: Chunks, decoder: MiniBlockPage, data_type: pa.DataType, *, is_coded: bool) -> Values:
    encoding, num_buffers = chunks.layout.values, chunks.layout.num_buffers
    offset_bits = None if is_coded else bits_per_offset(data_type)
    match encoding:
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
    return GeneralValues(chunks, decoder, is_coded)
