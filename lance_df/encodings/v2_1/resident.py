"""Mini-block pages of 2.1 and 2.2 files in memory, without levels. See `encodings.resident`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from lance_df.encodings import kernels
from lance_df.encodings.arrays import concat_arrays, variable_array
from lance_df.encodings.fetch import take_spans
from lance_df.encodings.fsst import SymbolTable
from lance_df.encodings.gather import take
from lance_df.encodings.resident import CodedValues, is_plain_type, is_text
from lance_df.encodings.text import check_utf8
from lance_df.encodings.v2_1.buffers import Bytes, Chunked, Counts, as_bytes
from lance_df.encodings.v2_1.mini_block import MiniBlockPage
from lance_df.encodings.v2_1.values import bits_per_offset, bits_per_value, checked_text
from lance_df.errors import CorruptDataError, InvalidInputError
from lance_df.format.encodings_v2_1 import Flat, Fsst, InlineBitpacking, RepDefLayer, Rle, Variable

if TYPE_CHECKING:
    from collections.abc import Callable

    from lance_df.encodings.plan import IoPlan, RowPositions
    from lance_df.encodings.resident import ResidentPage
    from lance_df.encodings.v2_1.page import PageDecoder
    from lance_df.format.encodings_v2_1 import MiniBlockLayout
    from lance_df.storage import ByteRange

    Run = Callable[[IoPlan[Any]], Any]

_PLAIN_LAYERS = ((RepDefLayer.ALL_VALID_ITEM,), (RepDefLayer.NULLABLE_ITEM,))
_BLOCK = 1024
_MAX_RUN = 255
# from one row of so many on, all rows between them are decoded
_DENSE = 4
_WORD_BITS = (8, 16, 32, 64)
_INDEX_TYPES = {8: pa.uint8(), 16: pa.uint16(), 32: pa.uint32(), 64: pa.uint64()}
_MAX_SYMBOL_BYTES = 8
# what the positions of expanded codes within a chunk are counted with has 32 bits
_MAX_CODED_CHUNK = 1 << 27
_SLACK_BYTES = 64


def open_resident(decoder: PageDecoder, data_type: pa.DataType, run: Run) -> ResidentPage | None:
    """Return the reader of a page in memory; None for one that only its decoder reads.

    Parameters
    ----------
    run
        Runs the plans of decoders.
    """
    if not isinstance(decoder, MiniBlockPage) or not _is_plain(decoder.layout, data_type):
        return None
    return ResidentMiniBlock(decoder, data_type, run)


def _is_plain(layout: MiniBlockLayout, data_type: pa.DataType) -> bool:
    return (
        layout.repetition is None
        and layout.definition is None
        and layout.layers in _PLAIN_LAYERS
        and layout.num_buffers in (1, 2)
        and is_plain_type(data_type)
    )


class ResidentMiniBlock:
    """Decodes the chunks that rows lie in."""

    __slots__ = ("_chunks", "_dictionary", "_items", "_values")

    def __init__(self, decoder: MiniBlockPage, data_type: pa.DataType, run: Run) -> None:
        table, dictionary = run(decoder.read_state())
        data = as_bytes(run(_whole(decoder.buffers[1])))
        if int(table.bytes[-1]) > len(data):
            raise CorruptDataError(f"chunks take {table.bytes[-1]} bytes, the buffer has {len(data)}")
        self._items = table.items
        self._chunks = _Chunks(data, table.bytes, table.items, decoder.layout)
        self._values = _values_of(self._chunks, decoder, data_type, is_coded=dictionary is not None)
        self._dictionary = None if dictionary is None else CodedValues(dictionary.values, null_first=False)

    def read(self, start: int, stop: int, *, keep_dictionary: bool) -> pa.Array:
        """Return rows. See `ResidentPage`."""
        stored = self._read_stored(start, stop)
        return stored if self._dictionary is None else self._look_up(stored, keep_dictionary=keep_dictionary)

    def take(self, rows: RowPositions, *, keep_dictionary: bool) -> pa.Array:
        """Return single rows. See `ResidentPage`."""
        first, last = int(rows[0]), int(rows[-1])
        if len(rows) * _DENSE > last - first:
            stored = take(self._read_stored(first, last + 1), rows - first)
        else:
            stored = self._values.take(rows)
        return stored if self._dictionary is None else self._look_up(stored, keep_dictionary=keep_dictionary)

    def _read_stored(self, start: int, stop: int) -> pa.Array:
        first = int(self._items.searchsorted(start, "right")) - 1
        last = int(self._items.searchsorted(stop, "left"))
        return self._values.read(first, last).slice(start - int(self._items[first]), stop - start)

    def _look_up(self, stored: pa.Array, *, keep_dictionary: bool) -> pa.Array:
        assert self._dictionary is not None
        width = stored.type.bit_width // 8
        data = stored.buffers()[1].slice(stored.offset * width, len(stored) * width)
        numbers = np.frombuffer(data, f"<u{width}")
        numbers.flags.writeable = False  # as kernels are compiled for
        return self._dictionary.read(numbers, data, keep_dictionary=keep_dictionary)


@dataclass(frozen=True, slots=True)
class _Chunks:
    """The chunks of a page: where they start, and the first value of each, and where the last ends."""

    data: Bytes
    positions: Counts
    items: Counts
    layout: MiniBlockLayout

    def buffers(self, first: int, last: int) -> tuple[Counts, Counts]:
        """Return a row for each value buffer: where it starts in each chunk, and how many bytes it has."""
        layout = self.layout
        starts, sizes = np.empty((2, layout.num_buffers, last - first), np.int64)
        _check(
            kernels.chunk_buffers(
                self.data, self.positions, first, last - first, layout.has_large_chunk, starts, sizes
            )
        )
        return starts, sizes

    def count(self, first: int, last: int) -> int:
        return int(self.items[last] - self.items[first])


class _Values(Protocol):
    """Decodes the values of a page as they are stored: dictionary indices remain."""

    def read(self, first: int, last: int) -> pa.Array:
        """Return all values of chunks ``first`` to ``last`` (exclusive)."""
        ...

    def take(self, rows: RowPositions) -> pa.Array:
        """Return single values."""
        ...


def _values_of(chunks: _Chunks, decoder: MiniBlockPage, data_type: pa.DataType, *, is_coded: bool) -> _Values:
    encoding, num_buffers = chunks.layout.values, chunks.layout.num_buffers
    offset_bits = None if is_coded else bits_per_offset(data_type)
    match encoding:
        case Variable(bits) if bits == offset_bits and num_buffers == 1:
            return _Variable(chunks, data_type, bits // 8)
        case Fsst(table, Variable(bits)) if bits == offset_bits and num_buffers == 1:
            symbols = SymbolTable.parse(table)
            if symbols.is_compressed and int(np.diff(chunks.positions).max(initial=0)) < _MAX_CODED_CHUNK:
                return _Coded(chunks, data_type, bits // 8, symbols)
        case Flat(bits) | InlineBitpacking(bits) | Rle(Flat(bits), Flat(8)) if offset_bits is None:
            stored_type = _INDEX_TYPES.get(bits) if is_coded else data_type
            if stored_type is not None and bits == bits_per_value(stored_type):
                if isinstance(encoding, Flat) and bits and bits % 8 == 0 and num_buffers == 1:
                    return _Flat(chunks, stored_type, bits // 8)
                if isinstance(encoding, InlineBitpacking) and bits in _WORD_BITS and num_buffers == 1:
                    return _Packed(chunks, stored_type, bits // 8)
                if isinstance(encoding, Rle) and bits in _WORD_BITS and num_buffers == 2:
                    return _Runs(chunks, stored_type, bits // 8, decoder)
    return _General(chunks, decoder, is_coded=is_coded)


@dataclass(frozen=True, slots=True)
class _General:
    """Whatever the decoder of the page can do."""

    chunks: _Chunks
    decoder: MiniBlockPage
    is_coded: bool

    def read(self, first: int, last: int) -> pa.Array:
        chunks = self.chunks
        buffers = zip(*chunks.buffers(first, last), strict=True)
        counts = np.diff(chunks.items[first : last + 1])
        stored = self.decoder.decode_stored(
            tuple(Chunked(chunks.data, starts, sizes) for starts, sizes in buffers), counts
        )
        return stored if self.is_coded else self.decoder.finish_values(stored)

    def take(self, rows: RowPositions) -> pa.Array:
        """Decode whole chunks, each run of neighbours by itself."""
        items = self.chunks.items
        chunk_of_row = items.searchsorted(rows, "right") - 1
        cuts = np.flatnonzero(np.diff(chunk_of_row) > 1) + 1
        parts = []
        for part in np.split(np.arange(len(rows)), cuts):
            first, last = int(chunk_of_row[part[0]]), int(chunk_of_row[part[-1]])
            parts.append(take(self.read(first, last + 1), rows[part] - int(items[first])))
        return concat_arrays(parts, parts[0].type)


@dataclass(frozen=True, slots=True)
class _Flat:
    """Values back to back in each chunk."""

    chunks: _Chunks
    data_type: pa.DataType
    width: int

    def read(self, first: int, last: int) -> pa.Array:
        chunks = self.chunks
        count = chunks.count(first, last)
        data = pa.allocate_buffer(count * self.width)
        _check(
            kernels.copy_flat(
                chunks.data,
                chunks.positions,
                first,
                last - first,
                chunks.layout.has_large_chunk,
                chunks.items,
                self.width,
                np.frombuffer(data, np.uint8),
            )
        )
        return pa.Array.from_buffers(self.data_type, count, [None, data], 0)

    def take(self, rows: RowPositions) -> pa.Array:
        return _take_fixed(kernels.take_flat, self.chunks, self.data_type, self.width, rows)


@dataclass(frozen=True, slots=True)
class _Packed:
    """A bit-packed block in each chunk."""

    chunks: _Chunks
    data_type: pa.DataType
    width: int

    def read(self, first: int, last: int) -> pa.Array:
        chunks = self.chunks
        starts, widths = np.empty((2, last - first), np.int64)
        _check(
            kernels.packed_blocks(
                chunks.data,
                chunks.positions,
                first,
                last - first,
                chunks.layout.has_large_chunk,
                chunks.items,
                self.width,
                starts,
                widths,
            )
        )
        count = chunks.count(first, last)
        data = pa.allocate_buffer((count + _BLOCK) * self.width)
        kernels.unpack_blocks(
            _words(chunks.data, f"<u{self.width}"),
            starts,
            widths,
            np.diff(chunks.items[first : last + 1]),
            np.frombuffer(data, f"<u{self.width}"),
        )
        return pa.Array.from_buffers(self.data_type, count, [None, data], 0)

    def take(self, rows: RowPositions) -> pa.Array:
        return _take_fixed(kernels.take_packed, self.chunks, self.data_type, self.width, rows)


@dataclass(frozen=True, slots=True)
class _Runs:
    """Values and the lengths of their runs in each chunk."""

    chunks: _Chunks
    data_type: pa.DataType
    width: int
    decoder: MiniBlockPage

    def read(self, first: int, last: int) -> pa.Array:
        chunks = self.chunks
        (value_starts, length_starts), (value_sizes, num_runs) = chunks.buffers(first, last)
        counts = np.diff(chunks.items[first : last + 1])
        np.minimum(num_runs, value_sizes // self.width, out=num_runs)
        if (counts > num_runs * _MAX_RUN).any():
            raise CorruptDataError(f"chunks {first} to {last - 1} do not hold their values")
        count = chunks.count(first, last)
        data = pa.allocate_buffer(count * self.width)
        broken = kernels.expand_runs(
            _words(chunks.data, f"<u{self.width}"),
            value_starts // self.width,
            chunks.data,
            length_starts,
            num_runs,
            counts,
            np.frombuffer(data, f"<u{self.width}"),
        )
        _check(-1 if broken < 0 else first + broken)
        return pa.Array.from_buffers(self.data_type, count, [None, data], 0)

    def take(self, rows: RowPositions) -> pa.Array:
        return _take_fixed(kernels.take_runs, self.chunks, self.data_type, self.width, rows)


def _take_fixed(
    kernel: Callable[..., int], chunks: _Chunks, data_type: pa.DataType, width: int, rows: RowPositions
) -> pa.Array:
    data = pa.allocate_buffer(len(rows) * width)
    out = np.frombuffer(data, np.uint8)
    wide = chunks.layout.has_large_chunk
    _check(kernel(chunks.data, chunks.positions, chunks.items, wide, width, rows, out))
    return pa.Array.from_buffers(data_type, len(rows), [None, data], 0)


def _find_strings(chunks: _Chunks, width: int, rows: RowPositions) -> tuple[Counts, Counts]:
    """Return where the bytes of values start and end in the chunks."""
    starts, ends = np.empty((2, len(rows)), np.int64)
    words, wide = _words(chunks.data, f"<i{width}"), chunks.layout.has_large_chunk
    _check(kernels.find_strings(chunks.data, words, chunks.positions, chunks.items, wide, rows, starts, ends))
    return starts, ends


@dataclass(frozen=True, slots=True)
class _Variable:
    """Offsets and bytes in each chunk."""

    chunks: _Chunks
    data_type: pa.DataType
    width: int

    def read(self, first: int, last: int) -> pa.Array:
        chunks = self.chunks
        (starts,), (sizes,) = chunks.buffers(first, last)
        count = chunks.count(first, last)
        room = int(sizes.sum()) - (count + last - first) * self.width
        if room < 0:
            raise CorruptDataError(f"chunks {first} to {last - 1} have no room for their offsets")
        _check_total(room, self.width)
        offsets = pa.allocate_buffer((count + 1) * self.width)
        data = pa.allocate_buffer(room)
        ends = np.frombuffer(offsets, f"<i{self.width}")
        broken = kernels.gather_variable(
            chunks.data,
            _words(chunks.data, f"<i{self.width}"),
            starts,
            sizes,
            np.diff(chunks.items[first : last + 1]),
            ends,
            np.frombuffer(data, np.uint8) if room else np.empty(0, np.uint8),
        )
        if broken >= 0:
            raise CorruptDataError(f"offsets of chunk {first + broken} do not ascend, or lie outside of it")
        used = data.slice(0, int(ends[-1]))
        return checked_text(pa.Array.from_buffers(self.data_type, count, [None, offsets, used], 0))

    def take(self, rows: RowPositions) -> pa.Array:
        starts, ends = _find_strings(self.chunks, self.width, rows)
        bounds, data = take_spans(pa.py_buffer(self.chunks.data), starts, ends)
        return variable_array(self.data_type, bounds, data, None)


class _Coded:
    """Offsets and FSST codes in each chunk."""

    __slots__ = (
        "_bytes_per_code",
        "_chunks",
        "_data_type",
        "_is_ascii",
        "_longest",
        "_symbols",
        "_table",
        "_width",
    )

    def __init__(self, chunks: _Chunks, data_type: pa.DataType, width: int, symbols: SymbolTable) -> None:
        self._chunks = chunks
        self._data_type = data_type
        self._width = width
        self._symbols = symbols
        self._table = np.concatenate((symbols.symbols, symbols.lengths.astype(np.uint64)))
        self._longest = int(np.diff(chunks.positions).max(initial=0))
        symbol_bytes = symbols.symbols.view(np.uint8).reshape(-1, _MAX_SYMBOL_BYTES)
        counted = np.arange(_MAX_SYMBOL_BYTES) < symbols.lengths[:, None]
        self._is_ascii = not (symbol_bytes[counted] >= 0x80).any()
        self._bytes_per_code = 3.0  # learned while reading

    def read(self, first: int, last: int) -> pa.Array:
        chunks, width = self._chunks, self._width
        (starts,), (sizes,) = chunks.buffers(first, last)
        count = chunks.count(first, last)
        num_codes = int(sizes.sum()) - (count + last - first) * width
        reserve = _MAX_SYMBOL_BYTES * self._longest + _SLACK_BYTES
        offsets = pa.allocate_buffer((count + 1) * width)
        ends = np.frombuffer(offsets, f"<i{width}")
        ends[0] = 0
        state, places = np.zeros(3, np.int64), np.empty(self._longest + 1, np.int32)
        capacity = int(max(num_codes, 0) * self._bytes_per_code * 1.05) + reserve
        data = pa.allocate_buffer(capacity, resizable=True)
        while True:
            broken = kernels.expand_fsst_chunks(
                chunks.data,
                _words(chunks.data, f"<i{width}"),
                starts,
                sizes,
                chunks.items,
                first,
                state,
                self._table,
                places,
                ends,
                np.frombuffer(data, np.uint8),
            )
            if broken >= 0:
                raise CorruptDataError(
                    f"offsets of chunk {first + broken} do not ascend, lie outside of it or within an escape"
                )
            done, total, has_other_bytes = state.tolist()
            if done == last - first:
                break
            capacity = int(1.3 * total * len(starts) / max(done, 1)) + 2 * reserve
            data.resize(max(capacity, total + reserve))
        _check_total(total, width)
        if num_codes > 0:
            self._bytes_per_code = max(self._bytes_per_code * 0.99, total / num_codes)
        values = pa.Array.from_buffers(self._data_type, count, [None, offsets, data.slice(0, total)], 0)
        if is_text(self._data_type) and (has_other_bytes or not self._is_ascii):
            check_utf8(data, ends)
        return values

    def take(self, rows: RowPositions) -> pa.Array:
        starts, ends = _find_strings(self._chunks, self._width, rows)
        bounds, codes = take_spans(pa.py_buffer(self._chunks.data), starts, ends)
        content = np.frombuffer(codes, np.uint8) if codes.size else np.empty(0, np.uint8)
        expanded, data = self._symbols.expand(bounds, content)
        return variable_array(
            self._data_type, expanded.astype(np.int64, copy=False), pa.py_buffer(data), None
        )


def _words(data: Bytes, word: str) -> np.ndarray[Any, np.dtype[Any]]:
    """Return the whole of ``data`` as words."""
    width = int(word[-1])
    return data[: len(data) // width * width].view(word)


def _check(broken: int) -> None:
    if broken >= 0:
        raise CorruptDataError(f"chunk {broken} does not hold its values")


def _check_total(total: int, width: int) -> None:
    if width == 4 and total >= 1 << 31:
        raise InvalidInputError(f"{total} bytes do not fit into one array of 32-bit offsets: read fewer rows")


def _whole(buffer: ByteRange) -> IoPlan[pa.Buffer]:
    (data,) = yield [buffer]
    return data
