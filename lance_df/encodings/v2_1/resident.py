"""Pages of 2.1 and 2.2 files in memory. See `encodings.resident`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lance_df.encodings.fsst import SymbolTable
from lance_df.encodings.gather import is_view, take, word_bytes
from lance_df.encodings.picks import whole_page
from lance_df.encodings.plan import RowRange
from lance_df.encodings.resident import CodedValues, Form, index_words, is_plain_type, viewed
from lance_df.encodings.v2_1.buffers import as_bytes, with_validity
from lance_df.encodings.v2_1.constant import ConstantPage
from lance_df.encodings.v2_1.full_zip import FullZipPage
from lance_df.encodings.v2_1.mini_block import MiniBlockPage
from lance_df.encodings.v2_1.nested import path_array
from lance_df.encodings.v2_1.resident_chunks import Chunks, Validity
from lance_df.encodings.v2_1.resident_strings import MAX_CODED_CHUNK, CodedStrings, PlainStrings
from lance_df.encodings.v2_1.resident_words import FlatValues, GeneralValues, PackedValues, RunValues
from lance_df.encodings.v2_1.values import INDEX_TYPES, bits_per_offset, bits_per_value
from lance_df.errors import CorruptDataError
from lance_df.format.encodings_v2_1 import Flat, Fsst, InlineBitpacking, RepDefLayer, Rle, Variable
from lance_df.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable

    from lance_df.encodings.picks import PagePicks
    from lance_df.encodings.plan import IoPlan, RowPositions, Rows
    from lance_df.encodings.resident import ResidentPage, RowReader
    from lance_df.encodings.v2_1.page import PageDecoder
    from lance_df.encodings.v2_1.resident_chunks import Mask, Values
    from lance_df.format.encodings_v2_1 import MiniBlockLayout
    from lance_df.storage import ByteRange

    Run = Callable[[IoPlan[Any]], Any]

_WORD_BITS = (8, 16, 32, 64)
_MAX_KEPT_BYTES = 1024 * 1024


def open_resident(decoder: PageDecoder, data_type: pa.DataType, run: Run) -> ResidentPage | None:
    """Return the reader of a page in memory; None for one that only its decoder reads.

    Parameters
    ----------
    run
        Runs the plans of decoders.
    """
    if not is_plain_type(data_type):
        return None
    if isinstance(decoder, ConstantPage):
        return ResidentConstant(decoder, data_type, run)
    if isinstance(decoder, FullZipPage):
        values = run(decoder.whole_values())
        return None if values is None else ResidentValues(values)
    if isinstance(decoder, MiniBlockPage) and _is_plain(decoder.layout):
        return ResidentMiniBlock(decoder, data_type, run)
    return None


def _is_plain(layout: MiniBlockLayout) -> bool:
    nullable = layout.layers == (RepDefLayer.NULLABLE_ITEM,)
    return (
        layout.repetition is None
        and (nullable or (layout.definition is None and layout.layers == (RepDefLayer.ALL_VALID_ITEM,)))
        and layout.num_buffers in (1, 2)
    )


@dataclass(frozen=True, slots=True)
class ResidentConstant:
    """One value, or null."""

    decoder: ConstantPage
    data_type: pa.DataType
    run: Run

    def reader(self, form: Form) -> RowReader:
        """Return what reads rows. See `ResidentPage`."""
        decode = viewed(lambda start, stop: self._decode(RowRange(start, stop)), self.data_type, form)
        kept: pa.Array | None = None

        def read(start: int, stop: int) -> pa.Array:
            nonlocal kept
            array = kept
            if array is not None and len(array) >= stop - start:
                return array.slice(0, stop - start)
            array = decode(start, stop)
            if self.decoder.is_uniform and array.nbytes <= _MAX_KEPT_BYTES:
                kept = array
            return array

        return read

    def take(self, rows: RowPositions, form: Form) -> pa.Array:
        """Return single rows. See `ResidentPage`."""
        del form
        return self._decode(rows)

    def picks(self) -> None:
        """Return None: there is nothing to pick from. See `ResidentPage`."""

    def _decode(self, rows: Rows) -> pa.Array:
        return path_array(self.run(self.decoder.decode(rows)), ())


@dataclass(frozen=True, slots=True)
class ResidentValues:
    """Values that lie in the file as Arrow has them."""

    values: pa.Array

    def reader(self, form: Form) -> RowReader:
        """Return what reads rows. See `ResidentPage`."""
        del form
        return lambda start, stop: self.values.slice(start, stop - start)

    def take(self, rows: RowPositions, form: Form) -> pa.Array:
        """Return single rows. See `ResidentPage`."""
        del form
        return take(self.values, rows)

    def picks(self) -> PagePicks | None:
        """Return how kernels pick single rows. See `ResidentPage`."""
        width = word_bytes(self.values.type)
        if not width or self.values.null_count or is_view(self.values.type):
            return None
        return whole_page(self.values.buffers()[1].slice(self.values.offset * width), width, self.values.type)


class ResidentMiniBlock:
    """Decodes the chunks that rows lie in."""

    __slots__ = ("_chunks", "_data_type", "_dictionary", "_validity", "_values")

    def __init__(self, decoder: MiniBlockPage, data_type: pa.DataType, run: Run) -> None:
        table, dictionary = run(decoder.read_state())
        data = as_bytes(run(_whole(decoder.buffers[1])))
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
        return values.index_reader(coded, lambda count, data: coded.pick(count, width, data))

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

    def picks(self) -> PagePicks | None:
        """Return how kernels pick single rows. See `ResidentPage`."""
        if self._validity is not None or not isinstance(self._values, FlatValues | PackedValues | RunValues):
            return None
        picks = self._values.picks()
        return picks if self._dictionary is None else picks.decoding(self._dictionary)

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


def _whole(buffer: ByteRange) -> IoPlan[pa.Buffer]:
    (data,) = yield [buffer]
    return data
