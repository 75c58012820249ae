"""Pages of 2.0 files in memory. See `encodings.resident`; what is stored how, the decoders say."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lance_df.encodings import kernels
from lance_df.encodings.arrays import null_array, variable_array, with_validity
from lance_df.encodings.fetch import pack_bits, take_spans
from lance_df.encodings.gather import FEW, take_words
from lance_df.encodings.picks import whole_page
from lance_df.encodings.plan import RowRange
from lance_df.encodings.resident import (
    CodedValues,
    Form,
    is_bytes,
    is_large,
    is_plain_type,
    is_text,
    viewed,
)
from lance_df.encodings.string_views import as_views
from lance_df.encodings.text import check_utf8
from lance_df.encodings.v2_0.binary import BinaryDecoder
from lance_df.encodings.v2_0.dictionary import DictionaryCodedDecoder
from lance_df.encodings.v2_0.ends import EndPositions
from lance_df.encodings.v2_0.flat import FlatDecoder, bits_of
from lance_df.encodings.v2_0.nullable import SomeNullsDecoder
from lance_df.errors import CorruptDataError
from lance_df.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable

    from lance_df.encodings.picks import PagePicks
    from lance_df.encodings.plan import IoPlan, RowPositions
    from lance_df.encodings.resident import LookupTable, ResidentPage, RowReader
    from lance_df.encodings.v2_0.decoder import Decoder
    from lance_df.storage import ByteRange

    Run = Callable[[IoPlan[Any]], Any]

_INT32_MAX = 2**31 - 1
_VIEW_BYTES = 16
_MOST_CHECKED = 4096


def open_resident(decoder: Decoder, run: Run) -> ResidentPage | None:
    """Return the reader of a page in memory; None for one that only its decoder reads.

    Parameters
    ----------
    run
        Runs the plans of decoders.
    """
    if not is_plain_type(decoder.data_type):
        return None
    match decoder:
        case FlatDecoder():
            return _flat(decoder, run)
        case SomeNullsDecoder(validity=FlatDecoder() as validity, values=FlatDecoder() as values):
            stored = _flat(values, run)
            return None if stored is None else ResidentNullable(stored, validity, run)
        case DictionaryCodedDecoder(indices=FlatDecoder() as indices, items=items):
            stored = _flat(indices, run)
            values = run(items.read(RowRange(0, items.num_values)))
            if stored is None or values.null_count:
                return None
            values = pa.concat_arrays([null_array(decoder.data_type, 1), values])
            return ResidentDictionary(stored, CodedValues(values, null_first=True))
        case BinaryDecoder(
            positions=EndPositions(ends=FlatDecoder(data_type=stored_type) as ends), scheme=None
        ) if stored_type == pa.uint64() and (is_text(decoder.data_type) or is_bytes(decoder.data_type)):
            stored = _flat(ends, run)
            return None if stored is None else ResidentBinary(decoder, stored, run)
    return None


@dataclass(frozen=True, slots=True)
class ResidentFlat:
    """Views of the file."""

    data_type: pa.DataType
    width: int
    data: pa.Buffer

    def reader(self, form: Form = Form.PLAIN) -> RowReader:
        """Return what reads rows. See `ResidentPage`."""
        del form
        data_type, width, part, array = self.data_type, self.width, self.data.slice, pa.Array.from_buffers

        def read(start: int, stop: int) -> pa.Array:
            count = stop - start
            return array(data_type, count, [None, part(start * width, count * width)], 0)

        return read

    def take(self, rows: RowPositions, form: Form = Form.PLAIN) -> pa.Array:
        """Return single rows. See `ResidentPage`."""
        del form
        data = take_words(self.data, self.width, rows)
        return pa.Array.from_buffers(self.data_type, len(rows), [None, data], 0)

    def picks(self) -> PagePicks:
        """Return how kernels pick single rows. See `ResidentPage`."""
        return whole_page(self.data, self.width, self.data_type)

    def bytes(self, start: int, stop: int) -> pa.Buffer:
        """Return the bytes of rows."""
        return self.data.slice(start * self.width, (stop - start) * self.width)


@dataclass(frozen=True, slots=True)
class ResidentNullable:
    """Views of the file, and bits that say which values are valid."""

    values: ResidentFlat
    validity: FlatDecoder
    run: Run

    def reader(self, form: Form) -> RowReader:
        """Return what reads rows. See `ResidentPage`."""
        del form
        values, data_type = self.values, self.values.data_type
        bits = self.run(_whole(self.validity.buffer))

        def read(start: int, stop: int) -> pa.Array:
            # arrays start within a byte of the bits
            whole, count = start & ~7, stop - start
            valid = bits.slice(whole >> 3, ((stop + 7) >> 3) - (whole >> 3))
            return pa.Array.from_buffers(
                data_type, count, [valid, values.bytes(whole, stop)], -1, start - whole
            )

        return read

    def take(self, rows: RowPositions, form: Form) -> pa.Array:
        """Return single rows. See `ResidentPage`."""
        del form
        bitmap = np.frombuffer(self.run(_whole(self.validity.buffer)), np.uint8)
        bits = bitmap[rows >> 3] >> (rows & 7).astype(np.uint8) & np.uint8(1)
        return with_validity(self.values.take(rows), pack_bits(bits))

    def picks(self) -> None:
        """Return None: nulls are elsewhere. See `ResidentPage`."""


@dataclass(frozen=True, slots=True)
class ResidentDictionary:
    """Indices, of which 0 is null, into values."""

    indices: ResidentFlat
    values: CodedValues

    def reader(self, form: Form) -> RowReader:
        """Return what reads rows. See `ResidentPage`."""
        table = None if Form.DICTIONARY in form else self.values.table(form)
        read = viewed(partial(self._read, form=form), self.values.values.type, form)
        return read if table is None else self._value_reader(table, read)

    def _read(self, start: int, stop: int, form: Form) -> pa.Array:
        data = self.indices.bytes(start, stop)
        return self.values.read(np.frombuffer(data, f"<u{self.indices.width}"), data, form)

    def _value_reader(self, table: LookupTable, read_few: RowReader) -> RowReader:
        stored, out_width, coded = self.indices.width, table.width, self.values
        kernel, source = f"look_up_{8 * stored}", self.indices.data.address
        allocate, array = pa.allocate_buffer, pa.Array.from_buffers

        def read(start: int, stop: int) -> pa.Array:
            count = stop - start
            if count < FEW or not kernels.are_worth(count):
                return read_few(start, stop)
            data = allocate(count * out_width)
            place = source + start * stored
            found = getattr(kernels, kernel)(
                place, count, 0, table.address, table.size, out_width, data.address
            )
            if found == -1:
                return array(table.data_type, count, [None, data, *table.shared], 0)
            if found < 0:
                raise coded.beyond(-2 - found)
            valid = np.frombuffer(self.indices.bytes(start, stop), f"<u{stored}") != 0
            num_nulls = count - int(np.count_nonzero(valid))
            return array(table.data_type, count, [pack_bits(valid), data, *table.shared], num_nulls)

        return read

    def take(self, rows: RowPositions, form: Form) -> pa.Array:
        """Return single rows. See `ResidentPage`."""
        data = take_words(self.indices.data, self.indices.width, rows)
        numbers = np.frombuffer(data, f"<u{self.indices.width}") if len(rows) else np.empty(0, np.uint8)
        return self.values.read(numbers, data, form)

    def picks(self) -> PagePicks:
        """Return how kernels pick single rows. See `ResidentPage`."""
        return self.indices.picks().decoding(self.values)


class ResidentBinary:
    """Ends of values, none of them null, and their bytes, which are viewed."""

    __slots__ = ("_bytes", "_checked", "_data_type", "_decoder", "_ends", "_limit", "_run", "_words")

    def __init__(self, decoder: BinaryDecoder, ends: ResidentFlat, run: Run) -> None:
        self._decoder = decoder
        self._data_type = decoder.data_type
        self._ends = ends
        self._words = np.frombuffer(ends.data, np.uint64, ends.data.size // 8)
        self._bytes = run(_whole(decoder.data))
        self._limit = min(self._bytes.size, decoder.positions.adjustment - 1)
        self._run = run
        # ranges of rows that are UTF-8; what is written stays as it is
        self._checked: set[tuple[int, int]] = set()

    def reader(self, form: Form) -> RowReader:
        """Return what reads rows. See `ResidentPage`."""
        if self._limit < 0:
            return viewed(self._read_generally, self._data_type, form)
        if Form.VIEWS in form and self._data_type == pa.string() and self._limit <= _INT32_MAX:
            return self._read_views
        return viewed(self._read, self._data_type, form)

    def _read_generally(self, start: int, stop: int) -> pa.Array:
        return self._run(self._decoder.read(RowRange(start, stop)))

    def _read(self, start: int, stop: int) -> pa.Array:
        count, ends = stop - start, self._ends.data.address
        if not kernels.are_worth(count):
            return self._read_generally(start, stop)
        width, read_ends = (
            (8, kernels.read_ends_64) if is_large(self._data_type) else (4, kernels.read_ends_32)
        )
        offsets = pa.allocate_buffer((count + 1) * width)
        num_bytes = read_ends(ends, start, stop, self._limit, offsets.address)
        if num_bytes < 0 or (width == 4 and num_bytes > _INT32_MAX):  # broken, or some are null
            return self._read_generally(start, stop)
        data = self._bytes.slice(self._end(start), num_bytes)
        if is_text(self._data_type) and (start, stop) not in self._checked:
            check_utf8(data, np.frombuffer(offsets, f"<i{width}"))
            self._note_checked(start, stop)
        return pa.Array.from_buffers(self._data_type, count, [None, offsets, data], 0)

    def _read_views(self, start: int, stop: int) -> pa.Array:
        count, is_checked = stop - start, (start, stop) in self._checked
        if not kernels.are_worth(count):
            return as_views(self._read_generally(start, stop))
        views, data = pa.allocate_buffer(count * _VIEW_BYTES), self._bytes
        ends = self._ends.data.address
        if kernels.view_ends(ends, start, stop, self._limit, data.address, is_checked, views.address) != -1:
            return as_views(self._read(start, stop))  # not ASCII, or broken, or some are null
        # engines count the bytes that arrays point to as taken
        data = data.slice(first := self._end(start), self._end(stop) - first)
        if not is_checked:
            self._note_checked(start, stop)
        return pa.Array.from_buffers(pa.string_view(), count, [None, views, data], 0)

    def _end(self, row: int) -> int:
        """Return where the value before a row ends."""
        return int(self._words[row - 1]) if row else 0

    def _note_checked(self, start: int, stop: int) -> None:
        if len(self._checked) < _MOST_CHECKED:
            self._checked.add((start, stop))

    def take(self, rows: RowPositions, form: Form) -> pa.Array:
        """Return single rows. See `ResidentPage`."""
        del form
        stored = self._words
        ends = stored.take(rows)
        starts = stored.take(rows - 1, mode="clip")
        if len(rows) and not rows[0]:
            starts[0] = 0
        if not len(rows) or int(ends.max()) > self._limit or (starts > ends).any():
            return self._run(self._decoder.read(rows))  # some are null, or broken
        bounds, data = take_spans(self._bytes, starts.view(np.int64), ends.view(np.int64))
        return variable_array(self._data_type, bounds, data, None)

    def picks(self) -> None:
        """Return None: values have no width. See `ResidentPage`."""


def _flat(decoder: FlatDecoder, run: Run) -> ResidentFlat | None:
    data_type = decoder.data_type
    width = bits_of(data_type) // 8
    if not width:  # strings of no bytes
        return None
    data = run(_whole(decoder.buffer))
    if data.size < decoder.num_values * width:
        raise CorruptDataError(f"{decoder.num_values} values of {width} bytes in {data.size} bytes")
    is_aligned = pa.types.is_fixed_size_binary(data_type) or data.address % min(width, 8) == 0
    return ResidentFlat(data_type, width, data) if is_aligned else None


def _whole(buffer: ByteRange) -> IoPlan[pa.Buffer]:
    (data,) = yield [buffer]
    return data
